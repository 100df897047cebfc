// Work queues by execution stream: one id is ordered, different ids may overlap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devrt/async/work_queue.hpp"
#include "devrt/base/fork_guard.hpp"
#include "devrt/base/status.hpp"

namespace devrt {

/// A few queues that any number of stream ids share. Thread-safe.
///
/// An id keeps its queue while work of it is there, which is what orders it; an idle queue serves
/// the next id that comes. Only when all queues are busy does an id join another's queue. Tasks may
/// wait for work that was enqueued before them, on any id: the oldest task always can run.
class StreamQueues {
 public:
  using Task = WorkQueue::Task;
  using OnClose = WorkQueue::OnClose;
  static constexpr std::size_t kMostQueues = 16;

  /// `depth` bounds each queue; `most` bounds their number, and so that of threads.
  StreamQueues(std::string name, std::size_t depth, std::size_t most = kMostQueues)
      : name_(std::move(name)), depth_(depth), most_(std::max<std::size_t>(most, 1)) {}
  StreamQueues(const StreamQueues&) = delete;
  StreamQueues& operator=(const StreamQueues&) = delete;

  /// Appends a task to the stream's queue; waits while that is full. Throws FAILED_PRECONDITION
  /// once closed.
  void enqueue(std::int64_t stream, Task task) {
    fork_.check("enqueue");
    const Arrival arrival(*this, stream);
    arrival.lane().queue.enqueue(std::move(task));
  }

  /// Takes no more tasks and drops those that have not started; does not wait. Idempotent.
  void cancel() noexcept {
    if (fork_.is_child()) return;
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (const auto& lane : lanes_) lane->queue.cancel();
  }

  /// Ends all threads after the tasks are run or dropped. Idempotent.
  void close(OnClose how) noexcept {
    if (!fork_.is_child()) {
      std::lock_guard lock(mutex_);
      closed_ = true;  // from here on the lanes stay as they are
    }
    for (const auto& lane : lanes_) lane->queue.close(how);
  }

  /// Waits until the tasks that are there now are done or dropped, and what they own is freed.
  void drain() const {
    for (const Lane* lane : busy_lanes()) lane->queue.drain();
  }

  /// Returns whether no task is there, waiting or running.
  bool is_idle() const { return busy_lanes().empty(); }

  /// Returns the number of tasks that have not started.
  std::size_t pending() const {
    std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& lane : lanes_) count += lane->queue.pending();
    return count;
  }

  /// Returns the number of queues made so far.
  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return lanes_.size();
  }

 private:
  struct Lane {
    Lane(std::string name, std::size_t depth) : queue(std::move(name), depth) {}
    bool serves(std::int64_t stream) const {
      return std::find(streams.begin(), streams.end(), stream) != streams.end();
    }
    bool is_free() const { return arriving == 0 && queue.is_idle(); }

    WorkQueue queue;
    std::vector<std::int64_t> streams;
    std::size_t arriving = 0;  // callers between choosing the lane and having enqueued
  };

  /// Holds a lane for its stream until the task is in the queue.
  class Arrival {
   public:
    Arrival(StreamQueues& queues, std::int64_t stream) : queues_(queues) {
      std::lock_guard lock(queues_.mutex_);
      lane_ = &queues_.choose(stream);
      ++lane_->arriving;
    }
    Arrival(const Arrival&) = delete;
    Arrival& operator=(const Arrival&) = delete;
    ~Arrival() {
      std::lock_guard lock(queues_.mutex_);
      --lane_->arriving;
    }
    Lane& lane() const noexcept { return *lane_; }

   private:
    StreamQueues& queues_;
    Lane* lane_;
  };

  /// A lane stays where it is as long as the queues live.
  std::vector<const Lane*> busy_lanes() const {
    std::vector<const Lane*> busy;
    if (fork_.is_child()) return busy;
    std::lock_guard lock(mutex_);
    for (const auto& lane : lanes_) {
      if (!lane->queue.is_idle()) busy.push_back(lane.get());
    }
    return busy;
  }

  /// Returns the lane for a stream's next task; with the lock held.
  Lane& choose(std::int64_t stream) {
    for (const auto& lane : lanes_) {
      if (lane->serves(stream)) return *lane;
    }
    for (const auto& lane : lanes_) {
      if (lane->is_free()) {
        lane->streams.assign(1, stream);
        return *lane;
      }
    }
    Lane& lane = lanes_.size() < most_ && !closed_ ? add_lane() : least_busy();
    lane.streams.push_back(stream);
    return lane;
  }

  Lane& add_lane() {
    const std::size_t index = lanes_.size();
    lanes_.push_back(
        std::make_unique<Lane>(index == 0 ? name_ : name_ + "." + std::to_string(index), depth_));
    return *lanes_.back();
  }

  Lane& least_busy() const {
    if (lanes_.empty()) {
      throw StatusError(Status(StatusCode::kFailedPrecondition,
                               "The work queue " + name_ + " is closed and takes no more work.")
                            .because(Reason::kClosed)
                            .during("enqueue"));
    }
    return **std::min_element(lanes_.begin(), lanes_.end(), [](const auto& a, const auto& b) {
      return a->queue.pending() + a->arriving < b->queue.pending() + b->arriving;
    });
  }

  const std::string name_;
  const std::size_t depth_;
  const std::size_t most_;
  ForkGuard fork_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace devrt
