#include "binding/call_gate.hpp"

#include <atomic>
#include <chrono>

#include "binding/signals.hpp"

namespace devrt::native {

namespace {

std::atomic<bool> gate_is_used{false};

}  // namespace

bool CallGate::enter() {
  std::lock_guard lock(mutex_);
  if (is_shut_) return false;
  ++inside_;
  return true;
}

void CallGate::leave() {
  std::lock_guard lock(mutex_);
  if (--inside_ == 0) empty_.notify_all();
}

void CallGate::shut() {
  std::lock_guard lock(mutex_);
  is_shut_ = true;
}

bool CallGate::wait() {
  std::unique_lock lock(mutex_);
  // A system-clock wait: gcc 12's TSan misses the steady one.
  const auto until = std::chrono::system_clock::now() + std::chrono::milliseconds(20);
  return empty_.wait_until(lock, until, [this] { return inside_ == 0; });
}

CallGate& call_gate() {
  static auto* const made = new CallGate;
  return *made;
}

void use_call_gate() {
  (void)call_gate();
  gate_is_used.store(true, std::memory_order_relaxed);
}

bool finish_calls() {
  if (!gate_is_used.load(std::memory_order_relaxed) || call_gate().is_forked()) return true;
  call_gate().shut();
  try {
    wait_in_slices([] { return call_gate().wait(); });
  } catch (nb::python_error& error) {
    error.restore();
    return false;
  }
  return true;
}

}  // namespace devrt::native
