// What engines have in flight: how much on each device, and when there is nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
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

  /// What a wait has come to; reported to the waiter every `kSlice`, who throws to give up.
  struct Wait {
    std::size_t device = 0;                ///< that has no free slot
    std::size_t in_flight = 0;             ///< on that device
    std::chrono::milliseconds stalled{0};  ///< for how long no execution has ended
  };
  static constexpr std::chrono::milliseconds kSlice{100};

  /// A slot: one execution on one device, from before it is started until it has ended; or, on no
  /// device, something that the end of everything waits for.
  class Slot {
   public:
    Slot() noexcept = default;
    Slot(Slot&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)),
          device_(other.device_),
          generation_(other.generation_) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(device_, other.device_);
      std::swap(generation_, other.generation_);
      return *this;
    }
    ~Slot() {
      if (of_) of_->leave(device_, generation_);
    }

    explicit operator bool() const noexcept { return of_ != nullptr; }

   private:
    friend class InFlight;
    Slot(InFlight& of, std::size_t device, std::uint64_t generation) noexcept
        : of_(&of), device_(device), generation_(generation) {}

    InFlight* of_ = nullptr;
    std::size_t device_ = 0;
    std::uint64_t generation_ = 0;
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

  /// Takes a slot on each of the devices, once every one of them has a free one. Meanwhile
  /// `on_slice` is called with the `Wait`.
  template <class OnSlice>
  void enter(std::span<const std::size_t> devices, std::span<Slot> slots, OnSlice&& on_slice) {
    parent_->begin(devices.size());
    std::unique_lock lock(mutex_);
    // Before the wait: the end of everything waits for those that have no slot yet.
    count_ += devices.size();
    for (std::size_t i = 0; i < devices.size(); ++i) slots[i] = Slot(*this, kNoDevice, generation_);
    const auto find_full = [&] {
      return std::ranges::find_if(devices, [&](std::size_t d) { return on_[d].count >= kMost; });
    };
    Progress progress;
    while (!wait_a_slice(lock, freed_, [&] { return find_full() == devices.end(); })) {
      const std::size_t device = *find_full();
      const Wait wait{device, on_[device].count, progress.stalled(device, on_[device].ended)};
      lock.unlock();
      on_slice(wait);
      lock.lock();
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
      slots[i].device_ = devices[i];
      ++on_[devices[i]].count;
    }
  }

  /// Takes a slot for work that is under way, whether there is a free one or not.
  Slot take(std::size_t device) {
    parent_->begin(1);
    std::lock_guard lock(mutex_);
    ++on_[device].count;
    ++count_;
    return {*this, device, generation_};
  }

  /// Has the end of everything wait for something that is no execution. Never waits.
  Slot hold() {
    if (parent_) parent_->add(1);
    std::lock_guard lock(mutex_);
    ++count_;
    return {*this, kNoDevice, generation_};
  }

  /// Waits until all that is in flight now has ended, whatever begins meanwhile. `on_slice` is
  /// called every `kSlice`.
  template <class OnSlice>
  void wait_for_earlier(OnSlice&& on_slice) {
    std::unique_lock lock(mutex_);
    const std::uint64_t last = begin_generation();
    const auto is_done = [&] { return earlier_.empty() || earlier_.begin()->first > last; };
    while (!wait_a_slice(lock, idle_, is_done)) {
      lock.unlock();
      on_slice();
      lock.lock();
    }
  }
  /// Waits until nothing is in flight.
  void wait_for_all() {
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
  static constexpr std::size_t kNoDevice = SIZE_MAX;

  struct OnDevice {
    std::size_t count = 0;
    std::uint64_t ended = 0;
  };

  /// For how long no execution has ended on the device that a wait is for.
  class Progress {
   public:
    std::chrono::milliseconds stalled(std::size_t device, std::uint64_t ended) {
      const auto now = std::chrono::steady_clock::now();
      if (device != device_ || ended != ended_) since_ = now - kSlice;
      device_ = device;
      ended_ = ended;
      return std::chrono::duration_cast<std::chrono::milliseconds>(now - since_);
    }

   private:
    std::size_t device_ = kNoDevice;
    std::uint64_t ended_ = 0;
    std::chrono::steady_clock::time_point since_;
  };

  InFlight(std::size_t devices, InFlight* parent) : parent_(parent), on_(devices) {}

  template <class IsDone>
  static bool wait_a_slice(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                           const IsDone& is_done) {
    // A system-clock wait: the steady one is pthread_cond_clockwait, which gcc 12's TSan misses.
    return changed.wait_until(lock, std::chrono::system_clock::now() + kSlice, is_done);
  }

  void begin(std::size_t count) {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return !is_finished_; });
    count_ += count;
  }

  void add(std::size_t count) {
    std::lock_guard lock(mutex_);
    count_ += count;
  }

  /// Has what begins from now on count apart, and returns the generation of what is in flight.
  std::uint64_t begin_generation() {
    std::size_t current = count_;
    for (const auto& [generation, count] : earlier_) current -= count;
    if (current > 0) earlier_.emplace(generation_, current);
    return generation_++;
  }

  /// Counts one less of its generation. Returns whether that was the last.
  bool end_one_of(std::uint64_t generation) {
    --count_;
    const auto found = earlier_.find(generation);
    if (found == earlier_.end()) return count_ == 0;
    if (--found->second > 0) return false;
    earlier_.erase(found);
    return true;
  }

  void leave(std::size_t device, std::uint64_t generation) {
    {
      std::lock_guard lock(mutex_);
      if (device != kNoDevice) {
        --on_[device].count;
        ++on_[device].ended;
        freed_.notify_all();
      }
      if (end_one_of(generation)) idle_.notify_all();
    }
    if (parent_) parent_->leave(kNoDevice, 0);
  }

  InFlight* const parent_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::condition_variable freed_;
  std::size_t count_ = 0;
  /// What is in flight since before a wait began, by generation; all other is of `generation_`.
  std::map<std::uint64_t, std::size_t> earlier_;
  std::uint64_t generation_ = 0;
  std::vector<OnDevice> on_;
  bool is_finished_ = false;
};

}  // namespace devrt::pjrt
