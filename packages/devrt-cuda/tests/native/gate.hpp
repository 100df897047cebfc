// What holds a simulated stream back, so that a test knows what has ended and what has not.
#pragma once

#include <atomic>

#include "driver_result.hpp"
#include "gpu/driver.hpp"

namespace devrt::gpu {

/// Returns the simulated driver by neutral names.
inline const Driver& driver() { return driver_in(SIMULATOR); }

/// Holds back what a stream is given until it is opened.
class Gate {
 public:
  explicit Gate(void* stream) : stream_(static_cast<StreamHandle*>(stream)) {
    const auto wait = [](void* is_open) { static_cast<std::atomic<bool>*>(is_open)->wait(false); };
    ok(driver().launch_host(stream_, wait, &is_open_));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    open();
    (void)driver().call.stream_synchronize(stream_);
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }

 private:
  StreamHandle* const stream_;
  std::atomic<bool> is_open_{false};
};

}  // namespace devrt::gpu
