// The way of a plugin's threads into Python, which is shut when the interpreter ends.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "binding/python.hpp"
#include "devrt/base/fork_guard.hpp"

namespace devrt::native {

/// Lets calls in while there is an interpreter: one that reached it later would never return.
class CallGate {
 public:
  bool enter();
  void leave();
  void shut();
  /// Waits for a moment; returns whether nobody is inside.
  bool wait();
  /// Returns whether the gate is another process's, whose threads do not exist here.
  bool is_forked() const noexcept { return fork_.is_child(); }

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  std::size_t inside_ = 0;
  bool is_shut_ = false;
  ForkGuard fork_;
};

/// Returns the one gate. Never destroyed: threads of a plugin may come by while the process exits.
CallGate& call_gate();
/// Says that a plugin will call, before one of its threads can, and before a fork.
void use_call_gate();
/// Lets no call in any more, and waits for those that are inside. Returns false, with a Python
/// error, where a signal broke the wait off. Needs the GIL.
bool finish_calls();

/// Holds the GIL on a thread of a plugin, or of a caller who released it.
class GilHold {
 public:
  GilHold() noexcept : state_(PyGILState_Ensure()) {}
  GilHold(const GilHold&) = delete;
  GilHold& operator=(const GilHold&) = delete;
  ~GilHold() { PyGILState_Release(state_); }

 private:
  const GilRelease::Pause pause_;
  const PyGILState_STATE state_;
};

}  // namespace devrt::native
