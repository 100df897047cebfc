#include <atomic>
#include <mutex>
#include <utility>

#include "binding/python.hpp"
#include "client/release_queue.hpp"
#include "devrt/base/fork_guard.hpp"

namespace devrt::native {

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
/// the interpreter must still be there: close_release_queue() ends this before it goes.
void request_drain() noexcept {
  PendingCalls& calls = pending_calls();
  // Not waited for: in a forked child nobody may be left to unlock it.
  std::unique_lock lock(calls.mutex, std::try_to_lock);
  if (!lock.owns_lock() || calls.closed) return;
  // A full queue is no loss: the next call into this module drains.
  (void)Py_AddPendingCall(
      [](void*) {
        drain_release_queue();
        return 0;
      },
      nullptr);
}

void send(DeferredRelease* node) noexcept {
  DeferredRelease* head = detail::release_queue_head.load(std::memory_order_relaxed);
  do {
    node->next = head;
  } while (!detail::release_queue_head.compare_exchange_weak(head, node, std::memory_order_release,
                                                             std::memory_order_relaxed));
  if (!head && drain_depth == 0) request_drain();
}

/// Holds a Python object until the release queue is drained.
struct ObjectRelease : DeferredRelease {
  explicit ObjectRelease(nb::object kept) noexcept
      : DeferredRelease(&ObjectRelease::release), object(std::move(kept)) {}
  static void release(DeferredRelease* node) { delete static_cast<ObjectRelease*>(node); }
  nb::object object;
};

}  // namespace

ExternalOwner release_later(DeferredRelease* node) noexcept {
  return {node, [](void* context) noexcept { send(static_cast<DeferredRelease*>(context)); }};
}

ExternalOwner keep_object(nb::object kept) {
  return release_later(new ObjectRelease(std::move(kept)));
}

void drain_release_queue_slow() noexcept {
  if (is_draining) return;  // the outer one goes on until nothing is left: no recursion
  is_draining = true;
  nb::error_scope keep_pending_error;
  while (DeferredRelease* node =
             detail::release_queue_head.exchange(nullptr, std::memory_order_acquire)) {
    while (node) {
      DeferredRelease* next = node->next;
      node->destroy(node);
      node = next;
    }
  }
  is_draining = false;
}

DrainScope::DrainScope() noexcept { ++drain_depth; }
DrainScope::~DrainScope() {
  --drain_depth;
  drain_release_queue();
}

namespace {

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
  PyEval_RestoreThread(state_);
  active_ = false;
}

void expect_finalization() {
  // What a daemon thread has is never freed: that is no leak to report.
  if (have_other_threads()) nb::set_leak_warnings(false);
}

void close_release_queue() noexcept {
  {
    PendingCalls& calls = pending_calls();
    std::unique_lock lock(calls.mutex, std::defer_lock);
    if (!calls.fork.is_child()) lock.lock();  // in a child nobody may be left to unlock it
    calls.closed = true;
  }
  drain_release_queue();
}

}  // namespace devrt::native
