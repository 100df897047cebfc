// What a few devices that are sold are, for the simulator: public data sheets, and the limits by
// compute capability of the CUDA programming guide.
#include <array>
#include <string_view>

#include "gpu_simulator/entry.hpp"

namespace devrt::gpu_simulator {
namespace {

constexpr std::array<Model, 3> kModels{{
    {.key = "h100",
     .name = "NVIDIA H100 80GB HBM3",
     .architecture = "sm_90",
     .major = 9,
     .minor = 0,
     .multiprocessors = 132,
     .clock_khz = 1980000,
     .memory_clock_khz = 2619000,
     .memory_bus_bits = 5120,
     .l2_bytes = 52428800,
     .shared_bytes_per_block = 232448},
    {.key = "a100",
     .name = "NVIDIA A100-SXM4-80GB",
     .architecture = "sm_80",
     .major = 8,
     .minor = 0,
     .multiprocessors = 108,
     .clock_khz = 1410000,
     .memory_clock_khz = 1593000,
     .memory_bus_bits = 5120,
     .l2_bytes = 41943040,
     .shared_bytes_per_block = 166912},
    {.key = "t4",
     .name = "Tesla T4",
     .architecture = "sm_75",
     .major = 7,
     .minor = 5,
     .multiprocessors = 40,
     .clock_khz = 1590000,
     .memory_clock_khz = 5001000,
     .memory_bus_bits = 256,
     .l2_bytes = 4194304,
     .threads_per_multiprocessor = 1024,
     .shared_bytes_per_block = 65536},
}};

}  // namespace

std::span<const Model> models() { return kModels; }

std::string_view platform_name() { return "cuda"; }
void choose_device(Machine& machine, int device) { machine.use(device); }
int chosen_device(Machine& machine) { return machine.current_device(); }

}  // namespace devrt::gpu_simulator
