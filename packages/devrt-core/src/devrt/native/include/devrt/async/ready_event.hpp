// Ready events: a promise that one side keeps, or a device's own event, and views that any number
// of sides wait on.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "devrt/async/dependency.hpp"
#include "devrt/base/status.hpp"
#include "devrt/base/unique_function.hpp"

namespace devrt {

/// What a device knows of the end of its work: where an event comes from that no promise sets.
/// Thread-safe; lives until the work has ended, or until nobody asks any more.
class EventSource {
 public:
  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  /// Returns how the work ended, or nothing while it goes on.
  virtual std::optional<Status> query() noexcept = 0;
  /// Waits for at most `timeout`; empty if it passed first.
  virtual std::optional<Status> wait_for(std::chrono::nanoseconds timeout) noexcept = 0;
  /// Has `ended` called once, in this thread or another, when the work has ended. `ended` may call
  /// the device: a thread that must not, as a driver's, hands it on. Called at most once.
  virtual void notify(UniqueFunction<void(const Status&)> ended) = 0;
  /// Returns whether `ended` may wait: it is called in a thread that nothing else waits for.
  virtual bool waits_in_notify() const noexcept { return false; }
  /// Returns whether the work has ended whenever that of a later source has. `is_after` says that
  /// the later one was begun behind this.
  virtual bool ends_before(const EventSource& /*later*/, bool /*is_after*/) const noexcept {
    return false;
  }
};

namespace detail {

/// What a promise, or a source, and the views of it share; set exactly once.
class EventState {
 public:
  using Callback = UniqueFunction<void(const Status&)>;

  explicit EventState(Dependencies dependencies) noexcept
      : dependencies_(std::move(dependencies)) {}
  EventState(std::shared_ptr<EventSource> source, Dependencies dependencies) noexcept
      : source_(std::move(source)), dependencies_(std::move(dependencies)) {}

  bool is_done() noexcept { return is_set() || (source_ && learn(source_->query())); }
  bool is_known() const noexcept { return is_set(); }
  const Status& status() const noexcept { return status_; }
  const std::shared_ptr<EventSource>& source() const noexcept { return source_; }
  const Dependencies& dependencies() const noexcept { return dependencies_; }

  /// Makes the event ready, once its dependencies need no wait any more; only the first call
  /// counts. `self` is the caller's share.
  static void set(const std::shared_ptr<EventState>& self, Status status) {
    {
      std::lock_guard lock(self->mutex_);
      if (std::exchange(self->has_ended_, true)) return;
    }
    finish(self, std::move(status));
  }

  void wait() {
    if (is_set()) return;
    if (source_) {
      while (!wait_for(std::chrono::hours(1))) {
      }
      return;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_set(); });
  }

  bool wait_for(std::chrono::nanoseconds timeout) {
    if (is_set()) return true;
    if (source_) return wait_for_source(timeout);
    std::unique_lock lock(mutex_);
    // A system-clock wait: the steady one is pthread_cond_clockwait, which gcc 12's TSan misses.
    const auto until = std::chrono::system_clock::now() + timeout;
    return changed_.wait_until(lock, until, [this] { return is_set(); });
  }

  /// `self` is the share of the caller: a source keeps one until the work has ended.
  void on_ready(const std::shared_ptr<EventState>& self, Callback callback) {
    bool is_first = false;
    {
      std::lock_guard lock(mutex_);
      if (!is_set()) {
        callbacks_.push_back(std::move(callback));  // which leaves it empty
        is_first = !std::exchange(has_callbacks_, true);
      }
    }
    if (callback) return callback(status_);
    if (is_first && source_) {
      source_->notify([self](const Status& status) { set(self, status); });
    }
  }

 private:
  bool is_set() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Returns a dependency that has still to be waited for where the work has ended so.
  const Dependency* awaited(const Status& ended) const noexcept {
    if (!ended.ok()) return nullptr;
    const auto found =
        std::ranges::find_if(dependencies_, &Dependency::is_awaited,
                             [](const auto& each) -> const Dependency& { return *each; });
    return found == dependencies_.end() ? nullptr : found->get();
  }
  static void finish(const std::shared_ptr<EventState>& self, Status status) {
    while (const Dependency* dependency = self->awaited(status)) {
      if (!self->source_ || !self->source_->waits_in_notify()) {
        return dependency->on_over([self, status] { finish(self, status); });
      }
      (void)dependency->wait_for(std::chrono::hours(1));
    }
    std::vector<Callback> callbacks;
    {
      std::lock_guard lock(self->mutex_);
      self->settle(std::move(status));
      callbacks.swap(self->callbacks_);
    }
    for (Callback& callback : callbacks) callback(self->status_);
  }
  bool wait_for_source(std::chrono::nanoseconds timeout) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    std::optional<Status> ended = source_->wait_for(timeout);
    while (ended) {
      const Dependency* dependency = awaited(*ended);
      if (!dependency) break;
      if (!dependency->wait_for(until - std::chrono::steady_clock::now())) return is_set();
    }
    return learn(std::move(ended));
  }
  /// Under the lock.
  void settle(Status status) {
    if (is_set()) return;
    status_ = status.ok() ? first_error_of(dependencies_) : std::move(status);
    done_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  /// Takes what the source knows. Callbacks are left to its `notify`: who asks may hold locks.
  bool learn(std::optional<Status> ended) {
    if (!ended || awaited(*ended)) return is_set();
    std::lock_guard lock(mutex_);
    settle(*std::move(ended));
    return true;
  }

  const std::shared_ptr<EventSource> source_;
  const Dependencies dependencies_;
  std::atomic<bool> done_{false};
  bool has_callbacks_ = false;
  bool has_ended_ = false;  // `set` was called
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
    auto state = std::make_shared<detail::EventState>(Dependencies());
    detail::EventState::set(state, std::move(status));
    return ReadyEvent(std::move(state));
  }

