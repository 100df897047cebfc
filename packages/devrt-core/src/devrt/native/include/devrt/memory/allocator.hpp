// Allocators of host memory. They compose by wrapping: statistics around whatever holds the bytes.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "devrt/async/ready_event.hpp"
#include "devrt/base/fork_guard.hpp"
#include "devrt/base/status.hpp"
#include "devrt/memory/host_allocator.h"
#include "devrt/memory/memory_stats.hpp"

namespace devrt {

/// Alignment of every allocation: a cache line, and what XLA asks of memory that it aliases.
inline constexpr std::size_t kAlignment = 64;

/// A number that an allocator tells about itself.
using AllocatorFact = devrt_allocator_fact;

/// Where host memory comes from. Thread-safe.
class HostAllocator {
 public:
  HostAllocator() = default;
  HostAllocator(const HostAllocator&) = delete;
  HostAllocator& operator=(const HostAllocator&) = delete;
  virtual ~HostAllocator() = default;

  /// Returns `bytes` > 0 bytes at a multiple of `alignment`, or null when out of memory.
  virtual void* allocate(std::size_t bytes, std::size_t alignment) = 0;
  /// Takes back what `allocate` returned for the same `bytes`.
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
  /// Does the same while work that uses the memory is still under way, where the allocator orders
  /// by itself what comes after it; else returns false, and gets the memory when that has ended.
  virtual bool deallocate_after(void*, std::size_t, std::span<const ReadyEvent>) noexcept {
    return false;
  }
  /// Returns about how many bytes more can be had that are all this allocator promises.
  virtual std::size_t free_bytes() const noexcept {
    return std::numeric_limits<std::size_t>::max();
  }
  /// Returns what is held, and the largest block to be had, as far as that is known. May take a
  /// call of a driver.
  virtual MemoryNow now() const noexcept { return {}; }
  /// Gives back what is held and not in use.
  virtual void trim() noexcept {}
  /// Returns what this allocator tells about itself; the names live as long as it does.
  virtual std::vector<AllocatorFact> facts() const { return {}; }
};

/// The C library's heap, aligned; asks for huge pages where a block is large enough to gain.
class AlignedAllocator final : public HostAllocator {
 public:
  static constexpr std::size_t kHugePageThreshold = std::size_t{4} << 20;

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    // malloc, padded, has a per-thread cache that aligned_alloc bypasses; the word before the
    // data remembers where the block starts.
    std::size_t padded = 0;
    if (__builtin_add_overflow(bytes, alignment + sizeof(void*), &padded)) return nullptr;
    void* block = std::malloc(padded);
    if (!block) return nullptr;
    const auto start = reinterpret_cast<std::uintptr_t>(block) + sizeof(void*);
    const std::uintptr_t data = (start + alignment - 1) & ~(std::uintptr_t{alignment} - 1);
    reinterpret_cast<void**>(data)[-1] = block;
    if (bytes >= kHugePageThreshold) advise_huge_pages(data, bytes);
    return reinterpret_cast<void*>(data);
  }

  void deallocate(void* data, std::size_t) noexcept override {
    std::free(static_cast<void**>(data)[-1]);
  }

 private:
  static void advise_huge_pages(std::uintptr_t data, std::size_t bytes) noexcept {
    constexpr std::uintptr_t kPage = 4096;
    const std::uintptr_t first = (data + kPage - 1) & ~(kPage - 1);
    const std::uintptr_t last = (data + bytes) & ~(kPage - 1);
    // Advice only: on failure the pages are small ones.
    (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  }
};

/// Memory locked into RAM. Where RLIMIT_MEMLOCK forbids locking, it is plain memory, and counted
/// so.
class PageLockedAllocator final : public HostAllocator {
 public:
  void* allocate(std::size_t bytes, std::size_t alignment) override {
    const std::size_t length = page_multiple(bytes);
    if (length < bytes || alignment > page_size()) return nullptr;
    void* data = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    if (mlock(data, length) == 0) {
      locked_.fetch_add(length, std::memory_order_relaxed);
    } else {
      unlocked_.fetch_add(length, std::memory_order_relaxed);
      try {
        std::lock_guard guard(mutex_);
        not_locked_.insert(data);
      } catch (...) {
        munmap(data, length);
        unlocked_.fetch_sub(length, std::memory_order_relaxed);
        return nullptr;
      }
    }
    return data;
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    const std::size_t length = page_multiple(bytes);
    if (fork_.is_child()) {  // a thread that does not exist here may hold the lock
      munmap(data, length);
      return;
    }
    bool was_locked = true;
    {
      std::lock_guard guard(mutex_);
      was_locked = not_locked_.erase(data) == 0;
    }
    (was_locked ? locked_ : unlocked_).fetch_sub(length, std::memory_order_relaxed);
    munmap(data, length);
  }

