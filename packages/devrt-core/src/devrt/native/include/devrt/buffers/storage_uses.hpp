// What outlives a storage: its bytes, for as long as work of a device uses them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "devrt/async/ready_event.hpp"
#include "devrt/base/external_owner.hpp"
#include "devrt/memory/allocator.hpp"

namespace devrt {

/// The work of a device that uses a storage, as far as it goes on. Thread-safe.
class StorageUses {
 public:
  /// Adds work, which was begun behind the events `after`. What it outlives is forgotten without a
  /// look at the device, which is queried about the rest only now and then.
  void add(ReadyEvent event, std::span<const ReadyEvent> after = {}) {
    std::lock_guard lock(mutex_);
    std::erase_if(events_, [&](const ReadyEvent& each) {
      return each.is_known() || each.ends_before(event, after);
    });
    if (events_.size() >= many_) {
      forget_ended();
      many_ = std::max(kMany, 2 * events_.size());
    }
    events_.push_back(std::move(event));
  }
  /// Returns whether work goes on, but for what has ended once an event is ready.
  bool is_any_left(const ReadyEvent& behind = {}) {
    std::lock_guard lock(mutex_);
    forget_ended();
    return !std::ranges::all_of(events_,
                                [&](const ReadyEvent& event) { return event.ends_before(behind); });
  }
  /// Returns what is not known to have ended.
  std::vector<ReadyEvent> take() {
    std::lock_guard lock(mutex_);
    std::erase_if(events_, [](const ReadyEvent& event) { return event.is_known(); });
    return std::exchange(events_, {});
  }

 private:
  static constexpr std::size_t kMany = 8;

  void forget_ended() {
    std::erase_if(events_, [](const ReadyEvent& event) { return event.is_ready(); });
  }

  std::mutex mutex_;
  std::vector<ReadyEvent> events_;
  std::size_t many_ = kMany;
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
    for (const ReadyEvent& use : uses) {
      if (!use.is_ready()) use.on_ready([kept](const Status&) {});
    }
  } catch (...) {
    for (const ReadyEvent& use : uses) (void)use.wait();  // no memory to do it later
  }
}

}  // namespace devrt
