// Custom calls: what a handler reads of its call frame, and how a plugin comes to know it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devrt/base/element_type.hpp"
#include "devrt/base/ref.hpp"
#include "devrt/base/status.hpp"
#include "devrt/pjrt/engine/api.hpp"
#include "devrt/pjrt/engine/hlo_module.hpp"

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

/// The first error of one execution's custom calls, whose code the plugin may not pass on.
///
/// A shard that fails while others wait to meet it leaves them waiting, and XLA ends the process
/// for that. So where shards run together the error is held back from the plugin, the program runs
/// on to its end, and its results get the error there.
class HeldError {
 public:
  explicit HeldError(bool holds_back, std::vector<const void*> devices = {},
                     std::uint64_t number = 0) noexcept
      : holds_back_(holds_back), devices_(std::move(devices)), number_(number) {}

  /// Returns the one of a call's execution, or null.
  static HeldError* of(const XLA_FFI_CallFrame& frame) noexcept {
    if (!frame.ctx || !frame.api->XLA_FFI_ExecutionContext_Get) return nullptr;
    // A frame does not say whose it is; its context has nothing under the number of another plugin.
    for (const std::atomic<std::int64_t>& known : type_ids()) {
      XLA_FFI_TypeId type{known.load(std::memory_order_acquire)};
      if (type.type_id == 0) return nullptr;
      if (HeldError* found = get(frame, type)) return found;
    }
    return nullptr;
  }

  /// Returns whether the plugin is not to know.
  bool holds_back() const noexcept { return holds_back_; }

  /// Returns what the execution runs on, as its caller names devices.
  std::span<const void* const> devices() const noexcept { return devices_; }
  /// Returns the execution's number, as its caller counts them.
  std::uint64_t number() const noexcept { return number_; }

  void hold(const Status& status) {
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  Status status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  friend class HoldingContext;
  static constexpr std::size_t kMostPlugins = 8;

  static HeldError* get(const XLA_FFI_CallFrame& frame, XLA_FFI_TypeId& type) noexcept {
    auto args = make_args<XLA_FFI_ExecutionContext_Get_Args>();
    args.ctx = frame.ctx;
    args.type_id = &type;
    XLA_FFI_Error* none = frame.api->XLA_FFI_ExecutionContext_Get(&args);
    if (!none) return static_cast<HeldError*>(args.data);
    auto dropped = make_args<XLA_FFI_Error_Destroy_Args>();
    dropped.error = none;
    frame.api->XLA_FFI_Error_Destroy(&dropped);
    return nullptr;
  }

  /// Returns what each plugin calls this type, in the order in which they came; 0 for the rest.
  static std::array<std::atomic<std::int64_t>, kMostPlugins>& type_ids() noexcept {
    static std::array<std::atomic<std::int64_t>, kMostPlugins> ids{};
    return ids;
  }

  const bool holds_back_;
  const std::vector<const void*> devices_;
  const std::uint64_t number_;
  mutable std::mutex mutex_;
  Status status_;
};

namespace detail {

/// Returns whether a type holds whole numbers or truth values, none of which is no number.
inline bool is_whole(ElementType type) noexcept {
  using enum ElementType;
  switch (type) {
    case kBool:
    case kInt2:
    case kInt4:
    case kInt8:
    case kInt16:
    case kInt32:
    case kInt64:
    case kUint2:
    case kUint4:
    case kUint8:
    case kUint16:
    case kUint32:
    case kUint64:
      return true;
    default:
      return false;
  }
}

/// Returns whether the plugin only asks what a handler is.
inline bool is_metadata(const XLA_FFI_CallFrame& frame) noexcept {
  const XLA_FFI_Extension_Base* next = frame.extension_start;
  while (next && next->type != XLA_FFI_Extension_Metadata) next = next->next;
  return next != nullptr;
}

/// Says which version of the interface a handler is for: the plugin's own, since nothing is used
/// that differs between versions. Returns whether that was what the plugin requested.
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

}  // namespace detail

/// Fills memory that a handler was given, in the order of the program's work.
using Fill = void (*)(const XLA_FFI_CallFrame& frame, void* data, int value,
                      std::size_t bytes) noexcept;

namespace detail {

inline void fill_host(const XLA_FFI_CallFrame&, void* data, int value, std::size_t bytes) noexcept {
  std::memset(data, value, bytes);
}
inline std::atomic<Fill> fill{&fill_host};

}  // namespace detail

/// Has results filled by `fill`, where they are no memory of the host's.
inline void set_fill(Fill fill) noexcept { detail::fill.store(fill, std::memory_order_release); }

namespace detail {

/// Fills the results of a call that failed: numbers that compare with nothing, and zeros.
inline void fill_results(const XLA_FFI_CallFrame& frame) noexcept {
  for (std::int64_t i = 0; i < frame.rets.size; ++i) {
    if (frame.rets.types[i] != XLA_FFI_RetType_BUFFER) continue;
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[i]);
    const ElementType type = pjrt::detail::element_type_of(buffer.dtype);
    if (type == ElementType::kInvalid) continue;
    std::size_t bits = static_cast<std::size_t>(info(type).bits);
    for (std::int64_t d = 0; d < buffer.rank; ++d) bits *= static_cast<std::size_t>(buffer.dims[d]);
    fill.load(std::memory_order_acquire)(frame, buffer.data, is_whole(type) ? 0 : 0xff,
                                         (bits + 7) / 8);
  }
}

inline XLA_FFI_Error* make_error(const XLA_FFI_Api& api, StatusCode code,
                                 const char* message) noexcept {
  auto args = make_args<XLA_FFI_Error_Create_Args>();
  args.message = message;
  args.errc = static_cast<XLA_FFI_Error_Code>(code);
  return api.XLA_FFI_Error_Create(&args);
}

}  // namespace detail

