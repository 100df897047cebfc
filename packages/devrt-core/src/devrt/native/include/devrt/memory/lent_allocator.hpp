// Allocators that cross the border between two native modules, through a C struct.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devrt/base/external_owner.hpp"
#include "devrt/base/status.hpp"
#include "devrt/memory/allocator.hpp"
#include "devrt/memory/host_allocator.h"

namespace devrt {

/// An allocator that a plugin lends through the C struct; keeps what owns the struct alive.
class ForeignAllocator final : public HostAllocator {
 public:
  /// Throws INVALID_ARGUMENT if the struct is of another version or lacks a function.
  ForeignAllocator(const devrt_host_allocator* table, ExternalOwner owner)
      : table_(table), owner_(std::move(owner)) {
    if (!table || table->struct_size < DEVRT_HOST_ALLOCATOR_MIN_SIZE || !table->allocate ||
        !table->deallocate) {
      raise_invalid(
          "The devrt_host_allocator struct is unusable: struct_size must be at least " +
              std::to_string(DEVRT_HOST_ALLOCATOR_MIN_SIZE) +
              " and both functions must be set. Build the plugin against devrt/host_allocator.h.",
          "make_client");
    }
  }

  void* allocate(std::size_t bytes, std::size_t alignment) override {
    void* data = table_->allocate(table_->ctx, bytes, alignment);
    if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) [[likely]]
      return data;
    table_->deallocate(table_->ctx, data, bytes);
    throw StatusError(Status(StatusCode::kInternal,
                             "A plugin's allocator returned memory that is not aligned to " +
                                 std::to_string(alignment) +
                                 " bytes. The plugin that adds the memory kind must be fixed.")
                          .during("allocate"));
  }
  void deallocate(void* data, std::size_t bytes) noexcept override {
    table_->deallocate(table_->ctx, data, bytes);
  }

  void trim() noexcept override {
    if (has(offsetof(devrt_host_allocator, trim)) && table_->trim) table_->trim(table_->ctx);
  }
  std::vector<AllocatorFact> facts() const override {
    if (!has(offsetof(devrt_host_allocator, facts)) || !table_->facts) return {};
    std::vector<AllocatorFact> facts(kMaxFacts);
    facts.resize(std::min(table_->facts(table_->ctx, facts.data(), kMaxFacts), kMaxFacts));
    return facts;
  }

 private:
  static constexpr std::size_t kMaxFacts = 64;

  /// Returns whether the plugin's struct has the function pointer at that offset.
  bool has(std::size_t offset) const noexcept {
    return table_->struct_size >= offset + sizeof(void (*)());
  }

  const devrt_host_allocator* table_;
  ExternalOwner owner_;
};

/// Shows an allocator as the C struct. Keeps it alive, and must itself outlive the struct's users.
class LentAllocator {
 public:
  explicit LentAllocator(std::shared_ptr<HostAllocator> allocator)
      : allocator_(std::move(allocator)),
        table_{
            sizeof(devrt_host_allocator), allocator_.get(), &allocate, &deallocate, &facts, &trim} {
  }
  LentAllocator(const LentAllocator&) = delete;
  LentAllocator& operator=(const LentAllocator&) = delete;

  const devrt_host_allocator& table() const noexcept { return table_; }
  const std::shared_ptr<HostAllocator>& allocator() const noexcept { return allocator_; }

 private:
  static HostAllocator& from(void* ctx) noexcept { return *static_cast<HostAllocator*>(ctx); }

  // No exception crosses a border of C: what cannot be had is null.
  static void* allocate(void* ctx, std::size_t bytes, std::size_t alignment) noexcept try {
    return from(ctx).allocate(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
  static void deallocate(void* ctx, void* data, std::size_t bytes) noexcept {
    from(ctx).deallocate(data, bytes);
  }
  static std::size_t facts(void* ctx, AllocatorFact* out, std::size_t capacity) noexcept try {
    const std::vector<AllocatorFact> found = from(ctx).facts();
    std::copy_n(found.begin(), std::min(found.size(), capacity), out);
    return found.size();
  } catch (...) {
    return 0;
  }
  static void trim(void* ctx) noexcept { from(ctx).trim(); }

  const std::shared_ptr<HostAllocator> allocator_;
  const devrt_host_allocator table_;
};

}  // namespace devrt
