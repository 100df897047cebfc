#include "client/ending.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>

#include "devrt/base/interrupts.h"

namespace devrt::native {

namespace {

using namespace std::chrono_literals;

constexpr int kInterrupted = 130;  // the status that shells have for it

std::atomic<int> compilations{0};
std::atomic<bool> abandoned{false};
std::atomic<bool> demanded{false};
std::atomic<bool> interrupted{false};
std::atomic<std::uint64_t> given_up{0};  // the last execution when a wait was interrupted
std::atomic<bool> exiting{false};
std::atomic<bool> reported_at_exit{false};

/// Returns a guard that was made with the first engine, or now.
const ForkGuard& process() noexcept {
  static const ForkGuard guard;
  return guard;
}

bool is_given_up_running() noexcept { return pjrt::Running::of_process().has_up_to(given_up); }

/// Ends the process as Ctrl-C does where nothing handles it.
void end_as_interrupted() noexcept {
  (void)std::fflush(stdout);
  (void)std::signal(SIGINT, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGINT);
  (void)pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  (void)std::raise(SIGINT);
  _exit(kInterrupted);
}

/// Ends the process with its status before the handlers of libraries run: this one is the last to
/// be registered, and so the first. Threads that go on crash where their library is taken apart.
void skip_handlers() noexcept {
  (void)on_exit(
      [](int status, void*) {
        (void)std::fflush(stdout);
        _exit(status);
      },
      nullptr);
}

}  // namespace

void finish_before_exit() {
  (void)process();
  [[maybe_unused]] static const int registered = std::atexit(&finish_engines);
}

void finish_engines() noexcept {
  if (process().is_child()) return;
  if (is_end_demanded() && !pjrt::Running::of_process().is_empty()) end_as_interrupted();
  if (!abandoned) pjrt::InFlight::of_process().finish();
  if (compilations > 0 || !pjrt::Running::of_process().is_empty()) skip_handlers();
}

void abandon_engines() noexcept { abandoned = true; }

void abandon_on_demand() noexcept { demanded = abandoned = true; }

void watch_interrupts() noexcept {
  if (!is_given_up_running()) devrt_interrupts_set(0);
  devrt_interrupts_watch();
}

void note_interrupt() noexcept {
  interrupted = true;
  if (!is_given_up_running()) given_up = pjrt::Running::of_process().newest();
  devrt_interrupts_watch();
  if (devrt_interrupts_seen() == 0) devrt_interrupts_set(1);  // it came before they were counted
}

bool is_end_demanded() noexcept {
  return demanded || (devrt_interrupts_seen() > 1 && is_given_up_running());
}

bool was_interrupted() noexcept { return interrupted; }
bool is_exiting() noexcept { return exiting; }

bool was_reported_at_exit() noexcept { return reported_at_exit; }

bool say_what_runs() noexcept {
  try {
    const std::string what = pjrt::Running::of_process().describe();
    if (what.empty()) return false;
    if (exiting && reported_at_exit.exchange(true)) return true;
    const std::string line =
        "devrt: waiting for " + what + " to end. Ctrl-C again does not wait for it.\n";
    return write(STDERR_FILENO, line.data(), line.size()) >= 0;
  } catch (const std::exception&) {
    return false;  // no memory for a message
  }
}

void watch_exit() {
  exiting = true;
  if (is_end_demanded()) return;
  if (process().is_child() || pjrt::Running::of_process().is_empty()) return;
  try {
    std::thread([] {
      std::this_thread::sleep_for(interrupted ? 100ms : std::chrono::milliseconds(kSilentExit));
      (void)say_what_runs();
    }).detach();
  } catch (const std::system_error&) {
    return;  // a thread more is not worth an error at exit
  }
}

Compiling::Compiling() noexcept { ++compilations; }
Compiling::~Compiling() { --compilations; }

}  // namespace devrt::native
