// Custom calls: what else a handler may read of its call frame, for work on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "devrt/pjrt/engine/api.hpp"
#include "devrt/pjrt/engine/ffi.hpp"

namespace devrt::pjrt::ffi {

/// Texts and arrays that a program gives a call by name.
class CallAttributes {
 public:
  explicit CallAttributes(const XLA_FFI_CallFrame& frame) noexcept : attributes_(frame.attrs) {}

  /// Returns a text; empty if the program gives none.
  std::string_view text(std::string_view name) const noexcept {
    const auto* text = find<XLA_FFI_ByteSpan>(name, XLA_FFI_AttrType_STRING);
    return text ? std::string_view(text->ptr, text->len) : std::string_view();
  }
  /// Returns an array of 64-bit integers; empty if the program gives none.
  std::span<const std::int64_t> integers(std::string_view name) const noexcept {
    return elements<std::int64_t>(name, XLA_FFI_DataType_S64);
  }
  /// Returns an array of 8-bit integers; empty if the program gives none.
  std::span<const std::int8_t> bytes(std::string_view name) const noexcept {
    return elements<std::int8_t>(name, XLA_FFI_DataType_S8);
  }

 private:
  template <class Value>
  const Value* find(std::string_view name, XLA_FFI_AttrType type) const noexcept {
    for (std::int64_t i = 0; i < attributes_.size; ++i) {
      const XLA_FFI_ByteSpan& key = *attributes_.names[i];
      if (std::string_view(key.ptr, key.len) != name) continue;
      return attributes_.types[i] == type ? static_cast<const Value*>(attributes_.attrs[i])
                                          : nullptr;
    }
    return nullptr;
  }

  template <class Element>
  std::span<const Element> elements(std::string_view name, XLA_FFI_DataType type) const noexcept {
    const auto* array = find<XLA_FFI_Array>(name, XLA_FFI_AttrType_ARRAY);
    if (!array || array->dtype != type) return {};
    return {static_cast<const Element*>(array->data), array->size};
  }

  const XLA_FFI_Attrs& attributes_;
};

/// Returns the stream that the program's work is on, as the driver's handle; null on a CPU.
inline void* stream_of(const XLA_FFI_CallFrame& frame) noexcept {
  if (!frame.api->XLA_FFI_Stream_Get) return nullptr;
  auto args = make_args<XLA_FFI_Stream_Get_Args>();
  args.ctx = frame.ctx;
  XLA_FFI_Error* none = frame.api->XLA_FFI_Stream_Get(&args);
  if (!none) return args.stream;
  auto dropped = make_args<XLA_FFI_Error_Destroy_Args>();
  dropped.error = none;
  frame.api->XLA_FFI_Error_Destroy(&dropped);
  return nullptr;
}

}  // namespace devrt::pjrt::ffi