/// Fails a call: the plugin gets the error, unless the execution holds errors back.
inline XLA_FFI_Error* fail(const XLA_FFI_CallFrame& frame, const Status& status) noexcept {
  if (HeldError* held = HeldError::of(frame)) {
    held->hold(status);
    if (held->holds_back()) {
      detail::fill_results(frame);
      return nullptr;
    }
  }
  return detail::make_error(*frame.api, status.code(), status.message().c_str());
}

/// Returns what a plugin is to get of an error that native code made: the error, or null where the
/// execution holds errors back.
inline XLA_FFI_Error* held(const XLA_FFI_CallFrame& frame, XLA_FFI_Error* error) noexcept {
  HeldError* held = HeldError::of(frame);
  if (!held) return error;
  auto message = make_args<XLA_FFI_Error_GetMessage_Args>();
  message.error = error;
  message.errc = XLA_FFI_Error_Code_UNKNOWN;
  frame.api->XLA_FFI_Error_GetMessage(&message);
  held->hold(Status(static_cast<StatusCode>(message.errc), message.message));
  if (!held->holds_back()) return error;
  detail::fill_results(frame);
  auto dropped = make_args<XLA_FFI_Error_Destroy_Args>();
  dropped.error = error;
  frame.api->XLA_FFI_Error_Destroy(&dropped);
  return nullptr;
}

/// A handler that does `Work`. What `Work` throws fails the execution.
template <void (*Work)(const CallFrame&)>
XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) noexcept {
  if (detail::answer_metadata(*frame)) return nullptr;
  try {
    Work(CallFrame(*frame));
    return nullptr;
  } catch (const StatusError& error) {
    return fail(*frame, error.status());
  } catch (const std::exception& error) {
    return fail(*frame, Status(StatusCode::kInternal, error.what()));
  }
}

/// Returns the plugin's table of what concerns custom calls, or null.
inline const PJRT_FFI_Extension* ffi_extension(const Api& api) noexcept {
  return reinterpret_cast<const PJRT_FFI_Extension*>(api.extension(PJRT_Extension_Type_FFI));
}

/// Lets a plugin call a handler wherever a program names it, for the life of the process.
///
/// To be done once for each name, before the first compilation that needs it. Throws UNIMPLEMENTED
/// if the plugin takes no handlers, else the plugin's own error.
inline void register_handler(const Api& api, std::string_view platform, std::string_view name,
                             XLA_FFI_Handler handler) {
  const PJRT_FFI_Extension* extension = ffi_extension(api);
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
