// Linear algebra that XLA leaves to custom calls of LAPACK.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/client.hpp"

namespace devrt::cpu {

/// Returns the names of the LAPACK and BLAS routines that the handlers call.
std::vector<std::string> lapack_routines();
/// Returns the names of the custom calls that the handlers answer.
std::vector<std::string> lapack_custom_calls();

/// Lets the programs of a plugin call LAPACK. `addresses` has every routine, with 32-bit integers;
/// those of the first call stay. Once for each library it registers the handlers. Throws
/// INVALID_ARGUMENT if a routine is missing, or what `pjrt::ffi::register_handler` throws.
void provide_lapack(const std::string& library, const std::map<std::string, void*>& addresses);

}  // namespace devrt::cpu
