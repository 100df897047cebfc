// Kernels of one's own that programs call, on the stream of the program.
#pragma once

#include <memory>
#include <string>

#include "client/kernels.hpp"

namespace devrt::native {

/// Lets programs call a function by a key, on the function's device, until its client is closed.
/// What has one key must be compiled from the same: of several, any is called.
void provide_kernel(const Device& device, const std::string& key,
                    std::shared_ptr<KernelFunction> function);

/// Releases what a client provided.
void forget_kernels(const Client& client) noexcept;

/// Lets the programs of a plugin find the handler of calls of kernels. Throws UNIMPLEMENTED where
/// it takes no handlers.
void provide_kernel_calls(const std::string& library);

}  // namespace devrt::native
