#include "binding/signals.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "binding/python.hpp"
#include "client/ending.hpp"
#include "devrt/async/ready_event.hpp"
#include "devrt/async/work_queue.hpp"
#include "devrt/pjrt/engine/event.hpp"

namespace devrt::native {

namespace {

using Clock = std::chrono::steady_clock;
/// Returns whether handlers of signals run on this thread.
bool is_main_thread() noexcept { return syscall(SYS_gettid) == getpid(); }

bool wait_once(const std::function<bool()>& slice) {
  if (GilRelease::is_active()) return slice();
  const GilRelease released;
  return slice();
}

/// Says what the end of other work waits for, when that is more than a moment.
class Speaker {
 public:
  explicit Speaker(Waiting what) noexcept : is_silent_(what == Waiting::kData) {}

  void speak() {
    if (is_silent_ || has_reported_ || !(was_interrupted() || is_exiting())) return;
    if (!was_interrupted() && Clock::now() - begun_ < kSilentExit) return;
    has_reported_ = say_what_runs();
  }
  /// Who knows what is waited for and does not want to wait wants that of nobody else.
  void note() const noexcept {
    const bool is_known = has_reported_ || (!is_silent_ && was_reported_at_exit());
    note_interrupt();
    if (is_known) abandon_on_demand();
  }

 private:
  const bool is_silent_;
  const Clock::time_point begun_ = Clock::now();
  bool has_reported_ = false;
};

/// The thread of work that the main thread waits for; kept for the next, as starting one takes as
/// long as a small program.
class Helper {
 public:
  /// Returns false if there is no thread to be had.
  bool start(WorkQueue::Task task) {
    if (!queue_ || process_.is_child()) {
      give_up();
      process_ = ForkGuard();
      queue_ = std::make_unique<WorkQueue>("devrt-" + platform().name + ":calls", 1);
    }
    try {
      queue_->enqueue(std::move(task));
    } catch (const StatusError&) {
      return false;
    }
    return true;
  }
  /// Leaves the thread to what it does; ending the queue would wait for it.
  void give_up() noexcept { (void)queue_.release(); }

 private:
  std::unique_ptr<WorkQueue> queue_;
  ForkGuard process_;
};

/// Never destroyed: what was given up may go on while the process exits. The main thread's own.
Helper& helper() {
  static auto* const made = new Helper;
  return *made;
}

struct WaitingCall {
  UniqueFunction<void()> work;
  std::exception_ptr error;
  ReadyPromise ended;

  void run() noexcept {
    const GilRelease::Without without;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    work = {};  // what it owns is gone when the caller goes on
    ended.set();
  }
};

}  // namespace

bool wait_in_slices(const std::function<bool()>& slice, Waiting what) {
  if (!is_main_thread()) {
    while (!wait_once(slice)) continue;
    return true;
  }
  Speaker speaker(what);
  if (wait_once(slice)) return true;
  watch_interrupts();
  do {
    if (what == Waiting::kEnd && is_end_demanded()) return false;
    try {
      check_signals();
    } catch (const nb::python_error&) {
      speaker.note();
      throw;
    }
    speaker.speak();
  } while (!wait_once(slice));
  return true;
}

void call_apart(UniqueFunction<void()> work, Waiting what) {
  const auto call = std::make_shared<WaitingCall>();
  call->work = std::move(work);
  const ReadyEvent ended = call->ended.event();
  // A callback's work belongs to the thread that it runs on.
  const bool is_apart =
      is_main_thread() && !pjrt::is_in_callback() && helper().start([call] { call->run(); });
  if (!is_apart) {
    const GilRelease released;
    call->work();
    return;
  }
  try {
    const auto slice = [&] { return ended.wait_for(kWaitSlice).has_value(); };
    if (!wait_in_slices(slice, what)) return helper().give_up();
  } catch (const nb::python_error&) {
    helper().give_up();
    throw;
  }
  if (call->error) std::rethrow_exception(std::exchange(call->error, nullptr));
}

}  // namespace devrt::native
