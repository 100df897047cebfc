#include "gpu/device_memory.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "devrt/memory/limit_allocator.hpp"

namespace devrt::gpu {

namespace {

constexpr std::size_t kSmallest = std::size_t{1} << 20;     // that a pool is given
constexpr std::size_t kSmallRegion = std::size_t{8} << 20;  // of the arena in front of a pool
constexpr std::size_t kBfcRegion = std::size_t{64} << 20;   // of memory that is an arena's
constexpr std::size_t kManagedRegion = std::size_t{16} << 20;
constexpr double kUsualFraction = 0.75;  // XLA's

std::size_t part_of(const GpuDevice& device, double fraction) {
  return static_cast<std::size_t>(static_cast<double>(device.total_memory()) * fraction);
}

AllocatorKind kind_for(const GpuDevice& device, AllocatorKind requested) {
  if (requested == AllocatorKind::kDefault) {
    return has_pools(device) ? AllocatorKind::kPool : AllocatorKind::kBfc;
  }
  if (requested == AllocatorKind::kPool && !has_pools(device)) {
    throw StatusError(Status(StatusCode::kUnimplemented,
                             device.name() + " has no memory pools. Use allocator='bfc'.")
                          .during("make_gpu_client")
                          .on(device.name()));
  }
  return requested;
}

/// Returns how many bytes the options take of a device at once.
std::size_t preallocated_bytes(const GpuDevice& device, const Options& options) {
  if (!options.preallocate || options.allocator == AllocatorKind::kPlatform) return 0;
  const double fraction = std::min(options.memory_fraction.value_or(kUsualFraction), 1.0);
  const std::size_t granule = ArenaOptions{}.granule;  // an arena takes whole ones
  return part_of(device, fraction) / granule * granule;
}

/// Blocks of an allocator, given back at the end: a pool, or an arena, keeps them.
class TakenOnce {
 public:
  TakenOnce(const GpuDevice& device, HostAllocator& from) : device_(device), from_(from) {}
  TakenOnce(const TakenOnce&) = delete;
  TakenOnce& operator=(const TakenOnce&) = delete;
  ~TakenOnce() {
    for (const auto& [data, bytes] : blocks_) from_.deallocate(data, bytes);
  }

  void take(std::size_t bytes) {
    blocks_.reserve(blocks_.size() + 1);
    // Of a driver's allocation every alignment is met, and more bytes would be beyond the limit.
    void* data = from_.allocate(bytes, 1);
    if (!data) {
      throw StatusError(Status(StatusCode::kResourceExhausted,
                               std::to_string(bytes) + " bytes cannot be taken in advance on " +
                                   device_.name() +
                                   ". Request a smaller memory_fraction, or leave preallocate out.")
                            .during("make_gpu_client")
                            .on(device_.name()));
    }
    blocks_.emplace_back(data, bytes);
  }

 private:
  const GpuDevice& device_;
  HostAllocator& from_;
  std::vector<std::pair<void*, std::size_t>> blocks_;
};

/// Has a pool hold bytes beside what is in use, and as much as all its clients take in advance. It
/// keeps them as far as its release threshold goes.
void preallocate_in_pool(GpuDevice& device, PoolAllocator& pool, std::size_t bytes) {
  static std::mutex one_at_a_time;  // what another is taking would count as in use
  std::lock_guard lock(one_at_a_time);
  const std::size_t least = std::max(pool.used() + bytes, preallocated_in_pool(device));
  {
    TakenOnce taken(device, pool);
    // A block may be what the pool holds already.
    for (std::size_t held = pool.held(); held < least; held = pool.held()) {
      taken.take(least - held);
    }
  }
  // The pool has it when the stream has come there: the first array would take as much beside it.
  device.finish(device.release_stream());
}

DeviceMemory make_memory(const std::shared_ptr<GpuDevice>& device, const Options& options) {
  const AllocatorKind kind = kind_for(*device, options.allocator);
  const std::size_t preallocated = preallocated_bytes(*device, options);
  DeviceMemory made;
  if (options.memory_fraction) {
    made.budget = std::make_shared<ByteBudget>(
        std::max<std::size_t>(part_of(*device, *options.memory_fraction), 1));
  }
  if (kind == AllocatorKind::kPool) {
    PoolShare share{.preallocated = preallocated};
    if (made.budget) share.limit = made.budget->limit();
    made.pool_settings = std::make_unique<PoolSettings>(device, share);
    auto pool = std::make_shared<PoolAllocator>(device);
    if (preallocated > 0) preallocate_in_pool(*device, *pool, preallocated);
    made.allocator = std::make_shared<ArenaInFront>(
        std::move(pool), ArenaOptions{.region_bytes = kSmallRegion, .keep_bytes = 2 * kSmallRegion},
        kSmallest);
  } else {
    made.allocator = std::make_shared<PlatformAllocator>(device);
  }
  if (kind == AllocatorKind::kBfc) {
    if (made.budget) {  // which bounds what the arena hands out; this, what it takes
      made.allocator = std::make_shared<LimitAllocator>(
          std::move(made.allocator), std::make_shared<ByteBudget>(made.budget->limit()));
    }
    made.arena = std::make_shared<ArenaInFront>(std::move(made.allocator),
                                                ArenaOptions{.region_bytes = kBfcRegion},
                                                std::numeric_limits<std::size_t>::max());
    made.arena->keep(preallocated);
    if (preallocated > 0) TakenOnce(*device, *made.arena).take(preallocated);
    made.allocator = made.arena;
  }
  return made;
}

}  // namespace

std::vector<DeviceMemory> make_memories(std::span<const std::shared_ptr<GpuDevice>> devices,
                                        const Options& options) {
  std::vector<DeviceMemory> made;
  for (const auto& device : devices) made.push_back(make_memory(device, options));
  const bool has_managed = std::ranges::all_of(
      devices, [](const auto& device) { return ManagedAllocator::is_supported(*device); });
  if (!has_managed) return made;  // a device's is used by all others
  for (std::size_t i = 0; i < devices.size(); ++i) {
    made[i].managed = std::make_shared<ArenaAllocator>(
        std::make_shared<ManagedAllocator>(devices[i]),
        ArenaOptions{.region_bytes = kManagedRegion, .keep_bytes = kManagedRegion});
  }
  return made;
}

}  // namespace devrt::gpu
