// Storage: the owner of one allocation, or of memory that somebody else lent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "devrt/base/external_owner.hpp"
#include "devrt/base/ref.hpp"
#include "devrt/buffers/storage_uses.hpp"
#include "devrt/memory/allocator.hpp"

namespace devrt {

/// Owner of bytes; shared by every buffer and every exported view that shows them.
class Storage final : public RefCounted<Storage> {
 public:
  /// Allocates `bytes`, which the storage gives back; zero bytes take no allocation.
  static Ref<Storage> allocate(const std::shared_ptr<HostAllocator>& allocator, std::size_t bytes,
                               std::size_t alignment = kAlignment) {
    if (bytes == 0) return Ref<Storage>::adopt(new Storage(empty_block(), 0, nullptr, {}));
    auto* data = static_cast<std::byte*>(allocator->allocate(bytes, alignment));
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

  /// Returns the address of what an owner keeps, by the owner's context; null if it has gone.
  using Find = std::byte* (*)(void* context) noexcept;

  /// Shows `bytes` that `owner` keeps, at the address that `find` returns when it is first
  /// needed.
  static Ref<Storage> lend_lazily(std::size_t bytes, ExternalOwner owner, Find find) {
    auto storage = Ref<Storage>::adopt(new Storage(nullptr, bytes, nullptr, std::move(owner)));
    storage->find_ = find;
    return storage;
  }
  /// Does the same for bytes that some work still fills: `settle` says when it has ended. Nobody
  /// may ask for the address before.
  static Ref<Storage> expect(std::size_t bytes, ExternalOwner owner, Find find) {
    Ref<Storage> storage = lend_lazily(bytes, std::move(owner), find);
    storage->is_pending_.store(true, std::memory_order_relaxed);
    return storage;
  }
  void settle() noexcept { is_pending_.store(false, std::memory_order_release); }

  /// Returns whether the caller's share is the only one, but for that of the work which fills it,
  /// and no device still uses it, but for work that is over with `behind`, which the caller's own
  /// work begins behind.
  bool is_sole_share(const ReadyEvent& behind = {}) const noexcept {
    // In this order: a thread settles before it gives its share up.
    const std::uint32_t shares = use_count();
    if (shares != (is_pending_.load(std::memory_order_acquire) ? 2 : 1)) return false;
    StorageUses* uses = uses_.load(std::memory_order_acquire);
    return !uses || !uses->is_any_left(behind);
  }

  std::byte* data() const noexcept {
    std::byte* known = data_.load(std::memory_order_acquire);
    return known || !find_ ? known : find();
  }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Has the bytes outlive work of a device that reads or writes them, also where the storage goes
  /// before. The work was begun behind the events `after`. Thread-safe.
  void used_until(ReadyEvent event, std::span<const ReadyEvent> after = {}) {
    if (event.is_known()) return;
    StorageUses* uses = uses_.load(std::memory_order_acquire);
    if (!uses) {
      auto made = std::make_unique<StorageUses>();
      if (uses_.compare_exchange_strong(uses, made.get(), std::memory_order_acq_rel)) {
        uses = made.release();
      }
    }
    uses->add(std::move(event), after);
  }
  /// Returns whether the bytes are somebody else's: another library's, or the engine's.
  bool is_external() const noexcept { return static_cast<bool>(owner_); }
  /// Returns whether they are another library's, which counts them itself.
  bool is_lent() const noexcept { return is_external() && !find_; }

 private:
  friend class RefCounted<Storage>;

  Storage(std::byte* data, std::size_t bytes, std::shared_ptr<HostAllocator> allocator,
          ExternalOwner owner) noexcept
      : data_(data), bytes_(bytes), allocator_(std::move(allocator)), owner_(std::move(owner)) {}
  ~Storage() {
    if (StorageUses* uses = uses_.load(std::memory_order_acquire)) [[unlikely]] {
      const std::unique_ptr<StorageUses> owned(uses);
      retire(std::move(allocator_), data_, bytes_, std::move(owner_), owned->take());
    } else if (allocator_) {
      allocator_->deallocate(data_, bytes_);
    }
  }

  std::byte* find() const noexcept {
    std::byte* found = find_(owner_.context());
    data_.store(found, std::memory_order_release);  // every thread finds the same
    return found;
  }

  static std::byte* empty_block() noexcept {
    alignas(kAlignment) static std::byte block[kAlignment];
    return block;
  }

  mutable std::atomic<std::byte*> data_;
  std::size_t bytes_;
  Find find_ = nullptr;
  std::atomic<bool> is_pending_{false};
  std::shared_ptr<HostAllocator> allocator_;  // outlives the client while a view is out
  ExternalOwner owner_;
  std::atomic<StorageUses*> uses_{nullptr};  // owned; null unless a device used the bytes
};

}  // namespace devrt
