// Python objects that native code is done with, waiting for a thread that holds the GIL.
#pragma once

#include <atomic>

#include "devrt/base/external_owner.hpp"

namespace devrt::cpu {

/// A thing to let go under the GIL. Made by whoever holds it; `bury` frees the node as well.
struct Grave {
  explicit Grave(void (*release)(Grave*)) noexcept : bury(release) {}
  Grave* next = nullptr;
  void (*bury)(Grave*);
};

namespace detail {
inline std::atomic<Grave*> graveyard_head{nullptr};
}

/// Returns an owner that sends the node to the graveyard: any thread, no GIL, no waiting.
ExternalOwner grave_owner(Grave* node) noexcept;

/// Lets go of everything in the graveyard; needs the GIL, may run Python code.
void drain_graveyard_slow() noexcept;
inline void drain_graveyard() noexcept {
  if (detail::graveyard_head.load(std::memory_order_acquire)) [[unlikely]]
    drain_graveyard_slow();
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
void close_graveyard() noexcept;

}  // namespace devrt::cpu
