// What a few devices that are sold are, for the simulator: public data sheets.
#include <array>
#include <string_view>

#include "gpu_simulator/entry.hpp"
#include "simulator.hpp"

namespace devrt::gpu_simulator {
namespace {

constexpr std::array<Model, 2> kModels{{
    {.key = "mi300x",
     .name = "AMD Instinct MI300X",
     .architecture = "gfx942",
     .major = 9,
     .minor = 4,
     .multiprocessors = 304,
     .clock_khz = 2100000,
     .memory_clock_khz = 1300000,
     .memory_bus_bits = 8192,
     .l2_bytes = 4194304,
     .warp = 64,
     .shared_bytes_per_block = 65536},
    {.key = "mi250x",
     .name = "AMD Instinct MI250X",
     .architecture = "gfx90a",
     .major = 9,
     .minor = 0,
     .multiprocessors = 110,
     .clock_khz = 1700000,
     .memory_clock_khz = 1600000,
     .memory_bus_bits = 4096,
     .l2_bytes = 8388608,
     .warp = 64,
     .shared_bytes_per_block = 65536},
}};

}  // namespace

std::span<const Model> models() { return kModels; }

std::string_view platform_name() { return "rocm"; }
void choose_device(Machine& machine, int device) {
  machine.use(device);
  devrt_rocm::chosen_device() = device;
}
int chosen_device(Machine&) { return devrt_rocm::chosen_device(); }

}  // namespace devrt::gpu_simulator
