// XLA's plugin for GPUs as the engine over the client's memory.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gpu/device.hpp"

namespace devrt::gpu {

/// Has a stream wait for an event of a device's or an engine's. Returns false where it cannot. The
/// device of the stream must be current.
bool order_stream(const Driver& driver, StreamHandle* stream, const ReadyEvent& event) noexcept;

/// Copies between memory that a custom call was given and the host's, on the program's stream, and
/// waits: a function of the host comes next.
Status copy_on_stream(const XLA_FFI_CallFrame& frame, void* to, const void* from, std::size_t bytes,
                      bool is_to_host);

/// Returns the options that a plugin's client is made with: the client's devices, and its kind of
/// allocator. `pool_allocator` is what the plugin calls the one that shares the devices' pools;
/// empty where it has none, and takes an arena of its own.
std::vector<pjrt::Option> engine_options(std::span<const native::DeviceFacts> devices,
                                         const native::ClientOptions& given,
                                         std::string_view pool_allocator);

/// Returns how the client uses a plugin for `platform`. `options` calls `engine_options`.
native::EnginePolicy engine_policy(const char* platform, const char* ffi_platform,
                                   std::string_view remedy,
                                   decltype(native::EnginePolicy::options) options);

}  // namespace devrt::gpu
