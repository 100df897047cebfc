// What a backend does that does not say otherwise.
#include "client/device_backend.hpp"

#include <algorithm>

#include "client/client.hpp"
#include "devrt/memory/arena_allocator.hpp"
#include "devrt/memory/huge_page_allocator.hpp"

namespace devrt::native {

ReadyEvent DeviceBackend::copy(const Queue&, std::span<const RegionCopy>) {
  throw StatusError(Status(StatusCode::kUnimplemented,
                           "The " + platform().name +
                               " backend has memory that the host cannot reach and copies none. "
                               "Override DeviceBackend::copy.")
                        .during("copy"));
}

std::shared_ptr<KernelModule> DeviceBackend::load_kernels(std::size_t, const std::string&) {
  throw StatusError(
      Status(StatusCode::kUnimplemented, "The " + platform().name + " backend runs no kernels.")
          .during("compile"));
}

std::int64_t default_recycled_bytes() noexcept {
  return std::min(std::int64_t{1} << 30, physical_memory_bytes() / 16);
}

std::shared_ptr<HostAllocator> huge_page_arena() {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  constexpr std::size_t kKept = std::size_t{64} << 20;  // bytes, of those that are free
  return std::make_shared<ArenaAllocator>(std::make_shared<HugePageAllocator>(),
                                          ArenaOptions{.granule = kHugePage, .keep_bytes = kKept});
}

}  // namespace devrt::native
