// What outlives a storage: its bytes, for as long as work of a device uses them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "devrt/async/ready_event.hpp"
#include "devrt/base/external_owner.hpp"
#include "devrt/memory/allocator.hpp"

namespace devrt {

/// The work of a device that uses a storage, as far as it goes on. Thread-safe.
class StorageUses {
 public:
  void add(ReadyEvent event) {
    std::lock_guard lock(mutex_);
    forget_ended();
    events_.push_back(std::move(event));
  }
  bool is_any_left() {
    std::lock_guard lock(mutex_);
    forget_ended();
    return !events_.empty();
  }
  std::vector<ReadyEvent> take() {
    std::lock_guard lock(mutex_);
    forget_ended();
    return std::exchange(events_, {});
  }

 private:
  void forget_ended() {
    std::erase_if(events_, [](const ReadyEvent& event) { return event.is_ready(); });
  }

  std::mutex mutex_;
  std::vector<ReadyEvent> events_;
};

/// The bytes of a storage that is gone, given back at the end of this.
struct RetiredBytes {
  RetiredBytes(std::shared_ptr<HostAllocator> from, std::byte* at, std::size_t count,
               ExternalOwner held) noexcept
      : allocator(std::move(from)), data(at), bytes(count), owner(std::move(held)) {}
  RetiredBytes(const RetiredBytes&) = delete;
  RetiredBytes& operator=(const RetiredBytes&) = delete;
  ~RetiredBytes() {
    if (allocator) allocator->deallocate(data, bytes);
  }

  const std::shared_ptr<HostAllocator> allocator;
  std::byte* const data;
  const std::size_t bytes;
  ExternalOwner owner;
};

/// Gives bytes back once the work has ended: now, or in the thread that learns of the last end.
inline void retire(std::shared_ptr<HostAllocator> allocator, std::byte* data, std::size_t bytes,
                   ExternalOwner owner, const std::vector<ReadyEvent>& uses) noexcept {
  if (!uses.empty() && allocator && allocator->deallocate_after(data, bytes, uses)) return;
  const auto kept =
      std::make_shared<RetiredBytes>(std::move(allocator), data, bytes, std::move(owner));
  try {
    for (const ReadyEvent& use : uses) use.on_ready([kept](const Status&) {});
  } catch (...) {
    for (const ReadyEvent& use : uses) (void)use.wait();  // no memory to do it later
  }
}

}  // namespace devrt
