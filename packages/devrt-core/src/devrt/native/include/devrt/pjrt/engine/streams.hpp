// The streams of a plugin for GPUs: what waits for what, without the host.
#pragma once

#include <cstdint>
#include <optional>

#include "devrt/pjrt/engine/client.hpp"

namespace devrt::pjrt {

/// Returns the plugin's Stream extension, or null.
inline const PJRT_Stream_Extension* streams_of(const Api& api) noexcept {
  constexpr auto kStream = static_cast<PJRT_Extension_Type>(3);
  return reinterpret_cast<const PJRT_Stream_Extension*>(api.extension(kStream));
}

/// Returns the plugin's stream on which views of a device's memory become ready; nothing for a
/// plugin without streams. Throws the plugin's error.
inline std::optional<std::intptr_t> stream_of(const Api& api, PJRT_Device* device) {
  const PJRT_Stream_Extension* streams = streams_of(api);
  if (!streams || !streams->get_stream) return std::nullopt;
  auto args = make_args<PJRT_Get_Stream_For_External_Ready_Events_Args>();
  args.device = device;
  raise_if_error(api.take(streams->get_stream(&args)));
  return args.stream;
}

/// Has a stream wait for what fills a buffer of the plugin's. Returns whether it does.
inline bool wait_on_stream(const Buffer& buffer, std::intptr_t stream) noexcept {
  const Api& api = buffer.client().api();
  const PJRT_Stream_Extension* streams = streams_of(api);
  if (!streams || !streams->wait_stream) return false;
  auto args = make_args<PJRT_Wait_Until_Buffer_Ready_On_Stream_Args>();
  args.stream = stream;
  args.buffer = buffer.get();
  return api.take(streams->wait_stream(&args)).ok();
}

}  // namespace devrt::pjrt
