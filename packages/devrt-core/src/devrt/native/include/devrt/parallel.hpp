// Runs independent pieces of work on the caller's thread and a few short-lived ones.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace devrt {

/// Returns how many threads a bulk copy is worth: the processors, but no more than four.
inline unsigned copy_threads() noexcept {
  static const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
  return count;
}

/// Calls `work(i)` for every i below `count`, each once, and returns when all are done.
/// `work` must not throw. Threads that cannot be started are done without.
template <class Work>
void parallel_for(std::size_t count, unsigned threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto drain = [&] {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
  };
  std::vector<std::jthread> helpers;
  const std::size_t wanted = std::min<std::size_t>(threads, count);
  helpers.reserve(wanted);
  try {
    while (helpers.size() + 1 < wanted) helpers.emplace_back(drain);
  } catch (const std::system_error&) {
    // The caller's thread does what is left.
  }
  drain();
}

}  // namespace devrt
