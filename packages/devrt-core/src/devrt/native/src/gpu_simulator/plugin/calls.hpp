// How the simulated plugin fails, and how it calls the simulated driver.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "devrt/base/status.hpp"
#include "devrt/pjrt/c_api/pjrt_c_api.h"
#include "gpu_simulator/entry.hpp"

struct PJRT_Error {
  devrt::Status status;
};

namespace devrt::gpu_simulator::plugin {

/// Returns the error of a call of the driver's that ended so.
Status status_of(Code code, const char* function);

/// Makes a device current on this thread while it lives.
class OnDevice {
 public:
  OnDevice(Machine& machine, int device) : machine_(machine), before_(machine.current()) {
    machine.use(device);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    try {
      machine_.set_current(before_);
    } catch (const Failure&) {  // it is gone with the client that the thread worked for
    }
  }

 private:
  Machine& machine_;
  const Handle before_;
};

/// Calls the driver as one of its functions does, whatever device is current. Throws its error.
template <class Body>
void call_driver(const char* function, const Body& body) {
  const Code code = enter(function, body);
  if (code != Code::kSuccess) throw StatusError(status_of(code, function));
}

/// Does the same for a device.
template <class Body>
void call_driver(const char* function, int device, const Body& body) {
  call_driver(function, [&](Machine& machine, const Call& call) {
    const OnDevice current(machine, device);
    body(machine, call);
  });
}

/// Does the same where an error has nobody to go to.
template <class Body>
void try_driver(const char* function, int device, const Body& body) noexcept {
  (void)enter(function, [&](Machine& machine, const Call& call) {
    const OnDevice current(machine, device);
    body(machine, call);
  });
}

/// Runs a function of the C API and returns the error that it throws.
template <class Body>
PJRT_Error* guard(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const StatusError& error) {
    return new PJRT_Error{error.status()};
  } catch (const std::bad_alloc&) {
    return new PJRT_Error{Status(StatusCode::kResourceExhausted, "the host is out of memory")};
  } catch (const std::exception& error) {
    return new PJRT_Error{Status(StatusCode::kInternal, error.what())};
  }
}

}  // namespace devrt::gpu_simulator::plugin
