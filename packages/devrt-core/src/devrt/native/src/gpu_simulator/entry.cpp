#include "gpu_simulator/entry.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "devrt/base/fork_guard.hpp"
#include "gpu_simulator/control.h"

namespace devrt::gpu_simulator {
namespace {

/// All that the library knows. Never destroyed: threads may outlive the process's last handlers.
struct Simulator {
  std::mutex lock;
  Settings settings;
  std::shared_ptr<Machine> machine;
  bool is_initialized = false;
  std::uint64_t calls = 0;
  std::map<std::string, std::uint64_t, std::less<>> counts;
  std::atomic<bool> has_exited = false;
  const ForkGuard fork;
};

Simulator& simulator() {
  static Simulator* const only = [] {
    auto* made = new Simulator;
    std::atexit([] {
      Simulator& at_exit = simulator();
      at_exit.has_exited = true;
      if (at_exit.fork.is_child()) return;
      const std::lock_guard lock(at_exit.lock);
      if (at_exit.machine) at_exit.machine->stop();
    });
    return made;
  }();
  return *only;
}

thread_local std::uint64_t calls_here = 0;

/// Counts a call, and returns how the settings want it to fail.
Code begin(const char* function, Call& call) {
  Simulator& all = simulator();
  if (all.has_exited) return Code::kDeinitialized;
  if (all.fork.is_child()) return Code::kNotInitialized;
  const std::lock_guard lock(all.lock);
  call = {function, ++all.calls};
  ++calls_here;
  const std::uint64_t count = ++all.counts[function];
  const auto [first, last] = all.settings.failures.equal_range(function);
  for (auto each = first; each != last; ++each) {
    if (each->second.call == count) return each->second.code;
  }
  return Code::kSuccess;
}

template <class Body>
Code code_of(const Body& body) {
  try {
    body();
    return Code::kSuccess;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return Code::kOutOfMemory;
  } catch (const std::exception&) {
    return Code::kUnknown;  // as the system refuses a thread
  }
}

const Model* find_model(std::string_view key) {
  for (const Model& model : models()) {
    if (key.empty() || model.key == key) return &model;
  }
  return nullptr;
}

std::string keys() {
  std::string text;
  for (const Model& model : models()) text += (text.empty() ? "" : ", ") + std::string(model.key);
  return text;
}

std::shared_ptr<Machine> machine() {
  Simulator& all = simulator();
  const std::lock_guard lock(all.lock);
  return all.is_initialized ? all.machine : nullptr;
}

// The last machine's windows, for the handler below, which may take no lock.
std::atomic<const Machine*> explained{nullptr};

void explain(int signal, siginfo_t* info, void*) {
  const Machine* const machine = explained.load();
  const auto address = reinterpret_cast<Address>(info->si_addr);
  if (machine && machine->is_device_address(address)) {
    static constexpr char kText[] =
        "devrt simulator: host access: the host reads or writes at an "
        "address of a device\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  }
  ::signal(signal, SIG_DFL);  // the access is done again, and ends the process
}

/// Has faults explained that a machine's addresses cause; null: has the handler before back.
void explain_faults(const Machine* machine) {
  static struct sigaction before{};
  struct sigaction action{};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO;
  if (machine && !explained) sigaction(SIGSEGV, &action, &before);
  if (!machine && explained) sigaction(SIGSEGV, &before, nullptr);
  explained = machine;
}

std::string configure(std::string_view text) {
  Settings settings = parse_settings(text);
  const Model* const model = find_model(settings.model);
  if (!model) return "The simulator has no model named " + settings.model + ". Use " + keys() + ".";
  Simulator& all = simulator();
  const std::lock_guard lock(all.lock);
  auto made = std::make_shared<Machine>(settings, *model);
  if (all.machine) all.machine->stop();
  explain_faults(settings.explain_faults ? made.get() : nullptr);
  all.settings = std::move(settings);
  all.machine = std::move(made);
  all.is_initialized = false;
  all.counts.clear();
  return {};
}

}  // namespace

Code enter(const char* function, const std::function<void(Machine&, const Call&)>& body) {
  Call call{};
  if (const Code failed = begin(function, call); failed != Code::kSuccess) return failed;
  const std::shared_ptr<Machine> now = machine();
  if (!now) return Code::kNotInitialized;
  if (Machine::in_host_function()) return now->refuse_in_host_function(call);
  return code_of([&] { body(*now, call); });
}

Code initialize(const char* function) {
  Call call{};
  if (const Code failed = begin(function, call); failed != Code::kSuccess) return failed;
  Simulator& all = simulator();
  return code_of([&] {
    const std::lock_guard lock(all.lock);
    if (all.settings.devices == 0) throw Failure{Code::kNoDevice};
    if (!all.machine) all.machine = std::make_shared<Machine>(all.settings, models().front());
    all.is_initialized = true;
  });
}

Code enter_early(const char* function, const std::function<void(const Settings&)>& body) {
  Call call{};
  if (const Code failed = begin(function, call); failed != Code::kSuccess) return failed;
  Simulator& all = simulator();
  const std::lock_guard lock(all.lock);
  return code_of([&] { body(all.settings); });
}

}  // namespace devrt::gpu_simulator

using namespace devrt::gpu_simulator;

namespace {

const char* keep(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

std::shared_ptr<Machine> any_machine() {
  const std::lock_guard lock(simulator().lock);
  return simulator().machine;
}

}  // namespace

const char* devrt_simulator_configure(const char* settings) {
  try {
    std::string wrong = configure(settings);
    return wrong.empty() ? nullptr : keep(std::move(wrong));
  } catch (const std::exception& error) {
    return keep(error.what());
  }
}

const char* devrt_simulator_reports(int clear) {
  const auto now = any_machine();
  return keep(now ? now->reports(clear != 0) : std::string());
}

unsigned long long devrt_simulator_count(const char* function) {
  const std::lock_guard lock(simulator().lock);
  const auto& counts = simulator().counts;
  if (*function) return counts.contains(function) ? counts.find(function)->second : 0;
  unsigned long long all = 0;
  for (const auto& [name, count] : counts) all += count;
  return all;
}

unsigned long long devrt_simulator_calls_here() { return calls_here; }

const char* devrt_simulator_living() {
  const auto now = any_machine();
  return keep(now ? now->living() : std::string());
}

void devrt_simulator_lose(int device) {
  if (const auto now = any_machine()) now->lose(device);
}
