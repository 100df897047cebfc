#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "graveyard.hpp"
#include "python.hpp"

namespace devrt::cpu {

namespace {

thread_local int drain_depth = 0;
thread_local bool is_draining = false;

struct PendingCalls {
  std::mutex mutex;
  bool closed = false;
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

}  // namespace

ExternalOwner grave_owner(Grave* node) noexcept {
  return {node, [](void* context) noexcept { send(static_cast<Grave*>(context)); }};
}

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

/// Threads that are without the GIL inside this module and will want it back.
std::atomic<int> released_threads{0};
std::atomic<bool> is_exiting{false};

[[noreturn]] void park() noexcept {
  for (;;) pause();
}

}  // namespace

GilRelease::GilRelease() noexcept : state_(PyEval_SaveThread()) {
  released_threads.fetch_add(1, std::memory_order_acq_rel);
}

GilRelease::~GilRelease() {
  if (is_exiting.load(std::memory_order_acquire) && exempt_ != std::this_thread::get_id()) {
    released_threads.fetch_sub(1, std::memory_order_acq_rel);
    park();
  }
  PyEval_RestoreThread(state_);
  released_threads.fetch_sub(1, std::memory_order_acq_rel);
}

void stop_daemon_threads() noexcept {
  GilRelease::exempt_ = std::this_thread::get_id();
  is_exiting.store(true, std::memory_order_release);
  PyThreadState* state = PyEval_SaveThread();
  while (released_threads.load(std::memory_order_acquire) > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PyEval_RestoreThread(state);
}

void close_graveyard() noexcept {
  {
    PendingCalls& calls = pending_calls();
    std::lock_guard lock(calls.mutex);
    calls.closed = true;
  }
  drain_graveyard();
}

}  // namespace devrt::cpu
