// Python objects that native code is done with, waiting for a thread that holds the GIL.
#pragma once

#include <atomic>

#include "devrt/base/external_owner.hpp"

namespace devrt::native {

/// A thing to release under the GIL. Made by its holder; `destroy` frees the node as well.
struct DeferredRelease {
  explicit DeferredRelease(void (*release)(DeferredRelease*)) noexcept : destroy(release) {}
  DeferredRelease* next = nullptr;
  void (*destroy)(DeferredRelease*);
};

namespace detail {
inline std::atomic<DeferredRelease*> release_queue_head{nullptr};
}

/// Returns an owner that puts the node into the release queue: any thread, no GIL, no waiting.
ExternalOwner release_later(DeferredRelease* node) noexcept;

/// Releases everything in the queue; needs the GIL, may run Python code.
void drain_release_queue_slow() noexcept;
inline void drain_release_queue() noexcept {
  if (detail::release_queue_head.load(std::memory_order_acquire)) [[unlikely]]
    drain_release_queue_slow();
}

/// While one lives, this thread drains by itself and need not ask the interpreter to.
class DrainScope {
 public:
  DrainScope() noexcept;
  DrainScope(const DrainScope&) = delete;
  DrainScope& operator=(const DrainScope&) = delete;
  ~DrainScope();
};

/// Asks for no more pending calls from now on, and drains; at the interpreter's exit.
void close_release_queue() noexcept;

}  // namespace devrt::native
