// A buffer: immutable shape and type, shared storage, and the event that says when it is filled.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "devrt/async/ready_event.hpp"
#include "devrt/base/dims.hpp"
#include "devrt/base/element_type.hpp"
#include "devrt/base/live_registry.hpp"
#include "devrt/base/ref.hpp"
#include "devrt/buffers/attachment.hpp"
#include "devrt/buffers/storage.hpp"
#include "devrt/memory/allocation_site.hpp"

namespace devrt {

/// One allocation on one memory. `Memory` must offer `registry()` and `is_forked()`; for reports,
/// `kind()` and `device().name()` as well.
///
/// The memory's owner is kept alive by the buffer. All members may be called from any thread.
template <class Memory>
class Buffer final : public RefCounted<Buffer<Memory>>, public LiveLink {
 public:
  /// Makes a buffer and lists it. `order` is that of its dimensions, from minor to major; null is
  /// row-major. Throws FAILED_PRECONDITION (closed) if the client takes no more.
  static Ref<Buffer> make(std::shared_ptr<Memory> memory, ElementType type, Dims shape,
                          Ref<Storage> storage, ReadyEvent ready = {},
                          std::unique_ptr<const Dims> order = nullptr,
                          Ref<Attachment> attachment = {}) {
    auto buffer =
        Ref<Buffer>::adopt(new Buffer(std::move(memory), type, std::move(shape), std::move(storage),
                                      std::move(ready), std::move(order), std::move(attachment)));
    if (!buffer->memory_->registry().add(*buffer)) [[unlikely]] {
      buffer->contents_ = {};
      throw StatusError(Status(StatusCode::kFailedPrecondition,
                               "The client is closed and takes no more buffers. Make a new client.")
                            .because(Reason::kClosed));
    }
    return buffer;
  }

  const std::shared_ptr<Memory>& memory() const noexcept { return memory_; }
  ElementType type() const noexcept { return type_; }
  const Dims& shape() const noexcept { return shape_; }
  /// Returns the dimensions from minor to major; empty where they are row-major.
  std::span<const std::int64_t> order() const noexcept {
    return order_ ? order_->span() : std::span<const std::int64_t>();
  }
  std::size_t bytes() const noexcept { return bytes_; }
  const ReadyEvent& ready() const noexcept { return ready_; }

  /// Returns where the buffer was made; null if nobody noted it. Valid as long as the buffer.
  AllocationSite* call_site() const noexcept { return call_site_.load(std::memory_order_acquire); }

  /// Notes where the buffer was made; only the first call counts.
  void note_call_site(Ref<AllocationSite> call_site) noexcept {
    AllocationSite* none = nullptr;
    if (call_site_.compare_exchange_strong(none, call_site.get(), std::memory_order_acq_rel))
      call_site.leak();
  }

  /// Returns a share of the storage; empty once deleted.
  Ref<Storage> storage() const {
    std::lock_guard lock(mutex_);
    return contents_.storage.share();
  }

  /// Returns a share of what an engine keeps here; empty if it keeps nothing, or once deleted.
  Ref<Attachment> attachment() const {
    std::lock_guard lock(mutex_);
    return contents_.attachment.share();
  }

  /// Keeps an engine's handle on the storage, until the buffer is deleted.
  void attach(Ref<Attachment> attachment) {
    std::lock_guard lock(mutex_);
    if (contents_.storage) contents_.attachment.swap(attachment);
  }

  bool is_deleted() const noexcept { return deleted_.load(std::memory_order_acquire); }

  /// Drops this buffer's share of the storage. Idempotent.
  void remove() { (void)take(); }

  /// What a buffer holds until it is deleted.
  struct Contents {
    Ref<Storage> storage;
    Ref<Attachment> attachment;  // goes first: an engine's view shows the storage
  };

  /// Deletes the buffer and returns what it held; empty if it was deleted already, or in a child.
  Contents take() {
    if (memory_->is_forked()) {  // its locks may be held for ever; the memory is the parent's
      deleted_.store(true, std::memory_order_release);
      return {};
    }
    Contents taken;  // freed after the lock
    {
      std::lock_guard lock(mutex_);
      if (deleted_.exchange(true, std::memory_order_acq_rel)) return {};
      taken = std::exchange(contents_, {});
    }
    memory_->registry().remove(*this);
    return taken;
  }

  /// Undoes `take`, unless the client was closed meanwhile.
  void put_back(Contents contents) {
    if (!memory_->registry().add(*this)) return;
    std::lock_guard lock(mutex_);
    contents_ = std::move(contents);
    deleted_.store(false, std::memory_order_release);
  }

 private:
  friend class RefCounted<Buffer>;

  Buffer(std::shared_ptr<Memory> memory, ElementType type, Dims shape, Ref<Storage> storage,
         ReadyEvent ready, std::unique_ptr<const Dims> order, Ref<Attachment> attachment) noexcept
      : memory_(std::move(memory)),
        ready_(std::move(ready)),
        shape_(std::move(shape)),
        order_(std::move(order)),
        contents_{std::move(storage), std::move(attachment)},
        bytes_(contents_.storage->bytes()),
        type_(type) {}
  ~Buffer() {
    (void)Ref<AllocationSite>::adopt(call_site());
    if (memory_->is_forked()) {
      contents_.attachment.leak();  // in a child, locks may be held for ever by threads that do
      contents_.storage.leak();     // not exist
    } else if (!is_deleted()) {
      memory_->registry().remove(*this);
    }
  }

  const std::shared_ptr<Memory> memory_;
  const ReadyEvent ready_;
  const Dims shape_;
  const std::unique_ptr<const Dims> order_;
  mutable std::mutex mutex_;
  Contents contents_;
  const std::size_t bytes_;
  const ElementType type_;
  std::atomic<bool> deleted_{false};
  std::atomic<AllocationSite*> call_site_{nullptr};  // owns a share
};

}  // namespace devrt
