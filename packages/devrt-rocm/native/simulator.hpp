// What the functions of the simulated driver share.
#pragma once

#include <cstring>
#include <string>

#include "gpu_simulator/exports.hpp"

namespace devrt_rocm {

using namespace devrt::gpu_simulator;

using Result = int;

/// Returns the driver's number of a code.
Result number(Code code);

/// Fills a device's UUID: HIP's 16 bytes are the digits that the tools show.
inline void fill_uuid(unsigned char* uuid, int device) {
  const std::string digits = std::to_string(4242'0000'0000'0000 + device);
  std::memcpy(uuid, digits.data(), 16);
}

/// Which device the calling thread has chosen.
int& chosen_device() noexcept;

/// The error of the thread's last call that had one; kept until it is read.
Result& last_error() noexcept;

/// Runs a call of a function that needs no device of the thread's.
template <class Body>
Result call_any(const char* function, const Body& body) {
  const Result result = number(enter(function, body));
  if (result != 0) last_error() = result;
  return result;
}

/// Runs a call on the thread's device, whose context the driver makes at its first use.
template <class Body>
Result call(const char* function, const Body& body) {
  return call_any(function, [&](Machine& machine, const Call& made) {
    machine.use(chosen_device());
    body(machine, made);
  });
}

inline Address address(const void* data) { return reinterpret_cast<Address>(data); }

}  // namespace devrt_rocm
