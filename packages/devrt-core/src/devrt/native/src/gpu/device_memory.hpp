// The memory of each device of a client: its allocators, by the client's options.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "devrt/memory/memory_stats.hpp"
#include "gpu/allocators.hpp"
#include "gpu/default_pool.hpp"
#include "gpu/options.hpp"

namespace devrt::gpu {

struct DeviceMemory {
  std::shared_ptr<HostAllocator> allocator;
  std::shared_ptr<ArenaInFront> arena;          ///< the allocator, where all memory is an arena's
  std::shared_ptr<HostAllocator> managed;       ///< null where the client has no such memory
  std::unique_ptr<PoolSettings> pool_settings;  ///< null where it does not use the device's pool
  std::shared_ptr<ByteBudget> budget;           ///< null where the options set no limit
};

/// Returns the memory of each device. Throws UNIMPLEMENTED where a device lacks what the options
/// name, RESOURCE_EXHAUSTED where what they take at once is not free.
std::vector<DeviceMemory> make_memories(std::span<const std::shared_ptr<GpuDevice>> devices,
                                        const Options& options);

}  // namespace devrt::gpu
