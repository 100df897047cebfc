// An ordered, bounded queue of work with one thread that starts at the first use.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "devrt/async/thread.hpp"
#include "devrt/base/fork_guard.hpp"
#include "devrt/base/status.hpp"
#include "devrt/base/unique_function.hpp"

namespace devrt {

/// Runs tasks one after another in the order they came. Tasks must not throw.
///
/// The thread starts with the first task, ends when none came for a while, and starts again.
class WorkQueue {
 public:
  using Task = UniqueFunction<void()>;
  /// What `close` does with tasks that have not started.
  enum class OnClose { kDrain, kCancel };

  /// How long a thread without work stays.
  static constexpr std::chrono::milliseconds kLinger{10'000};

  WorkQueue(std::string name, std::size_t depth, std::chrono::milliseconds linger = kLinger)
      : shared_(std::make_shared<Shared>()), name_(std::move(name)) {
    shared_->depth = depth == 0 ? 1 : depth;
    shared_->linger = linger;
  }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  ~WorkQueue() { close(OnClose::kCancel); }

  /// Appends a task; waits while the queue is full. Throws FAILED_PRECONDITION once closed.
  void enqueue(Task task) {
    fork_.check("enqueue");
    Shared& shared = *shared_;
    std::unique_lock lock(shared.mutex);
    if (!shared.closed && !shared.started) start(shared);
    shared.not_full.wait(lock, [&] { return shared.closed || shared.tasks.size() < shared.depth; });
    if (shared.closed) {
      throw StatusError(Status(StatusCode::kFailedPrecondition,
                               "The work queue " + name_ + " is closed and takes no more work.")
                            .because(Reason::kClosed)
                            .during("enqueue"));
    }
    shared.tasks.push_back(std::move(task));
    ++shared.enqueued;
    shared.work.notify_one();
  }

  /// Takes no more tasks and drops those that have not started; does not wait. Idempotent.
  void cancel() noexcept {
    if (fork_.is_child()) return;
    std::deque<Task> dropped;  // made before the lock, so it ends after it
    std::lock_guard lock(shared_->mutex);
    shared_->closed = true;
    dropped.swap(shared_->tasks);
    shared_->end(dropped.size());
    shared_->work.notify_all();
    shared_->not_full.notify_all();
  }

  /// Ends the thread after the tasks are run or dropped. Idempotent; waits unless called by a task.
  void close(OnClose how) noexcept {
    if (fork_.is_child()) return abandon();
    std::deque<Task> dropped;
    Thread worker;
    {
      std::lock_guard lock(shared_->mutex);
      shared_->closed = true;
      if (how == OnClose::kCancel) dropped.swap(shared_->tasks);
      shared_->end(dropped.size());
      worker.swap(worker_);
      shared_->work.notify_all();
      shared_->not_full.notify_all();
    }
    dropped.clear();
    if (!worker.joinable()) return;
    if (worker.is_current()) {
      worker.detach();  // the last owner died inside a task: the thread ends by itself
    } else {
      worker.join();
    }
  }

  /// Waits until the tasks that are there now are done or dropped, and what they own is freed. Not
  /// to be called by a task, for which it does nothing.
  void drain() const {
    if (fork_.is_child()) return;
    std::unique_lock lock(shared_->mutex);
    if (shared_->runner == std::this_thread::get_id()) return;
    const std::uint64_t last = shared_->enqueued;
    shared_->done.wait(lock, [&] { return shared_->ended >= last; });
  }

  /// Returns the number of tasks that have not started.
  std::size_t pending() const {
    std::lock_guard lock(shared_->mutex);
    return shared_->tasks.size();
  }

  /// Returns whether no task is there, waiting or running.
  bool is_idle() const {
    std::lock_guard lock(shared_->mutex);
    return shared_->tasks.empty() && !shared_->running;
  }

  /// Returns whether there is a thread.
  bool has_thread() const {
    std::lock_guard lock(shared_->mutex);
    return shared_->started;
  }

 private:
  /// Outlives the queue as long as the thread runs.
  struct Shared {
    std::mutex mutex;
    std::condition_variable work;
    std::condition_variable not_full;
    std::condition_variable done;
    std::deque<Task> tasks;
    std::size_t depth = 1;
    std::chrono::milliseconds linger{};
    bool started = false;
    bool running = false;
    bool closed = false;
    std::thread::id runner;  // who runs the tasks, even while `close` joins it
    std::uint64_t enqueued = 0;
    std::uint64_t ended = 0;  // tasks that are done or dropped

    void end(std::uint64_t count) {
      ended += count;
      done.notify_all();
    }
  };

  void start(Shared& shared) {
    if (worker_.joinable()) worker_.join();  // one that lingered in vain: it is past the lock
    try {
      worker_ = Thread([keep = shared_] { run(*keep); });
    } catch (const std::system_error& error) {
      throw StatusError(Status(StatusCode::kResourceExhausted,
                               "The system starts no thread for the work queue " + name_ + " (" +
                                   error.what() + "). End threads or raise the limits on them.")
                            .during("enqueue"));
    }
    shared.started = true;
    pthread_setname_np(worker_.native_handle(), name_.substr(0, 15).c_str());
  }

  static void run(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    shared.runner = std::this_thread::get_id();
    while (true) {
      // A system-clock wait, as the steady one is a call that gcc 12's TSan misses.
      const auto until = std::chrono::system_clock::now() + shared.linger;
      shared.work.wait_until(lock, until, [&] { return shared.closed || !shared.tasks.empty(); });
      if (shared.tasks.empty()) {
        shared.started = shared.closed;  // a closed queue starts no other
        return;
      }
      shared.running = true;
      {
        Task task = std::move(shared.tasks.front());
        shared.tasks.pop_front();
        shared.not_full.notify_one();
        lock.unlock();
        task();
      }  // what the task owns is freed without the lock
      lock.lock();
      shared.running = false;
      shared.end(1);
    }
  }

  /// In a forked child the thread does not exist and the lock may be held for ever: leak both.
  void abandon() noexcept {
    if (worker_.joinable()) worker_.detach();
    new std::shared_ptr<Shared>(std::move(shared_));
    shared_ = nullptr;
  }

  std::shared_ptr<Shared> shared_;
  std::string name_;
  Thread worker_;
  ForkGuard fork_;
};

}  // namespace devrt
