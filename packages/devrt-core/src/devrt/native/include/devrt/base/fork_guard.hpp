// Detects that the process was forked, at the price of one load: threads and locks do not survive.
#pragma once

#include <pthread.h>

#include <atomic>
#include <string>

#include "devrt/base/status.hpp"

namespace devrt {

namespace detail {

/// Counts the forks that led to this process, since the first guard was made.
inline std::atomic<unsigned>& fork_generation() noexcept {
  static std::atomic<unsigned> generation{0};
  return generation;
}

inline void watch_forks() noexcept {
  [[maybe_unused]] static const int registered = pthread_atfork(
      nullptr, nullptr, [] { fork_generation().fetch_add(1, std::memory_order_relaxed); });
}

}  // namespace detail

/// Remembers the process that it was made in.
class ForkGuard {
 public:
  ForkGuard() noexcept {
    detail::watch_forks();
    generation_ = detail::fork_generation().load(std::memory_order_relaxed);
  }

  /// Returns whether this is a child forked after the guard was made.
  bool is_child() const noexcept {
    return detail::fork_generation().load(std::memory_order_relaxed) != generation_;
  }

  /// Throws FAILED_PRECONDITION in a child.
  void check(const char* operation) const {
    if (is_child()) [[unlikely]] {
      throw StatusError(
          Status(StatusCode::kFailedPrecondition,
                 std::string(operation) +
                     " failed: the client was made before this process was forked, and its threads "
                     "do not exist here. Start processes with multiprocessing's 'spawn' method, or "
                     "fork before the first use of devrt.")
              .because(Reason::kForked)
              .during(operation));
    }
  }

 private:
  unsigned generation_ = 0;
};

}  // namespace devrt
