// A bound on the bytes that several allocators hand out together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "devrt/memory/allocator.hpp"

namespace devrt {

/// Hands out at most what its budget has left; null beyond that, as any allocator that is out of
/// memory.
///
/// Around a `RecyclingAllocator` it counts the bytes requested; inside one it bounds what is held,
/// and the recycling one gives its kept blocks back before it gives up.
class LimitAllocator final : public HostAllocator {
 public:
  LimitAllocator(std::shared_ptr<HostAllocator> upstream, std::shared_ptr<ByteBudget> budget)
      : upstream_(std::move(upstream)), budget_(std::move(budget)) {}

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    if (!budget_->take(bytes)) return nullptr;
    try {
      void* data = upstream_->allocate(bytes, alignment);
      if (!data) budget_->give(bytes);
      return data;
    } catch (...) {
      budget_->give(bytes);
      throw;
    }
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    upstream_->deallocate(data, bytes);
    budget_->give(bytes);
  }
  bool deallocate_after(void* data, std::size_t bytes,
                        std::span<const ReadyEvent> uses) noexcept override {
    if (!upstream_->deallocate_after(data, bytes, uses)) return false;
    budget_->give(bytes);
    return true;
  }

  std::size_t free_bytes() const noexcept override {
    return std::min(budget_->left(), upstream_->free_bytes());
  }
  MemoryNow now() const noexcept override {
    MemoryNow now = upstream_->now();
    const auto left = static_cast<std::int64_t>(budget_->left());
    now.largest_free = std::min(now.largest_free, left);
    return now;
  }
  void trim() noexcept override { upstream_->trim(); }
  std::vector<AllocatorFact> facts() const override { return upstream_->facts(); }

 private:
  const std::shared_ptr<HostAllocator> upstream_;
  const std::shared_ptr<ByteBudget> budget_;
};

}  // namespace devrt
