// What engines have in flight: how much on each device, and when there is nothing.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace devrt::pjrt {

/// Counts the executions that engines have not finished, of one client and of the process.
class InFlight {
 public:
  /// How many executions wait or run on a device at most, but for such as take no time.
  ///
  /// XLA's own bound is 32, and where it is met by a call on several devices the threads that would
  /// end the work of others wait for it: everything hangs.
  static constexpr std::size_t kMost = 24;

  /// One execution on one device, from before it is started until it has ended.
  class Place {
   public:
    Place() noexcept = default;
    Place(Place&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), device_(other.device_) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(device_, other.device_);
      return *this;
    }
    ~Place() {
      if (of_) of_->leave(device_);
    }

    explicit operator bool() const noexcept { return of_ != nullptr; }

   private:
    friend class InFlight;
    Place(InFlight& of, std::size_t device) noexcept : of_(&of), device_(device) {}

    InFlight* of_ = nullptr;
    std::size_t device_ = 0;
  };

  explicit InFlight(std::size_t devices) : InFlight(devices, &of_process()) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Returns the count of all clients together. Never destroyed: work may end while the process
  /// exits.
  static InFlight& of_process() {
    static auto* const all = new InFlight(0, nullptr);
    return *all;
  }

  /// Waits until every one of the devices has room, and takes a place on each.
  void enter(std::span<const std::size_t> devices, std::span<Place> places) {
    parent_->begin(devices.size());
    {
      std::unique_lock lock(mutex_);
      count_ += devices.size();  // already: who waits for the end waits for those without room too
      room_.wait(lock, [&] {
        return std::ranges::all_of(devices, [&](std::size_t d) { return on_[d] < kMost; });
      });
      for (const std::size_t device : devices) ++on_[device];
    }
    for (std::size_t i = 0; i < devices.size(); ++i) places[i] = Place(*this, devices[i]);
  }

  /// Takes a place for work that is under way, whether there is room or not.
  Place take(std::size_t device) {
    parent_->begin(1);
    std::lock_guard lock(mutex_);
    ++on_[device];
    ++count_;
    return {*this, device};
  }

  /// Waits until nothing is in flight.
  void wait() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return count_ == 0; });
  }

  /// Waits, and lets nothing begin any more: who tries waits for the end of the process.
  void finish() {
    std::unique_lock lock(mutex_);
    is_finished_ = true;
    idle_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  InFlight(std::size_t devices, InFlight* parent) : parent_(parent), on_(devices) {}

  void begin(std::size_t count) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return !is_finished_; });
    count_ += count;
  }

  void leave(std::size_t device) {
    {
      std::lock_guard lock(mutex_);
      --on_[device];
      if (--count_ == 0) idle_.notify_all();
      room_.notify_all();
    }
    parent_->end();
  }

  void end() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) idle_.notify_all();
  }

  InFlight* const parent_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::condition_variable room_;
  std::size_t count_ = 0;
  std::vector<std::size_t> on_;
  bool is_finished_ = false;
};

}  // namespace devrt::pjrt
