// What work depends on beyond its own device, which may fail while that device goes on.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "devrt/base/status.hpp"

namespace devrt {

/// The end of a collective. A rank of one that is broken off ends as if all were well, so its event
/// asks here, and so do the events of what waited for it on a device. Thread-safe.
class Fate {
 public:
  virtual ~Fate() = default;

  /// Notes that it was broken off; before the library breaks it off.
  void fail(Status why) {
    why_ = std::move(why);
    state_.store(State::kFailed, std::memory_order_release);
  }
  /// Notes that all ranks have ended well.
  void settle() noexcept { state_.store(State::kGood, std::memory_order_release); }

  virtual bool is_open() const noexcept {
    return state_.load(std::memory_order_acquire) == State::kOpen;
  }
  virtual Status status() const {
    return state_.load(std::memory_order_acquire) == State::kFailed ? why_ : Status();
  }

 private:
  enum class State { kOpen, kGood, kFailed };
  std::atomic<State> state_{State::kOpen};
  Status why_;
};

/// What some work depends on besides its own device.
using Fates = std::vector<std::shared_ptr<const Fate>>;

/// Returns the first error among them.
inline Status status_of(const Fates& fates) {
  for (const auto& fate : fates) {
    if (Status status = fate->status(); !status.ok()) return status;
  }
  return {};
}

/// Adds those that may still fail, or have, and are not there.
inline void add_fates(const Fates& from, Fates& to) {
  for (const auto& fate : from) {
    const bool matters = fate->is_open() || !fate->status().ok();
    if (matters && std::ranges::find(to, fate) == to.end()) to.push_back(fate);
  }
}

}  // namespace devrt
