// What the functions of the simulated driver share.
#pragma once

#include "gpu_simulator/exports.hpp"

namespace devrt_cuda {

using namespace devrt::gpu_simulator;

using Result = int;
using Pointer = unsigned long long;

/// Returns the driver's number of a code.
Result number(Code code);

template <class Body>
Result call(const char* function, const Body& body) {
  return number(enter(function, body));
}

}  // namespace devrt_cuda
