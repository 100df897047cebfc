// The order of executions that share an execution stream.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "devrt/async/ready_event.hpp"

namespace devrt::native {

/// Lets work of one stream on one device begin only when what came before it has ended. Stream 0
/// orders nothing. Thread-safe.
class StreamOrder {
 public:
  StreamOrder() : unfinished_(std::make_shared<std::atomic<std::int64_t>>(0)) {}

  /// A slot on some devices: from where nothing of the stream runs there, to where the next may be
  /// waiting for what was begun.
  class Slot {
   public:
    Slot() = default;
    Slot(Slot&&) = default;
    Slot& operator=(Slot&&) = default;

    /// Says when the work that was begun at a position of the devices will have ended.
    void begun(std::size_t position, ReadyEvent event) {
      if (!lanes_.empty()) lanes_[order_[position]]->last = std::move(event);
    }

   private:
    friend class StreamOrder;
    struct Lane {
      std::timed_mutex mutex;
      ReadyEvent last;
    };

    std::vector<std::size_t> order_;  // by position, the index in `lanes_`
    std::vector<std::shared_ptr<Lane>> lanes_;
    std::vector<std::unique_lock<std::timed_mutex>> locks_;
  };

  /// Returns whether work of a stream other than 0 may be there to wait for.
  bool is_used() const noexcept { return unfinished_->load(std::memory_order_acquire) != 0; }

  /// Returns how many pairs of a stream and a device are remembered.
  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return lanes_.size();
  }

  /// Waits for the stream's work on the devices, given by number, and returns the slot. Meanwhile
  /// `on_slice` is called every `kSlice`, and may throw.
  template <class OnSlice>
  Slot wait(std::int64_t stream, std::span<const int> devices, const OnSlice& on_slice) {
    Slot slot;
    if (stream == 0) return slot;
    // Everybody takes the lanes in the order of the devices, so that nobody waits in a circle.
    std::vector<std::size_t> sorted(devices.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
    std::ranges::sort(sorted, {}, [&](std::size_t i) { return devices[i]; });
    slot.order_.resize(devices.size());
    for (std::size_t index = 0; index < sorted.size(); ++index) {
      slot.order_[sorted[index]] = index;
      slot.lanes_.push_back(lane({stream, devices[sorted[index]]}));
    }
    for (const auto& lane : slot.lanes_) {
      auto& lock = slot.locks_.emplace_back(lane->mutex, std::defer_lock);
      // By the system clock: gcc 12's TSan misses locks by the steady one.
      while (!lock.try_lock_until(std::chrono::system_clock::now() + kSlice)) on_slice();
      while (!lane->last.wait_for(kSlice)) on_slice();  // a failure of it is not the next one's
    }
    return slot;
  }

  /// Ends a slot whose work was begun, and counts the work until its end.
  void finish(Slot slot) {
    for (const auto& lane : slot.lanes_) {
      unfinished_->fetch_add(1, std::memory_order_acq_rel);
      lane->last.on_ready(
          [count = unfinished_](const Status&) { count->fetch_sub(1, std::memory_order_acq_rel); });
    }
  }

 private:
  static constexpr std::chrono::milliseconds kSlice{100};
  using Lane = Slot::Lane;
  using Key = std::pair<std::int64_t, int>;
  static constexpr std::size_t kManyLanes = 1024;

  std::shared_ptr<Lane> lane(Key key) {
    std::lock_guard lock(mutex_);
    if (lanes_.size() >= kManyLanes) {
      std::erase_if(lanes_, [](const auto& entry) {
        return entry.second.use_count() == 1 && entry.second->last.is_ready();
      });
    }
    std::shared_ptr<Lane>& found = lanes_[key];
    if (!found) found = std::make_shared<Lane>();
    return found;
  }

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<Lane>> lanes_;
  const std::shared_ptr<std::atomic<std::int64_t>> unfinished_;
};

}  // namespace devrt::native
