// A device's default memory pool. It is the process's: the engine and other libraries use it too.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "gpu/device.hpp"

namespace devrt::gpu {

/// Returns whether a device has memory pools. Throws what the driver says: taken for "no", it would
/// leave peers without access to memory that is in a pool after all.
bool has_pools(const GpuDevice& device);

/// Returns a device's default pool; throws what the driver says.
PoolHandle* default_pool(const GpuDevice& device);

/// Lets a peer's copies and kernels use the memory of a device's default pool: the peer access of
/// contexts does not reach what is in pools. It stays, as that does, since others may rely on it.
Result open_pool(const GpuDevice& owner, const GpuDevice& peer) noexcept;

/// Returns how many bytes of a device's default pool the process's clients have taken in advance.
std::size_t preallocated_in_pool(const GpuDevice& device);

/// What a client takes of a default pool.
struct PoolShare {
  std::size_t preallocated = 0;        ///< bytes that it takes in advance
  std::optional<std::size_t> limit{};  ///< bytes that it may have in use; none: all
};

/// What a client needs of a default pool, for as long as it lives. The last client of the process
/// gives back what was there before the first, unless somebody else has changed it meanwhile.
class PoolSettings {
 public:
  PoolSettings(std::shared_ptr<GpuDevice> device, PoolShare share);
  PoolSettings(const PoolSettings&) = delete;
  PoolSettings& operator=(const PoolSettings&) = delete;
  ~PoolSettings();

  /// Sets them again, after somebody else has.
  void set() const;

 private:
  const std::shared_ptr<GpuDevice> device_;
  PoolHandle* const pool_;
  const PoolShare share_;
};

}  // namespace devrt::gpu
