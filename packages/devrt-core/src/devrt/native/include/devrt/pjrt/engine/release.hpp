// Buffers that go back to a plugin in a thread that may wait.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "devrt/base/unique_function.hpp"

namespace devrt::pjrt {

/// Runs releases in a thread of its own, one after the other.
///
/// The release of a buffer may wait: XLA's does until the program that took the buffer by donation
/// has ended. The plugin's threads end programs, so none of them may; and a caller that did would
/// wait for a whole program.
class ReleaseQueue {
 public:
  using Release = UniqueFunction<void()>;

  ReleaseQueue() : shared_(std::make_shared<Shared>()) {
    sigset_t all;
    sigset_t former;
    sigfillset(&all);  // signals are for the program's own threads
    pthread_sigmask(SIG_SETMASK, &all, &former);
    try {
      thread_ = std::thread([shared = shared_] { run(*shared); });
      pthread_setname_np(thread_.native_handle(), "devrt-release");
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &former, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &former, nullptr);
  }
  ReleaseQueue(const ReleaseQueue&) = delete;
  ReleaseQueue& operator=(const ReleaseQueue&) = delete;
  /// Ends the thread once it has run the releases. One of them may be what destroys the queue.
  ~ReleaseQueue() {
    {
      std::lock_guard lock(shared_->mutex);
      shared_->is_closed = true;
      shared_->changed.notify_one();
    }
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  /// Never waits.
  void push(Release release) {
    std::lock_guard lock(shared_->mutex);
    shared_->queue.push_back(std::move(release));
    if (shared_->queue.size() == 1) shared_->changed.notify_one();
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Release> queue;
    bool is_closed = false;
  };

  static void run(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    while (true) {
      shared.changed.wait(lock, [&] { return shared.is_closed || !shared.queue.empty(); });
      if (shared.queue.empty()) return;
      std::vector<Release> taken;
      taken.swap(shared.queue);
      lock.unlock();
      for (Release& release : taken) std::exchange(release, {})();
      taken.clear();
      lock.lock();
    }
  }

  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace devrt::pjrt