  /// Returns how many bytes more RLIMIT_MEMLOCK lets be locked.
  std::size_t free_bytes() const noexcept override {
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
      return std::numeric_limits<std::size_t>::max();
    }
    const std::size_t locked = locked_bytes();
    return limit.rlim_cur > locked ? limit.rlim_cur - locked : 0;
  }

  /// Returns the bytes allocated that are locked into RAM, in whole pages.
  std::size_t locked_bytes() const noexcept { return locked_.load(std::memory_order_relaxed); }
  /// Returns the bytes allocated that could not be locked, in whole pages.
  std::size_t unlocked_bytes() const noexcept { return unlocked_.load(std::memory_order_relaxed); }
  std::vector<AllocatorFact> facts() const override {
    return {{"bytes_page_locked", static_cast<std::int64_t>(locked_bytes())},
            {"bytes_not_page_locked", static_cast<std::int64_t>(unlocked_bytes())}};
  }

 private:
  static std::size_t page_size() noexcept {
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  }
  static std::size_t page_multiple(std::size_t bytes) noexcept {
    return (bytes + page_size() - 1) & ~(page_size() - 1);
  }

  std::atomic<std::size_t> locked_{0};
  std::atomic<std::size_t> unlocked_{0};
  std::mutex mutex_;
  std::unordered_set<void*> not_locked_;
  ForkGuard fork_;
};

/// Counts what goes through the allocator that it wraps, and turns null into an error.
class StatisticsAllocator final : public HostAllocator {
 public:
  StatisticsAllocator(std::shared_ptr<HostAllocator> upstream, std::shared_ptr<MemoryStats> stats)
      : upstream_(std::move(upstream)), stats_(std::move(stats)) {}

  /// As the wrapped allocator, but throws RESOURCE_EXHAUSTED with a summary instead of null.
  void* allocate(std::size_t bytes, std::size_t alignment) override {
    const auto free = stats_->bytes_limit() - stats_->bytes_in_use();
    const bool fits = free > 0 && bytes <= static_cast<std::size_t>(free);
    void* data = fits ? upstream_->allocate(bytes, alignment) : nullptr;
    if (!data) [[unlikely]]
      raise_out_of_memory(bytes);
    stats_->record_allocate(static_cast<std::int64_t>(bytes));
    return data;
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    upstream_->deallocate(data, bytes);
    stats_->record_deallocate(static_cast<std::int64_t>(bytes));
  }
  bool deallocate_after(void* data, std::size_t bytes,
                        std::span<const ReadyEvent> uses) noexcept override {
    if (!upstream_->deallocate_after(data, bytes, uses)) return false;
    stats_->record_deallocate(static_cast<std::int64_t>(bytes));
    return true;
  }

  std::size_t free_bytes() const noexcept override { return upstream_->free_bytes(); }
  void trim() noexcept override { upstream_->trim(); }
  std::vector<AllocatorFact> facts() const override { return upstream_->facts(); }
  HostAllocator& upstream() const noexcept { return *upstream_; }
  const MemoryStats& stats() const noexcept { return *stats_; }

 private:
  [[noreturn]] void raise_out_of_memory(std::size_t bytes) const {
    std::string message =
        "out of memory: cannot allocate " + std::to_string(bytes) +
        " bytes. Delete buffers that are no longer needed, or put a smaller array. The memory has";
    const char* separator = " ";
    for (const auto& [key, value] : stats_->snapshot().items()) {
      message += separator + std::string(key) + "=" + std::to_string(value);
      separator = ", ";
    }
    message += ".";
    throw StatusError(
        Status(StatusCode::kResourceExhausted, std::move(message)).during("allocate"));
  }

  const std::shared_ptr<HostAllocator> upstream_;  // shared where devices share it
  const std::shared_ptr<MemoryStats> stats_;
};

}  // namespace devrt
