// The CPU as devices of the native client: any number of them, which share the host's memory.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/client.hpp"

namespace devrt::native {

namespace {

/// Heap blocks from here on are kept for reuse; malloc does well with smaller ones.
constexpr std::size_t kSmallestRecycled = std::size_t{64} << 10;
/// Every one: locking even a single page takes calls into the system.
constexpr std::size_t kEvery = 1;

class CpuBackend final : public DeviceBackend {
 public:
  explicit CpuBackend(int num_devices) : num_devices_(num_devices) {}

  std::vector<DeviceFacts> devices() override {
    const std::vector<MemoryKind> memories = {
        {"device", 0, std::make_shared<AlignedAllocator>(), true, kSmallestRecycled},
        {"pinned_host", 1, std::make_shared<PageLockedAllocator>(), true, kEvery},
        {"unpinned_host", 2, std::make_shared<AlignedAllocator>(), true, kSmallestRecycled}};
    std::vector<DeviceFacts> found;
    for (int i = 0; i < num_devices_; ++i) found.push_back({i, "cpu", memories, {}});
    return found;
  }

 private:
  const int num_devices_;
};

/// The extensions that only plugins for other devices than the CPU have, by their numbers.
constexpr int kOfOtherDevices[] = {0, 7, 16, 17, 18};

std::vector<pjrt::Option> engine_options(std::span<const DeviceFacts> devices,
                                         const ClientOptions&) {
  return {{"cpu_device_count", static_cast<std::int64_t>(devices.size())}};
}

}  // namespace

const Platform& platform() {
  static const Platform cpu{
      .name = "cpu",
      .engine = {.platform = "cpu",
                 .other_extensions = kOfOtherDevices,
                 .others = "GPUs or TPUs",
                 .remedy = "Name one of XLA's compilers for the CPU, or leave cpu_engine out.",
                 .options = &engine_options,
                 .last_minor_apart = 106}};
  return cpu;
}

std::shared_ptr<DeviceBackend> make_backend(const ClientOptions& options) {
  return std::make_shared<CpuBackend>(options.num_devices);
}

}  // namespace devrt::native
