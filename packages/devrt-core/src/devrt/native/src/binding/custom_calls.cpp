// Functions of Python that compiled programs call.
#include <nanobind/stl/string.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "binding/call_gate.hpp"
#include "binding/python.hpp"
#include "devrt/pjrt/engine/call_attributes.hpp"
#include "execution/custom_calls.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

PyObject* answer_function = nullptr;

nb::object to_text(const XLA_FFI_ByteSpan& span) {
  nb::object text = nb::steal(
      PyUnicode_DecodeUTF8(span.ptr, static_cast<Py_ssize_t>(span.len), "surrogateescape"));
  if (!text.is_valid()) throw nb::python_error();
  return text;
}

std::size_t bytes_of(const XLA_FFI_Buffer& buffer) {
  const ElementType type = pjrt::detail::element_type_of(buffer.dtype);
  if (type == ElementType::kInvalid) return 0;
  auto bits = static_cast<std::size_t>(info(type).bits);
  for (std::int64_t d = 0; d < buffer.rank; ++d) bits *= static_cast<std::size_t>(buffer.dims[d]);
  return (bits + 7) / 8;
}

/// What a function of the host reads and fills in place of a device's memory; where the host sees
/// the memory itself, nothing.
class HostCopies {
 public:
  explicit HostCopies(const XLA_FFI_CallFrame& frame) : frame_(frame) {}

  void fetch() {
    for (std::int64_t i = 0; i < frame_.args.size; ++i) {
      const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(frame_.args.args[i]);
      std::vector<std::byte>& made = arguments_.emplace_back(bytes_of(buffer));
      raise_if_error(custom_call_copy()(frame_, made.data(), buffer.data, made.size(), true));
    }
    for (std::int64_t i = 0; i < frame_.rets.size; ++i) {
      results_.emplace_back(bytes_of(*static_cast<const XLA_FFI_Buffer*>(frame_.rets.rets[i])));
    }
  }
  void put() const {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(frame_.rets.rets[i]);
      raise_if_error(
          custom_call_copy()(frame_, buffer.data, results_[i].data(), results_[i].size(), false));
    }
  }
  std::span<const std::vector<std::byte>> arguments() const noexcept { return arguments_; }
  std::span<const std::vector<std::byte>> results() const noexcept { return results_; }

 private:
  const XLA_FFI_CallFrame& frame_;
  std::vector<std::vector<std::byte>> arguments_;
  std::vector<std::vector<std::byte>> results_;
};

/// Which slots have functions that take the addresses of a device's memory.
std::array<std::atomic<bool>, kCustomCallSlots> takes_addresses;

nb::list to_arrays(std::int64_t count, void* const* slots,
                   std::span<const std::vector<std::byte>> copies) {
  nb::list arrays;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(slots[i]);
    const void* data = copies.empty() ? buffer.data : copies[static_cast<std::size_t>(i)].data();
    arrays.append(nb::make_tuple(reinterpret_cast<std::uintptr_t>(data),
                                 to_tuple({buffer.dims, static_cast<std::size_t>(buffer.rank)}),
                                 static_cast<int>(buffer.dtype)));
  }
  return arrays;
}

/// Returns XLA's type, the bytes, and whether it is one number.
nb::object to_numbers(int type, const void* data, std::size_t count, bool is_scalar) {
  const ElementType element = pjrt::detail::element_type_of(type);
  const std::size_t bytes = element == ElementType::kInvalid ? 0 : count * itemsize(element);
  return nb::make_tuple(type, nb::bytes(static_cast<const char*>(data), bytes), is_scalar);
}

nb::dict to_attributes(const XLA_FFI_Attrs& attributes);

nb::object to_attribute(XLA_FFI_AttrType type, const void* value) {
  switch (type) {
    case XLA_FFI_AttrType_STRING:
      return to_text(*static_cast<const XLA_FFI_ByteSpan*>(value));
    case XLA_FFI_AttrType_DICTIONARY:
      return to_attributes(*static_cast<const XLA_FFI_Attrs*>(value));
    case XLA_FFI_AttrType_SCALAR: {
      const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(value);
      return to_numbers(scalar.dtype, scalar.value, 1, true);
    }
    default: {
      const auto& array = *static_cast<const XLA_FFI_Array*>(value);
      return to_numbers(array.dtype, array.data, array.size, false);
    }
  }
}

