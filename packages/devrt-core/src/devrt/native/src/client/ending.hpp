// How a process ends while programs run or compile.
#pragma once

#include <chrono>

#include "devrt/pjrt/engine/running.hpp"
#include "execution/executable.hpp"

namespace devrt::native {

/// For how long the exit waits and says nothing, unless a wait was interrupted before.
inline constexpr std::chrono::seconds kSilentExit{5};

/// Waits for all that the engines of this process run; at once in a forked child.
///
/// To be called before any handler of the process's exit runs: a plugin registers handlers of its
/// own, as for what it makes at the first call of a kind, as late as while a program runs. A
/// compilation is not waited for: the process then ends without those handlers, which would take
/// away what the compiler uses.
void finish_engines() noexcept;
/// Has `finish_engines` called when the process exits: libraries are taken apart next.
void finish_before_exit();

/// Lets `finish_engines` wait for nothing: something will never end.
void abandon_engines() noexcept;
/// The same on a user's demand, which ends the process as an interrupt does.
void abandon_on_demand() noexcept;

/// Counts interrupts from now on; to be called where the main thread waits for more than a moment.
void watch_interrupts() noexcept;
/// Notes that a signal ended a wait; from then on whatever waits for programs to end says so.
void note_interrupt() noexcept;
/// Returns whether nobody wants to wait for programs to end: that was demanded, or an interrupt
/// came after the one that ended a wait, and what ran then still runs.
bool is_end_demanded() noexcept;
bool was_interrupted() noexcept;

/// Says once if the exit, which begins, waits for programs: after `kSilentExit`, or at once after
/// an interrupt. The waits are in many places, destructors among them.
void watch_exit();
bool is_exiting() noexcept;

/// Says on standard error which programs are waited for, at exit once. Returns whether that was
/// reported, now or earlier in the exit.
bool say_what_runs() noexcept;
/// Returns whether that was reported at exit.
bool was_reported_at_exit() noexcept;

/// Marks, while it lives, that the compiler works.
class Compiling {
 public:
  Compiling() noexcept;
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;
  ~Compiling();
};

}  // namespace devrt::native
