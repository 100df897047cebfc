// Kernels of one's own that programs of simulated devices call, while the processor runs these.
#pragma once

#include <string>
#include <string_view>

#include "gpu_simulator/plugin/objects.hpp"

namespace devrt::gpu_simulator::plugin {

/// Returns what programs call kernels by once they are compiled. The processor has one table of
/// handlers for the process, in which each vendor's simulator needs a name of its own.
const std::string& kernel_target();
/// Returns a program that calls them so. The name is as long as the client's: bytecode stays whole.
std::string with_kernel_target(std::string_view code);

/// Keeps the client's handler of calls of kernels; returns what calls it with a device current, a
/// stream, and arrays that launches on it find.
XLA_FFI_Handler wrap_kernel_calls(void* handler) noexcept;
/// Has the calls of an execution learn whose devices it runs for.
void tell_kernel_calls(PJRT_ExecuteContext& context, PJRT_Client& client);

/// Registers a type with the compiler, which user data of executions have. Throws what it reports.
std::int64_t register_own_type(const char* name);

}  // namespace devrt::gpu_simulator::plugin
