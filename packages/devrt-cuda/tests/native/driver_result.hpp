// What a driver's function returns.
#pragma once

#include "harness.hpp"

/// Fails the test unless the call that returned this succeeded.
inline void ok(int result) { CHECK(result == 0); }
