// Ready events: a promise that one side keeps and views that any number of sides wait on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "devrt/base/status.hpp"
#include "devrt/base/unique_function.hpp"

namespace devrt {

namespace detail {

/// What a promise and its views share; set exactly once.
class EventState {
 public:
  using Callback = UniqueFunction<void(const Status&)>;

  bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }
  const Status& status() const noexcept { return status_; }

  void set(Status status) {
    std::vector<Callback> callbacks;
    {
      std::lock_guard lock(mutex_);
      if (is_done()) return;
      status_ = std::move(status);
      callbacks.swap(callbacks_);
      done_.store(true, std::memory_order_release);
      changed_.notify_all();
    }
    for (Callback& callback : callbacks) callback(status_);
  }

  void wait() {
    if (is_done()) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_done(); });
  }

  bool wait_for(std::chrono::nanoseconds timeout) {
    if (is_done()) return true;
    std::unique_lock lock(mutex_);
    // A system-clock wait: the steady one is pthread_cond_clockwait, which gcc 12's TSan misses.
    const auto until = std::chrono::system_clock::now() + timeout;
    return changed_.wait_until(lock, until, [this] { return is_done(); });
  }

  void on_ready(Callback callback) {
    {
      std::lock_guard lock(mutex_);
      if (!is_done()) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback(status_);
  }

 private:
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;
  std::vector<Callback> callbacks_;
};

}  // namespace detail

/// A copyable view of something that becomes ready once; a default one is ready from the start.
class ReadyEvent {
 public:
  ReadyEvent() noexcept = default;

  /// Returns an event that is ready with `status`: already failed unless OK.
  static ReadyEvent already(Status status) {
    if (status.ok()) return {};
    auto state = std::make_shared<detail::EventState>();
    state->set(std::move(status));
    return ReadyEvent(std::move(state));
  }

  /// Returns whether it was set, with a value or an error; does not wait.
  bool is_ready() const noexcept { return !state_ || state_->is_done(); }

  /// Returns the error it was set with; OK if there is none or it is not ready yet.
  Status error() const { return state_ && state_->is_done() ? state_->status() : Status(); }

  /// Waits; returns OK or the error.
  Status wait() const {
    if (!state_) return {};
    state_->wait();
    return state_->status();
  }

  /// Waits for at most `timeout`; empty if it passed first.
  std::optional<Status> wait_for(std::chrono::nanoseconds timeout) const {
    if (!state_) return Status();
    if (!state_->wait_for(timeout)) return std::nullopt;
    return state_->status();
  }

  /// Calls back once with the outcome: inline if ready, else in the thread that sets it.
  void on_ready(UniqueFunction<void(const Status&)> callback) const {
    if (!state_) {
      callback(Status());
    } else {
      state_->on_ready(std::move(callback));
    }
  }

 private:
  friend class ReadyPromise;
  explicit ReadyEvent(std::shared_ptr<detail::EventState> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<detail::EventState> state_;
};

/// The side that makes an event ready. Destroyed unset, it fails the event with CANCELLED.
class ReadyPromise {
 public:
  ReadyPromise() : state_(std::make_shared<detail::EventState>()) {}
  ReadyPromise(ReadyPromise&&) noexcept = default;
  ReadyPromise& operator=(ReadyPromise&&) = delete;
  ReadyPromise(const ReadyPromise&) = delete;
  ReadyPromise& operator=(const ReadyPromise&) = delete;
  ~ReadyPromise() {
    if (state_ && !state_->is_done()) abandon();
  }

  /// Returns a view of the event.
  ReadyEvent event() const { return ReadyEvent(state_); }

  /// Makes the event ready; only the first call counts.
  void set(Status status = {}) { state_->set(std::move(status)); }

 private:
  void abandon() noexcept {
    try {
      state_->set(Status(StatusCode::kCancelled,
                         "The work was dropped before it ran: its queue was cancelled or closed."));
    } catch (...) {
      // Only a callback or an allocation can throw here, and nothing is left to tell.
    }
  }

  std::shared_ptr<detail::EventState> state_;
};

}  // namespace devrt
