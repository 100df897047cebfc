// An allocator that fails on purpose, for tests of what happens when memory runs out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "devrt/memory/allocator.hpp"

namespace devrt {

/// Which allocations fail; what is set adds up. Calls are counted from one.
struct FaultPlan {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t nth = 0;               ///< this one alone; 0 for none
  std::uint64_t every = 0;             ///< each whose number this divides; 0 for none
  std::uint64_t after_bytes = kNever;  ///< all once so many bytes were requested, these included
  double probability = 0;              ///< each with this chance, the same ones for a seed
  std::uint64_t seed = 0;
};

/// Fails as planned and else does what the allocator that it wraps does. Thread-safe: which calls
/// fail depends on their numbers and sizes alone.
class FaultAllocator final : public HostAllocator {
 public:
  FaultAllocator(std::shared_ptr<HostAllocator> upstream, FaultPlan plan) noexcept
      : upstream_(std::move(upstream)), plan_(plan) {}

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    const std::uint64_t call = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t requested = requested_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (must_fail(call, requested)) {
      injected_.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    return upstream_->allocate(bytes, alignment);
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    upstream_->deallocate(data, bytes);
  }

  std::size_t free_bytes() const noexcept override { return upstream_->free_bytes(); }
  void trim() noexcept override { upstream_->trim(); }
  std::vector<AllocatorFact> facts() const override {
    std::vector<AllocatorFact> facts = upstream_->facts();
    facts.push_back({"num_injected_failures", static_cast<std::int64_t>(injected_failures())});
    return facts;
  }

  /// Returns how many allocations were made to fail.
  std::uint64_t injected_failures() const noexcept {
    return injected_.load(std::memory_order_relaxed);
  }

 private:
  bool must_fail(std::uint64_t call, std::uint64_t requested) const noexcept {
    return call == plan_.nth || (plan_.every > 0 && call % plan_.every == 0) ||
           requested > plan_.after_bytes || chance(call) < plan_.probability;
  }

  /// Returns a number in [0, 1) that the seed and the call decide (the mixer is splitmix64's).
  double chance(std::uint64_t call) const noexcept {
    std::uint64_t z = plan_.seed + call * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

  const std::shared_ptr<HostAllocator> upstream_;
  const FaultPlan plan_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> requested_{0};
  std::atomic<std::uint64_t> injected_{0};
};

}  // namespace devrt
