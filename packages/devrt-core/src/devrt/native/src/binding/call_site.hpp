// Where the Python program made a buffer: noted cheaply, formatted only on request.
#pragma once

#include "binding/python.hpp"
#include "devrt/memory/allocation_site.hpp"

namespace devrt::native {

/// Returns the call site: the innermost Python calls, a dozen at most. Empty if there is none.
/// Needs the GIL.
Ref<AllocationSite> note_calls();

/// Returns a `devrt.contract.Traceback` of the calls, or None. Needs the GIL.
nb::object to_traceback(const AllocationSite* call_site);

/// Returns "FILE:LINE (FUNCTION)" for the program's innermost call; empty if it is not known.
std::string describe_call_site(const AllocationSite* call_site);

}  // namespace devrt::native
