// What the functions of the simulated driver share.
#pragma once

#include "gpu_simulator/entry.hpp"

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

inline void need(bool holds) {
  if (!holds) throw Failure{Code::kInvalidValue};
}

}  // namespace devrt_cuda
