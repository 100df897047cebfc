// Streams: each runs its operations in order, in a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "gpu_simulator/clock.hpp"
#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

struct Stream;
using StreamRef = std::shared_ptr<Stream>;

/// A place in the work of a stream: it is met when so many operations are complete.
struct Point {
  StreamRef stream;
  std::uint64_t number = 0;
};

struct Operation {
  MomentRef moment;
  std::vector<Point> waits;
  /// Does the work, without the machine's lock; is given why the device does no more work.
  std::function<void(Code)> run;
  bool even_if_failed = false;  ///< else the work is left out once the device has failed
};

/// Guarded by the machine's lock.
struct Stream {
  Handle handle = 0;  ///< 0: the default stream of its context
  int device = 0;
  Handle context = 0;
  std::size_t actor = 0;
  bool is_blocking = true;  ///< waits for the default stream, which waits for it
  Clock clock;
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
  std::deque<Operation> queue;
  bool has_thread = false;
  bool is_closing = false;
  std::condition_variable work;
  std::condition_variable progress;

  bool has_met(const std::uint64_t number) const noexcept { return completed >= number; }
};

struct Event {
  Handle context = 0;
  int device = 0;
  bool has_time = true;
  Point point;  ///< no stream: never recorded
  Clock clock;
  std::shared_ptr<std::int64_t> nanoseconds;  ///< when the record ran
};

}  // namespace devrt::gpu_simulator