  /// Returns the event of work that a device tells the end of. It fails also where one of its
  /// dependencies has failed by that end.
  static ReadyEvent of(std::shared_ptr<EventSource> source, Dependencies dependencies = {}) {
    return ReadyEvent(
        std::make_shared<detail::EventState>(std::move(source), std::move(dependencies)));
  }
  /// Returns the same event with more dependencies.
  ReadyEvent with(Dependencies dependencies) const;

  /// Returns where the event comes from; null if a promise sets it, or nothing has to.
  EventSource* source() const noexcept { return state_ ? state_->source().get() : nullptr; }
  /// Returns the same with a share of it.
  std::shared_ptr<EventSource> shared_source() const noexcept {
    return state_ ? state_->source() : nullptr;
  }
  /// Returns what else must end well. The error of any is one of all that uses the result: a device
  /// that waits for the event does not learn it.
  const Dependencies& dependencies() const noexcept {
    static const Dependencies none;
    return state_ ? state_->dependencies() : none;
  }

  /// Returns whether it was set, with a value or an error; does not wait.
  bool is_ready() const noexcept { return !state_ || state_->is_done(); }

  /// Returns whether it is ready as far as this process knows; looks at no device.
  bool is_known() const noexcept { return !state_ || state_->is_known(); }
  /// Returns whether it is ready whenever a later event, or the same, is, `after` being what the
  /// work of that one was begun behind.
  bool ends_before(const ReadyEvent& later, std::span<const ReadyEvent> after = {}) const noexcept {
    if (state_ == later.state_) return true;
    if (!source() || !later.source()) return false;
    const auto is_this = [this](const ReadyEvent& event) { return event.state_ == state_; };
    return source()->ends_before(*later.source(), std::ranges::any_of(after, is_this));
  }

  /// Returns how it ended, or nothing while it is not ready; does not wait. One look: an event that
  /// fails between `is_ready` and `error` of two looks would be taken for one that went well.
  std::optional<Status> query() const {
    if (!is_ready()) return std::nullopt;
    return state_ ? state_->status() : Status();
  }

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
      state_->on_ready(state_, std::move(callback));
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
  explicit ReadyPromise(Dependencies dependencies = {})
      : state_(std::make_shared<detail::EventState>(std::move(dependencies))) {}
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
  void set(Status status = {}) { detail::EventState::set(state_, std::move(status)); }

 private:
  void abandon() noexcept {
    try {
      set(Status(StatusCode::kCancelled,
                 "The work was dropped before it ran: its queue was cancelled or closed."));
    } catch (...) {
      // Only a callback or an allocation can throw here, and nothing is left to tell.
    }
  }

  std::shared_ptr<detail::EventState> state_;
};

/// Work that ends with an event, whose error others know by the time that theirs ends.
class EventDependency : public Dependency {
 public:
  explicit EventDependency(ReadyEvent event) noexcept : event_(std::move(event)) {}

  bool is_open() const noexcept override { return !event_.is_ready(); }
  Status status() const override { return event_.query().value_or(Status()); }

 protected:
  const ReadyEvent event_;  // which keeps the answer
};

/// Work whose error its event alone has, which may come later than the end of what uses the result.
class AwaitedEnd : public EventDependency {
 public:
  using EventDependency::EventDependency;

  bool is_awaited() const noexcept override { return is_open(); }
  bool wait_for(std::chrono::nanoseconds timeout) const override {
    return event_.wait_for(timeout).has_value();
  }
  void on_over(UniqueFunction<void()> over) const override {
    event_.on_ready([over = std::move(over)](const Status&) mutable { over(); });
  }
};

inline ReadyEvent ReadyEvent::with(Dependencies dependencies) const {
  if (dependencies.empty()) return *this;
  add_dependencies(this->dependencies(), dependencies);
  if (source()) return of(shared_source(), std::move(dependencies));
  ReadyPromise promise(std::move(dependencies));
  ReadyEvent event = promise.event();
  on_ready([promise = std::move(promise)](const Status& status) mutable { promise.set(status); });
  return event;
}

}  // namespace devrt
