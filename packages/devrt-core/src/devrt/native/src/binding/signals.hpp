// Waits that handlers of signals can end. Every wait of the Python module is one of these.
#pragma once

#include <chrono>
#include <functional>

#include "devrt/base/unique_function.hpp"

namespace devrt::native {

/// How long a wait lasts at most until signals are looked for.
inline constexpr std::chrono::milliseconds kWaitSlice{100};

/// What a wait is for.
enum class Waiting {
  kData,  ///< what the caller will use
  kEnd,   ///< the end of other work; programs that it waits for are named after an interrupt
};

/// Waits without the GIL until `slice`, which waits for `kWaitSlice` at most, returns true. Throws
/// what a handler of a signal raises; those run on the main thread only.
///
/// Returns false, for `Waiting::kEnd` only, if nobody wants to wait any more.
bool wait_in_slices(const std::function<bool()>& slice, Waiting what = Waiting::kData);

/// Calls `work` without the GIL and waits until it returns. Throws what it throws.
///
/// On the main thread another one calls it, so that handlers of signals run meanwhile. What they
/// raise is thrown at once; the work then goes on, as it does where nobody wants to wait for its
/// end, so it must own all that it uses.
void call_apart(UniqueFunction<void()> work, Waiting what = Waiting::kData);

}  // namespace devrt::native
