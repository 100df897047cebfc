// Where the memory of GPUs comes from, and page-locked memory of the host.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "devrt/buffers/storage_uses.hpp"
#include "devrt/memory/allocator.hpp"
#include "devrt/memory/arena_allocator.hpp"
#include "gpu/device.hpp"

namespace devrt::gpu {

/// A device's default memory pool, which it shares with others in the process that allocate
/// asynchronously. Memory is given back in the order of a stream, without a wait.
class PoolAllocator final : public HostAllocator {
 public:
  explicit PoolAllocator(std::shared_ptr<GpuDevice> device);
  ~PoolAllocator() override;

  /// What it returns may be used on any stream at once.
  void* allocate(std::size_t bytes, std::size_t alignment) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  bool deallocate_after(void* data, std::size_t bytes,
                        std::span<const ReadyEvent> uses) noexcept override;
  MemoryNow now() const noexcept override;
  void trim() noexcept override;
  std::vector<AllocatorFact> facts() const override;
  PoolHandle* pool() const noexcept { return pool_; }
  /// Returns how many bytes the pool holds, of all who use it.
  std::size_t held() const noexcept { return attribute(PoolAttribute::kReservedCurrent); }
  /// Returns how many of them are in use.
  std::size_t used() const noexcept { return attribute(PoolAttribute::kUsedCurrent); }

 private:
  std::uint64_t attribute(PoolAttribute attribute) const noexcept;
  Result free_behind(void* data, std::span<const ReadyEvent> uses) noexcept;

  const std::shared_ptr<GpuDevice> device_;
  PoolHandle* pool_ = nullptr;
  StreamHandle* stream_ = nullptr;  // of allocations alone: nothing else ever waits in it
};

/// The driver's plain allocations. To give one back makes the driver wait for the whole device.
class PlatformAllocator final : public HostAllocator {
 public:
  explicit PlatformAllocator(std::shared_ptr<GpuDevice> device) : device_(std::move(device)) {}

  void* allocate(std::size_t bytes, std::size_t alignment) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  MemoryNow now() const noexcept override;

 private:
  const std::shared_ptr<GpuDevice> device_;
};

/// Memory that the host and all devices use at one address; the driver moves its pages. To give it
/// back makes the driver wait for the whole device.
class ManagedAllocator final : public HostAllocator {
 public:
  explicit ManagedAllocator(std::shared_ptr<GpuDevice> device) : device_(std::move(device)) {}
  /// Returns whether a device has such memory, and the host may use it while the device works.
  static bool is_supported(const GpuDevice& device) noexcept;

  void* allocate(std::size_t bytes, std::size_t alignment) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;

 private:
  const std::shared_ptr<GpuDevice> device_;
};

/// Memory of the host that the devices read and write by themselves. It comes from one of them,
/// and from another once that is lost.
class PinnedAllocator final : public HostAllocator {
 public:
  explicit PinnedAllocator(std::vector<std::shared_ptr<GpuDevice>> devices)
      : devices_(std::move(devices)) {}

  void* allocate(std::size_t bytes, std::size_t alignment) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  /// Returns whether an address lies in what it gave out, without a call of the driver.
  bool owns(const void* data) const noexcept;

 private:
  /// Calls the driver for one device after the other, until one is not lost; `call` is given how
  /// the device's context was made current.
  template <class Call>
  Status call_first_healthy(const Call& call, const char* operation) const;
  bool is_forked() const noexcept { return devices_.front()->is_forked(); }

  const std::vector<std::shared_ptr<GpuDevice>> devices_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> regions_;
};

/// Blocks up to a size from an arena, whose books cost less than a call of the driver; others from
/// what is behind it.
class ArenaInFront final : public HostAllocator {
 public:
  ArenaInFront(std::shared_ptr<HostAllocator> upstream, ArenaOptions options, std::size_t largest)
      : arena_(std::make_shared<ArenaAllocator>(upstream, options)),
        upstream_(std::move(upstream)),
        largest_(largest) {}

  void* allocate(std::size_t bytes, std::size_t alignment) override;
  void deallocate(void* data, std::size_t bytes) noexcept override {
    of(bytes).deallocate(data, bytes);
  }
  bool deallocate_after(void* data, std::size_t bytes,
                        std::span<const ReadyEvent> uses) noexcept override;
  std::size_t free_bytes() const noexcept override { return upstream_->free_bytes(); }
  MemoryNow now() const noexcept override;
  void trim() noexcept override { arena_->trim(); }  // and what is behind it
  void keep(std::size_t bytes) noexcept { arena_->keep(bytes); }
  std::vector<AllocatorFact> facts() const override { return arena_->facts(); }

 private:
  HostAllocator& of(std::size_t bytes) noexcept { return bytes <= largest_ ? *arena_ : *upstream_; }

  const std::shared_ptr<ArenaAllocator> arena_;
  const std::shared_ptr<HostAllocator> upstream_;
  const std::size_t largest_;
};

}  // namespace devrt::gpu
