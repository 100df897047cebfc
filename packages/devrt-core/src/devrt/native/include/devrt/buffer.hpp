// A buffer: immutable shape and type, shared storage, and the event that says when it is filled.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "devrt/allocation_site.hpp"
#include "devrt/dims.hpp"
#include "devrt/element_type.hpp"
#include "devrt/live_registry.hpp"
#include "devrt/ready_event.hpp"
#include "devrt/ref.hpp"
#include "devrt/storage.hpp"

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
                          std::unique_ptr<const Dims> order = nullptr) {
    auto buffer =
        Ref<Buffer>::adopt(new Buffer(std::move(memory), type, std::move(shape), std::move(storage),
                                      std::move(ready), std::move(order)));
    if (!buffer->memory_->registry().add(*buffer)) [[unlikely]] {
      buffer->storage_.reset();
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
  AllocationSite* site() const noexcept { return site_.load(std::memory_order_acquire); }

  /// Notes where the buffer was made; only the first call counts.
  void note_site(Ref<AllocationSite> site) noexcept {
    AllocationSite* none = nullptr;
    if (site_.compare_exchange_strong(none, site.get(), std::memory_order_acq_rel)) site.leak();
  }

  /// Returns a share of the storage; empty once deleted.
  Ref<Storage> storage() const {
    std::lock_guard lock(mutex_);
    return storage_.share();
  }

  bool is_deleted() const noexcept { return deleted_.load(std::memory_order_acquire); }

  /// Drops this buffer's share of the storage. Idempotent.
  void remove() {
    if (memory_->is_forked()) {  // its locks may be held for ever; the memory is the parent's
      deleted_.store(true, std::memory_order_release);
      return;
    }
    Ref<Storage> dropped;  // freed after the lock
    {
      std::lock_guard lock(mutex_);
      if (deleted_.exchange(true, std::memory_order_acq_rel)) return;
      dropped.swap(storage_);
    }
    memory_->registry().remove(*this);
  }

 private:
  friend class RefCounted<Buffer>;

  Buffer(std::shared_ptr<Memory> memory, ElementType type, Dims shape, Ref<Storage> storage,
         ReadyEvent ready, std::unique_ptr<const Dims> order) noexcept
      : memory_(std::move(memory)),
        ready_(std::move(ready)),
        shape_(std::move(shape)),
        order_(std::move(order)),
        storage_(std::move(storage)),
        bytes_(storage_->bytes()),
        type_(type) {}
  ~Buffer() {
    (void)Ref<AllocationSite>::adopt(site());
    if (memory_->is_forked()) {
      storage_.leak();  // in a child, locks may be held for ever by threads that do not exist
    } else if (!is_deleted()) {
      memory_->registry().remove(*this);
    }
  }

  const std::shared_ptr<Memory> memory_;
  const ReadyEvent ready_;
  const Dims shape_;
  const std::unique_ptr<const Dims> order_;
  mutable std::mutex mutex_;
  Ref<Storage> storage_;
  const std::size_t bytes_;
  const ElementType type_;
  std::atomic<bool> deleted_{false};
  std::atomic<AllocationSite*> site_{nullptr};  // owns a share
};

}  // namespace devrt