nb::dict to_attributes(const XLA_FFI_Attrs& attributes) {
  nb::dict made;
  for (std::int64_t i = 0; i < attributes.size; ++i) {
    made[to_text(*attributes.names[i])] = to_attribute(attributes.types[i], attributes.attrs[i]);
  }
  return made;
}

/// Returns the stream of a program on a device; 0 on the host, where plugins make an error of it.
std::uintptr_t stream_number(const XLA_FFI_CallFrame& frame) {
  if (!custom_call_copy()) return 0;
  return reinterpret_cast<std::uintptr_t>(pjrt::ffi::stream_of(frame));
}

Status ask_python(std::size_t slot, const XLA_FFI_CallFrame& frame, const HostCopies& copies) {
  const nb::object outcome =
      call_python(module_attribute(answer_function, "devrt.native.custom_calls", "answer"),
                  nb::str(DEVRT_PACKAGE), nb::int_(slot),
                  to_arrays(frame.args.size, frame.args.args, copies.arguments()),
                  to_arrays(frame.rets.size, frame.rets.rets, copies.results()),
                  to_attributes(frame.attrs), nb::int_(stream_number(frame)));
  if (outcome.is_none()) return {};
  return {static_cast<StatusCode>(nb::cast<int>(outcome[0])), nb::cast<std::string>(outcome[1])};
}

Status ask_with_gil(std::size_t slot, const XLA_FFI_CallFrame& frame, const HostCopies& copies) {
  Status status;
  {
    const GilHold hold;
    try {
      status = ask_python(slot, frame, copies);
    } catch (nb::python_error& error) {
      status = Status(StatusCode::kInternal, error.what());
      if (error.matches(PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt();  // it was meant for the program that waits for this
      } else {
        error.discard_as_unraisable("a custom call");
      }
    } catch (const std::exception& error) {
      status = Status(StatusCode::kInternal, error.what());
    }
  }
  return status;
}

Status answer(std::size_t slot, const XLA_FFI_CallFrame& frame) noexcept {
  if (!call_gate().enter())
    return {StatusCode::kCancelled, "the process's Python interpreter ends"};
  Status status;
  try {
    HostCopies copies(frame);
    const bool needs_copies = custom_call_copy() && !takes_addresses[slot].load();
    if (needs_copies) copies.fetch();
    status = ask_with_gil(slot, frame, copies);
    if (needs_copies && status.ok()) copies.put();
  } catch (const StatusError& error) {
    status = error.status();
  } catch (const std::exception& error) {
    status = Status(StatusCode::kInternal, error.what());
  }
  call_gate().leave();
  return status;
}

std::size_t register_function(const std::string& library, const std::string& name, bool is_device) {
  use_call_gate();
  GilRelease released;
  const std::size_t slot = register_custom_call(library, name, &answer);
  takes_addresses[slot].store(is_device);
  return slot;
}

std::size_t register_native(const std::string& library, const std::string& name,
                            std::uintptr_t address) {
  GilRelease released;
  return register_custom_call(library, name, reinterpret_cast<XLA_FFI_Handler>(address));
}

}  // namespace

bool finish_custom_calls() {
  if (!finish_calls()) return false;
  if (!has_bound_custom_calls()) return true;
  static PyObject* function = nullptr;
  (void)call_python(module_attribute(function, "devrt.native.custom_calls", "forget_all"),
                    nb::str(DEVRT_PACKAGE));
  return true;
}

void bind_custom_calls(nb::module_& module) {
  module.def("_register_custom_call", &register_function, "library"_a, "name"_a, "is_device"_a);
  module.def("_register_native_custom_call", &register_native, "library"_a, "name"_a, "address"_a);
}

}  // namespace devrt::native
