// Where the Python program made a buffer: noted cheaply, put into words only when asked.
#pragma once

#include "binding/python.hpp"
#include "devrt/memory/allocation_site.hpp"

namespace devrt::cpu {

/// Returns the place: the innermost Python calls, a dozen at most. Empty if there is none. Needs
/// the GIL.
Ref<AllocationSite> note_calls();

/// Returns a `devrt.contract.Traceback` of the calls, or None. Needs the GIL.
nb::object to_traceback(const AllocationSite* site);

/// Returns "FILE:LINE (FUNCTION)" for the program's innermost call; empty if it is not known.
std::string describe_site(const AllocationSite* site);

}  // namespace devrt::cpu
