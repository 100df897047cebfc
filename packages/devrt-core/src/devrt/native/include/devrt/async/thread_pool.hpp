// Runs independent pieces of work on the caller's thread and a few that stay and wait for more.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "devrt/base/fork_guard.hpp"

namespace devrt {

/// Returns the number of processors that this process may run on; at least one.
inline unsigned usable_processors() noexcept {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    return std::max(1u, static_cast<unsigned>(CPU_COUNT(&allowed)));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

/// A few threads, started at the first use, that help a caller through a loop. Thread-safe.
///
/// They run nothing but the callers' functions and own nothing, so joining them waits for the
/// pieces in progress and for nothing else.
class ThreadPool {
 public:
  /// `width` counts the caller: a pool of one has no threads.
  ThreadPool(std::string name, unsigned width)
      : shared_(std::make_unique<Shared>()), name_(std::move(name)), width_(std::max(1u, width)) {
    shared_->threads.reserve(width_ - 1);
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { close(); }

  unsigned width() const noexcept { return width_; }

  /// Calls `work(i)` for every i below `count`, each once, and returns when all are done. `work`
  /// must not throw. The caller works too, and does it all once the pool is closed, in a forked
  /// child, or where no thread can be started.
  template <class Work>
  void run(std::size_t count, const Work& work) {
    Job job;
    job.count = count;
    job.context = &work;
    job.call = [](const void* context, std::size_t i) { (*static_cast<const Work*>(context))(i); };
    if (count > 1 && width_ > 1 && !fork_.is_child()) {
      run_helped(job);
    } else {
      job.drain();
    }
  }

  /// Ends the threads once they have finished the pieces that they are at. Idempotent.
  void close() noexcept {
    if (fork_.is_child()) return abandon();
    std::vector<std::thread> threads;
    {
      std::lock_guard lock(shared_->mutex);
      shared_->closed = true;
      threads.swap(shared_->threads);
    }
    shared_->work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  /// One loop, on its caller's stack: listed while there are pieces that nobody has taken.
  struct Job {
    std::atomic<std::size_t> next{0};
    std::size_t count = 0;
    const void* context = nullptr;
    void (*call)(const void* context, std::size_t i) = nullptr;
    unsigned helpers = 0;  // that are in drain(); under the pool's lock
    Job* below = nullptr;

    void drain() {
      for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) call(context, i);
    }
  };

  struct Shared {
    std::mutex mutex;
    std::condition_variable work;
    std::condition_variable done;
    Job* jobs = nullptr;  // the newest first
    std::vector<std::thread> threads;
    unsigned idle = 0;
    bool closed = false;

    void unlist(const Job& job) noexcept {
      for (Job** link = &jobs; *link; link = &(*link)->below) {
        if (*link == &job) {
          *link = job.below;
          return;
        }
      }
    }
  };

  void run_helped(Job& job) {
    Shared& shared = *shared_;
    const std::size_t wanted = std::min<std::size_t>(width_, job.count) - 1;
    {
      std::lock_guard lock(shared.mutex);
      if (!shared.closed) {
        start_threads(shared, wanted);
        job.below = shared.jobs;
        shared.jobs = &job;
      }
    }
    for (std::size_t i = 0; i < wanted; ++i) shared.work.notify_one();
    job.drain();
    std::unique_lock lock(shared.mutex);
    shared.unlist(job);
    shared.done.wait(lock, [&] { return job.helpers == 0; });
  }

  /// Starts threads until `wanted` are idle or the pool is full.
  void start_threads(Shared& shared, std::size_t wanted) {
    try {
      while (shared.idle < wanted && shared.threads.size() + 1 < width_) {
        shared.threads.emplace_back([&shared] { help(shared); });
        ++shared.idle;
        pthread_setname_np(shared.threads.back().native_handle(), name_.substr(0, 15).c_str());
      }
    } catch (const std::system_error&) {
      // The caller and the threads that there are do the work.
    }
  }

  static void help(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    while (true) {
      shared.work.wait(lock, [&] { return shared.closed || shared.jobs; });
      if (shared.closed) return;
      Job& job = *shared.jobs;
      if (job.next.load(std::memory_order_relaxed) >= job.count) {
        shared.unlist(job);  // nothing left to take: its caller only waits for helpers
        continue;
      }
      ++job.helpers;
      --shared.idle;
      lock.unlock();
      job.drain();
      lock.lock();
      ++shared.idle;
      if (--job.helpers == 0) shared.done.notify_all();
    }
  }

  /// In a forked child the threads do not exist and the lock may be held for ever: leak both.
  void abandon() noexcept { (void)shared_.release(); }

  std::unique_ptr<Shared> shared_;
  const std::string name_;
  const unsigned width_;
  ForkGuard fork_;
};

}  // namespace devrt
