#include <mutex>

#include "graveyard.hpp"
#include "python.hpp"

namespace devrt::cpu {

namespace {

thread_local int drain_depth = 0;

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
  std::lock_guard lock(calls.mutex);
  if (calls.closed) return;
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
  nb::error_scope keep_pending_error;
  Grave* node = detail::graveyard_head.exchange(nullptr, std::memory_order_acquire);
  while (node) {
    Grave* next = node->next;
    node->bury(node);
    node = next;
  }
}

DrainScope::DrainScope() noexcept { ++drain_depth; }
DrainScope::~DrainScope() {
  --drain_depth;
  drain_graveyard();
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
