// Storage: the owner of one allocation, or of memory that somebody else lent.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "devrt/allocator.hpp"
#include "devrt/external_owner.hpp"
#include "devrt/ref.hpp"

namespace devrt {

/// Owner of bytes; shared by every buffer and every exported view that shows them.
class Storage final : public RefCounted<Storage> {
 public:
  /// Allocates `bytes`, which the storage gives back; zero bytes take no allocation.
  static Ref<Storage> allocate(const std::shared_ptr<HostAllocator>& allocator, std::size_t bytes) {
    if (bytes == 0) return Ref<Storage>::adopt(new Storage(empty_block(), 0, nullptr, {}));
    auto* data = static_cast<std::byte*>(allocator->allocate(bytes, kAlignment));
    try {
      return Ref<Storage>::adopt(new Storage(data, bytes, allocator, {}));
    } catch (...) {
      allocator->deallocate(data, bytes);
      throw;
    }
  }

  /// Shows `bytes` at `data`, which `owner` keeps alive.
  static Ref<Storage> lend(const std::byte* data, std::size_t bytes, ExternalOwner owner) {
    // Buffers are immutable: nothing writes through this pointer unless the lender allowed it.
    return Ref<Storage>::adopt(
        new Storage(const_cast<std::byte*>(data), bytes, nullptr, std::move(owner)));
  }

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Returns whether the bytes are somebody else's.
  bool is_external() const noexcept { return static_cast<bool>(owner_); }

 private:
  friend class RefCounted<Storage>;

  Storage(std::byte* data, std::size_t bytes, std::shared_ptr<HostAllocator> allocator,
          ExternalOwner owner) noexcept
      : data_(data), bytes_(bytes), allocator_(std::move(allocator)), owner_(std::move(owner)) {}
  ~Storage() {
    if (allocator_) allocator_->deallocate(data_, bytes_);
  }

  static std::byte* empty_block() noexcept {
    alignas(kAlignment) static std::byte block[kAlignment];
    return block;
  }

  std::byte* data_;
  std::size_t bytes_;
  std::shared_ptr<HostAllocator> allocator_;  // outlives the client while a view is out
  ExternalOwner owner_;
};

}  // namespace devrt
