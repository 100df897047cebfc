// Counters of one memory or device, keyed as JAX keys them when read.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

namespace devrt {

/// One consistent-enough reading of the counters; each value is true at some moment of the read.
struct MemorySnapshot {
  std::int64_t num_allocs = 0;
  std::int64_t bytes_in_use = 0;
  std::int64_t peak_bytes_in_use = 0;
  std::int64_t largest_alloc_size = 0;
  std::int64_t bytes_limit = 0;
  std::int64_t bytes_reserved = 0;
  std::int64_t peak_bytes_reserved = 0;
  std::int64_t bytes_reservable_limit = 0;
  std::int64_t largest_free_block_bytes = 0;
  std::int64_t pool_bytes = 0;
  std::int64_t peak_pool_bytes = 0;

  using Item = std::pair<const char*, std::int64_t>;
  /// Returns the values under JAX's keys.
  std::array<Item, 11> items() const noexcept {
    return {{{"num_allocs", num_allocs},
             {"bytes_in_use", bytes_in_use},
             {"peak_bytes_in_use", peak_bytes_in_use},
             {"largest_alloc_size", largest_alloc_size},
             {"bytes_limit", bytes_limit},
             {"bytes_reserved", bytes_reserved},
             {"peak_bytes_reserved", peak_bytes_reserved},
             {"bytes_reservable_limit", bytes_reservable_limit},
             {"largest_free_block_bytes", largest_free_block_bytes},
             {"pool_bytes", pool_bytes},
             {"peak_pool_bytes", peak_pool_bytes}}};
  }
};

/// Returns the bytes of physical memory of this machine.
inline std::int64_t physical_memory_bytes() noexcept {
  // Kept, because asking takes longer than all else that statistics read.
  static const auto bytes =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return bytes;
}

/// Returns the bytes of physical memory that nothing uses now.
inline std::int64_t available_memory_bytes() noexcept {
  return static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

/// What an allocator, or a memory, knows of itself at a moment.
struct MemoryNow {
  std::int64_t held = 0;  ///< from the system, in use or not; 0 where that is what is in use
  std::int64_t largest_free = std::numeric_limits<std::int64_t>::max();  ///< in one block
};

namespace detail {

inline void raise_to(std::atomic<std::int64_t>& peak, std::int64_t value) noexcept {
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace detail

/// A number of bytes that several allocators share; never overdrawn, whatever threads do.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit) noexcept : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  std::size_t limit() const noexcept { return limit_; }
  std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::size_t left() const noexcept { return limit_ - used(); }

  /// Takes `bytes` if there are as many left.
  [[nodiscard]] bool take(std::size_t bytes) noexcept {
    std::size_t seen = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - seen) return false;
    } while (!used_.compare_exchange_weak(seen, seen + bytes, std::memory_order_relaxed));
    return true;
  }
  void give(std::size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

/// Bytes of a budget that somebody took, given back at its end. May be empty.
class BudgetShare {
 public:
  BudgetShare() noexcept = default;
  /// Holds bytes that were taken already.
  BudgetShare(std::shared_ptr<ByteBudget> budget, std::size_t bytes) noexcept
      : budget_(std::move(budget)), bytes_(bytes) {}
  BudgetShare(BudgetShare&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetShare& operator=(BudgetShare&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BudgetShare() {
    if (budget_) budget_->give(bytes_);
  }

  explicit operator bool() const noexcept { return budget_ != nullptr; }
  /// Returns whose bytes they are; null for none.
  const ByteBudget* budget() const noexcept { return budget_.get(); }

  /// Returns a share of some of the bytes, or of as many as there are.
  BudgetShare split(std::size_t bytes) noexcept {
    bytes = std::min(bytes, bytes_);
    bytes_ -= bytes;
    return {budget_, bytes};
  }

 private:
  std::shared_ptr<ByteBudget> budget_;
  std::size_t bytes_ = 0;
};

/// Counts the bytes held from the system, whether in use or kept for reuse, and into a parent.
class ReservedBytes {
 public:
  explicit ReservedBytes(std::shared_ptr<ReservedBytes> parent = nullptr) noexcept
      : parent_(std::move(parent)) {}
  ReservedBytes(const ReservedBytes&) = delete;
  ReservedBytes& operator=(const ReservedBytes&) = delete;

  std::int64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  std::int64_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }

  void add(std::int64_t bytes) noexcept {
    detail::raise_to(peak_, bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
    if (parent_) parent_->add(bytes);
  }
  void remove(std::int64_t bytes) noexcept {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    if (parent_) parent_->remove(bytes);
  }

 private:
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> peak_{0};
  const std::shared_ptr<ReservedBytes> parent_;
};

/// Lock-free counters; a memory's count into their device's as well.
class MemoryStats {
 public:
  /// `reserved` is what is held for this memory and those that it shares its blocks with; without
  /// one, nothing is held but what is in use. `budget` is what they may use together. `now`
  /// returns what is held and free at a moment; without it, what the host has available.
  explicit MemoryStats(std::int64_t bytes_limit, std::shared_ptr<MemoryStats> parent = nullptr,
                       std::shared_ptr<const ReservedBytes> reserved = nullptr,
                       std::shared_ptr<const ByteBudget> budget = nullptr,
                       std::function<MemoryNow()> now = &now_on_host)
      : bytes_limit_(bytes_limit),
        parent_(std::move(parent)),
        reserved_(std::move(reserved)),
        budget_(std::move(budget)),
        now_(std::move(now)) {}
  MemoryStats(const MemoryStats&) = delete;
  MemoryStats& operator=(const MemoryStats&) = delete;

  std::int64_t bytes_limit() const noexcept { return bytes_limit_; }
  std::int64_t bytes_in_use() const noexcept { return in_use_.load(std::memory_order_relaxed); }

  /// Counts an allocation of `bytes`.
  void record_allocate(std::int64_t bytes) noexcept {
    num_allocs_.fetch_add(1, std::memory_order_relaxed);
    const std::int64_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    detail::raise_to(peak_in_use_, now);
    detail::raise_to(peak_since_mark_, now);
    detail::raise_to(largest_, bytes);
    if (parent_) parent_->record_allocate(bytes);
  }

  /// Counts the end of an allocation of `bytes`.
  void record_deallocate(std::int64_t bytes) noexcept {
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    if (parent_) parent_->record_deallocate(bytes);
  }

  /// Returns the most bytes in use since the last mark, and marks this moment.
  std::int64_t mark_peak() noexcept {
    return peak_since_mark_.exchange(bytes_in_use(), std::memory_order_relaxed);
  }

  /// Reads the counters.
  MemorySnapshot snapshot() const noexcept {
    MemorySnapshot s;
    s.num_allocs = num_allocs_.load(std::memory_order_relaxed);
    s.bytes_in_use = bytes_in_use();
    s.peak_bytes_in_use = peak_in_use_.load(std::memory_order_relaxed);
    s.largest_alloc_size = largest_.load(std::memory_order_relaxed);
    s.bytes_limit = bytes_limit_;
    const MemoryNow now = now_();
    detail::raise_to(peak_held_, now.held);
    // Programs have memory of the plugin's, which no allocator of the client holds.
    s.bytes_reserved = std::max({reserved_ ? reserved_->bytes() : 0, now.held, s.bytes_in_use});
    s.peak_bytes_reserved =
        std::max({reserved_ ? reserved_->peak() : 0, peak_held_.load(), s.peak_bytes_in_use});
    s.bytes_reservable_limit = bytes_limit_;
    s.largest_free_block_bytes =
        budget_ ? std::min(now.largest_free, static_cast<std::int64_t>(budget_->left()))
                : now.largest_free;
    s.pool_bytes = s.bytes_reserved;
    s.peak_pool_bytes = s.peak_bytes_reserved;
    return s;
  }

 private:
  static MemoryNow now_on_host() { return {0, available_memory_bytes()}; }

  std::atomic<std::int64_t> num_allocs_{0};
  std::atomic<std::int64_t> in_use_{0};
  std::atomic<std::int64_t> peak_in_use_{0};
  std::atomic<std::int64_t> peak_since_mark_{0};
  std::atomic<std::int64_t> largest_{0};
  mutable std::atomic<std::int64_t> peak_held_{0};  // that was seen
  const std::int64_t bytes_limit_;
  const std::shared_ptr<MemoryStats> parent_;
  const std::shared_ptr<const ReservedBytes> reserved_;
  const std::shared_ptr<const ByteBudget> budget_;
  const std::function<MemoryNow()> now_;
};

}  // namespace devrt
