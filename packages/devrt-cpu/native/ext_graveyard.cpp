#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "devrt/fork_guard.hpp"
#include "graveyard.hpp"
#include "python.hpp"

namespace devrt::cpu {

namespace {

thread_local int drain_depth = 0;
thread_local bool is_draining = false;

struct PendingCalls {
  std::mutex mutex;
  std::atomic<bool> closed{false};
  ForkGuard fork;
};
// Never destroyed: worker threads may still come by while the process exits.
PendingCalls& pending_calls() {
  static auto* calls = new PendingCalls;
  return *calls;
}

/// Asks the main thread to drain. Py_AddPendingCall needs neither the GIL nor a thread state, but
/// the interpreter must still be there: close_graveyard() ends this before it goes.
void request_drain() noexcept {
  PendingCalls& calls = pending_calls();
  // Not waited for: in a forked child nobody may be left to unlock it.
  std::unique_lock lock(calls.mutex, std::try_to_lock);
  if (!lock.owns_lock() || calls.closed) return;
  // A full queue is no loss: the next call into this module drains.
  (void)Py_AddPendingCall(
      [](void*) {
        drain_graveyard();
        return 0;
      },
      nullptr);
}

void send(Grave* node) noexcept {
  Grave* head = detail::graveyard_head.load(std::memory_order_relaxed);
  do {
    node->next = head;
  } while (!detail::graveyard_head.compare_exchange_weak(head, node, std::memory_order_release,
                                                         std::memory_order_relaxed));
  if (!head && drain_depth == 0) request_drain();
}

/// Holds a Python object until the graveyard is emptied.
struct ObjectGrave : Grave {
  explicit ObjectGrave(nb::object kept) noexcept
      : Grave(&ObjectGrave::release), object(std::move(kept)) {}
  static void release(Grave* node) { delete static_cast<ObjectGrave*>(node); }
  nb::object object;
};

}  // namespace

ExternalOwner grave_owner(Grave* node) noexcept {
  return {node, [](void* context) noexcept { send(static_cast<Grave*>(context)); }};
}

ExternalOwner keep_object(nb::object kept) { return grave_owner(new ObjectGrave(std::move(kept))); }

void drain_graveyard_slow() noexcept {
  if (is_draining) return;  // the outer one goes on until nothing is left: no recursion
  is_draining = true;
  nb::error_scope keep_pending_error;
  while (Grave* node = detail::graveyard_head.exchange(nullptr, std::memory_order_acquire)) {
    while (node) {
      Grave* next = node->next;
      node->bury(node);
      node = next;
    }
  }
  is_draining = false;
}

DrainScope::DrainScope() noexcept { ++drain_depth; }
DrainScope::~DrainScope() {
  --drain_depth;
  drain_graveyard();
}

namespace {

/// The thread that ends the interpreter; no thread before that.
std::thread::id finalizer;
std::terminate_handler former_terminate = nullptr;

/// Returns whether the interpreter is going; needs no GIL. The stable ABI has no name for it.
bool is_finalizing() noexcept {
  using Query = int (*)();
  static const auto query = [] {
    void* found = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    return reinterpret_cast<Query>(found ? found : dlsym(RTLD_DEFAULT, "_Py_IsFinalizing"));
  }();
  return query && query() != 0 && std::this_thread::get_id() != finalizer;
}

[[noreturn]] void park() noexcept {
  for (;;) pause();
}

/// Called where pthread_exit, by which the interpreter ends daemon threads, meets a noexcept frame.
[[noreturn]] void park_or_terminate() {
  if (is_finalizing()) park();
  if (former_terminate) former_terminate();
  std::abort();
}

/// Returns whether another thread has a Python frame.
bool have_other_threads() {
  for (nb::handle id : nb::module_::import_("sys").attr("_current_frames")()) {
    if (PyLong_AsUnsignedLong(id.ptr()) != PyThread_get_thread_ident()) return true;
  }
  return false;
}

}  // namespace

GilRelease::GilRelease() noexcept : state_(PyEval_SaveThread()) { active_ = true; }

GilRelease::~GilRelease() {
  if (is_finalizing()) [[unlikely]]
    park();
  PyEval_RestoreThread(state_);
  active_ = false;
}

void park_if_ended() noexcept {
  if (is_finalizing()) park();
}

void expect_finalization() {
  finalizer = std::this_thread::get_id();
  (void)is_finalizing();  // looks the name up
  if (!former_terminate) former_terminate = std::set_terminate(&park_or_terminate);
  // What a daemon thread has is never freed: that is no leak to report.
  if (have_other_threads()) nb::set_leak_warnings(false);
}

void close_graveyard() noexcept {
  {
    PendingCalls& calls = pending_calls();
    std::unique_lock lock(calls.mutex, std::defer_lock);
    if (!calls.fork.is_child()) lock.lock();  // in a child nobody may be left to unlock it
    calls.closed = true;
  }
  drain_graveyard();
}

}  // namespace devrt::cpu
