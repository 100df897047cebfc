// Which devices an engine knows: this process's, or those of a job.
#pragma once

#include <string>

#include "binding/python.hpp"

namespace devrt::native {

/// Returns the numbers that a library has for the devices of this process, and opens it for that.
nb::object engine_devices(Client& client, const std::string& library);
/// Makes the engine, where it is not made, as one of the job whose keys these are: waits for those
/// of the other processes. Returns the library's numbers of this process's devices, and a list of
/// the process and the number of every device.
nb::object join_engine(Client& client, const std::string& library, nb::object keys);

}  // namespace devrt::native
