// What holds a simulated stream back, so that a test knows what has ended and what has not.
#pragma once

#include <atomic>

#include "driver_api.hpp"

namespace devrt::gpu {

inline void ok(int result) { CHECK(result == 0); }

/// Holds back what a stream is given until it is opened.
class Gate {
 public:
  explicit Gate(::Stream stream) : stream_(stream) {
    const auto wait = [](void* is_open) { static_cast<std::atomic<bool>*>(is_open)->wait(false); };
    ok(cuLaunchHostFunc(stream, wait, &is_open_));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    open();
    (void)cuStreamSynchronize(stream_);
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }

 private:
  const ::Stream stream_;
  std::atomic<bool> is_open_{false};
};

}  // namespace devrt::gpu
