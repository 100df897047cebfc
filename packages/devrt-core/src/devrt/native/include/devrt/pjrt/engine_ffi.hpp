// Custom calls: what a handler reads of its call frame, and how a plugin comes to know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "devrt/element_type.hpp"
#include "devrt/pjrt/engine_api.hpp"
#include "devrt/pjrt/hlo_module.hpp"
#include "devrt/status.hpp"

namespace devrt::pjrt::ffi {

/// An argument or a result, without ownership: dense, in the order that the program's layout says.
struct Array {
  ElementType type = ElementType::kInvalid;
  void* data = nullptr;
  std::span<const std::int64_t> dims;

  std::int64_t size() const noexcept {
    std::int64_t product = 1;
    for (const std::int64_t dim : dims) product *= dim;
    return product;
  }
};

[[noreturn]] inline void reject(std::string why) {
  throw StatusError(Status(StatusCode::kInvalidArgument, std::move(why)));
}

/// What one call of a handler is given. Throws INVALID_ARGUMENT for what is not there.
class CallFrame {
 public:
  explicit CallFrame(const XLA_FFI_CallFrame& frame) noexcept : frame_(frame) {}

  std::size_t num_arguments() const noexcept { return static_cast<std::size_t>(frame_.args.size); }
  std::size_t num_results() const noexcept { return static_cast<std::size_t>(frame_.rets.size); }

  Array argument(std::size_t i) const {
    if (i >= num_arguments() || frame_.args.types[i] != XLA_FFI_ArgType_BUFFER) {
      reject("it has no buffer as argument " + std::to_string(i) + ".");
    }
    return read(frame_.args.args[i]);
  }

  Array result(std::size_t i) const {
    if (i >= num_results() || frame_.rets.types[i] != XLA_FFI_RetType_BUFFER) {
      reject("it has no buffer as result " + std::to_string(i) + ".");
    }
    return read(frame_.rets.rets[i]);
  }

  /// Returns a number that the program gives by name, whatever integer type it has.
  std::optional<std::int64_t> integer(std::string_view name) const {
    const XLA_FFI_Attrs& attributes = frame_.attrs;
    for (std::int64_t i = 0; i < attributes.size; ++i) {
      const XLA_FFI_ByteSpan& key = *attributes.names[i];
      if (std::string_view(key.ptr, key.len) != name) continue;
      if (attributes.types[i] != XLA_FFI_AttrType_SCALAR) break;
      return to_integer(*static_cast<const XLA_FFI_Scalar*>(attributes.attrs[i]));
    }
    return std::nullopt;
  }

 private:
  static Array read(const void* slot) noexcept {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(slot);
    return {pjrt::detail::element_type_of(buffer.dtype),
            buffer.data,
            {buffer.dims, static_cast<std::size_t>(buffer.rank)}};
  }

  static std::optional<std::int64_t> to_integer(const XLA_FFI_Scalar& scalar) noexcept {
    switch (scalar.dtype) {
      case XLA_FFI_DataType_PRED:
      case XLA_FFI_DataType_U8:
        return *static_cast<const std::uint8_t*>(scalar.value);
      case XLA_FFI_DataType_S8:
        return *static_cast<const std::int8_t*>(scalar.value);
      case XLA_FFI_DataType_S32:
        return *static_cast<const std::int32_t*>(scalar.value);
      case XLA_FFI_DataType_S64:
        return *static_cast<const std::int64_t*>(scalar.value);
      default:
        return std::nullopt;
    }
  }

  const XLA_FFI_CallFrame& frame_;
};

namespace detail {

/// Says which version of the interface a handler is for: the plugin's own, since nothing is used
/// that differs between versions. Returns whether that was what the plugin asked.
inline bool answer_metadata(const XLA_FFI_CallFrame& frame) noexcept {
  for (const XLA_FFI_Extension_Base* next = frame.extension_start; next; next = next->next) {
    if (next->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata& metadata =
        *reinterpret_cast<const XLA_FFI_Metadata_Extension*>(next)->metadata;
    metadata.api_version.major_version =
        frame.api ? frame.api->api_version.major_version : XLA_FFI_VERSION_MAJOR;
    metadata.api_version.minor_version = frame.api ? frame.api->api_version.minor_version : 1;
    return true;
  }
  return false;
}

inline XLA_FFI_Error* make_error(const XLA_FFI_Api& api, StatusCode code,
                                 const char* message) noexcept {
  auto args = make_args<XLA_FFI_Error_Create_Args>();
  args.message = message;
  args.errc = static_cast<XLA_FFI_Error_Code>(code);
  return api.XLA_FFI_Error_Create(&args);
}

}  // namespace detail

/// A handler that does `Work`. What `Work` throws fails the execution.
template <void (*Work)(const CallFrame&)>
XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) noexcept {
  if (detail::answer_metadata(*frame)) return nullptr;
  try {
    Work(CallFrame(*frame));
    return nullptr;
  } catch (const StatusError& error) {
    return detail::make_error(*frame->api, error.status().code(), error.what());
  } catch (const std::exception& error) {
    return detail::make_error(*frame->api, StatusCode::kInternal, error.what());
  }
}

/// Lets a plugin call a handler wherever a program names it, for the life of the process.
///
/// To be done once for each name, before the first compilation that needs it. Throws UNIMPLEMENTED
/// if the plugin takes no handlers, else the plugin's own error.
inline void register_handler(const Api& api, std::string_view platform, std::string_view name,
                             XLA_FFI_Handler handler) {
  const auto* extension =
      reinterpret_cast<const PJRT_FFI_Extension*>(api.extension(PJRT_Extension_Type_FFI));
  if (!extension || extension->base.struct_size <= offsetof(PJRT_FFI_Extension, register_handler) ||
      !extension->register_handler) {
    throw StatusError(Status(StatusCode::kUnimplemented,
                             "The PJRT plugin " + api.path() +
                                 " takes no handlers of custom calls, such as '" +
                                 std::string(name) + "'. Install a newer version of it."));
  }
  auto args = make_args<PJRT_FFI_Register_Handler_Args>();
  args.target_name = name.data();
  args.target_name_size = name.size();
  args.handler = reinterpret_cast<void*>(handler);
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  raise_if_error(api.take(extension->register_handler(&args)));
}

}  // namespace devrt::pjrt::ffi
