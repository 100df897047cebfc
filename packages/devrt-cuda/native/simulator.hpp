// What the functions of the simulated driver share.
#pragma once

#include <cstring>

#include "gpu_simulator/exports.hpp"

namespace devrt_cuda {

using namespace devrt::gpu_simulator;

using Result = int;

/// Returns the driver's number of a code.
Result number(Code code);

/// Fills a device's UUID, of 16 bytes.
inline void fill_uuid(unsigned char* uuid, int device) {
  std::memcpy(uuid, "devrt-simulated", 15);
  uuid[15] = static_cast<unsigned char>(device);
}

template <class Body>
Result call(const char* function, const Body& body) {
  return number(enter(function, body));
}

/// The same of a function that needs no device of the thread's: all know by themselves.
template <class Body>
Result call_any(const char* function, const Body& body) {
  return call(function, body);
}

}  // namespace devrt_cuda
