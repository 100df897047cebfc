#include "gpu_simulator/plugin/kernel_calls.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "devrt/pjrt/engine/ffi.hpp"
#include "execution/kernel_target.hpp"
#include "gpu_simulator/program_call.hpp"

namespace devrt::gpu_simulator::plugin {

namespace {

constexpr std::string_view kTarget = native::kKernelTarget;

std::atomic<XLA_FFI_Handler> client_handler{nullptr};

/// Returns what the compiler calls the type of what `tell_kernel_calls` tells.
std::int64_t client_type() {
  static const std::int64_t id = register_own_type("devrt.SimulatedClient");
  return id;
}

template <class Args>
Args answer_of(const XLA_FFI_CallFrame& frame, XLA_FFI_Error* (*function)(Args*), Args args) {
  args.ctx = frame.ctx;
  XLA_FFI_Error* const error = function ? function(&args) : nullptr;
  if (!error && function) return args;
  if (error) {
    auto dropped = pjrt::make_args<XLA_FFI_Error_Destroy_Args>();
    dropped.error = error;
    frame.api->XLA_FFI_Error_Destroy(&dropped);
  }
  throw StatusError(Status(StatusCode::kUnimplemented,
                           "the compiler does not tell for which device a kernel is called"));
}

/// Returns the driver's number of the device that a call is for.
int device_of(const XLA_FFI_CallFrame& frame) {
  XLA_FFI_TypeId type{client_type()};
  auto data = pjrt::make_args<XLA_FFI_ExecutionContext_Get_Args>();
  data.type_id = &type;
  const auto* client = static_cast<const PJRT_Client*>(
      answer_of(frame, frame.api->XLA_FFI_ExecutionContext_Get, data).data);
  const auto ordinal = answer_of(frame, frame.api->XLA_FFI_DeviceOrdinal_Get,
                                 pjrt::make_args<XLA_FFI_DeviceOrdinal_Get_Args>());
  return client->devices.at(static_cast<std::size_t>(ordinal.device_ordinal)).number;
}

ProgramCall::Array array_of(const pjrt::ffi::Array& array, bool is_result) {
  return {reinterpret_cast<Address>(array.data), checked_bytes(array.dims, itemsize(array.type)),
          is_result};
}

std::vector<ProgramCall::Array> arrays_of(const XLA_FFI_CallFrame& raw) {
  const pjrt::ffi::CallFrame frame(raw);
  std::vector<ProgramCall::Array> arrays;
  for (std::size_t i = 0; i < frame.num_arguments(); ++i) {
    arrays.push_back(array_of(frame.argument(i), false));
  }
  for (std::size_t i = 0; i < frame.num_results(); ++i) {
    arrays.push_back(array_of(frame.result(i), true));
  }
  return arrays;
}

XLA_FFI_Error* give_stream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = reinterpret_cast<void*>(kProgramStream);
  return nullptr;
}

/// Calls the client's handler as a GPU's plugin would.
XLA_FFI_Error* call_on_device(XLA_FFI_CallFrame* frame) {
  const int device = device_of(*frame);
  XLA_FFI_Api api{};
  std::memcpy(&api, frame->api, std::min(sizeof(api), frame->api->struct_size));
  api.XLA_FFI_Stream_Get = &give_stream;
  XLA_FFI_CallFrame own = *frame;
  own.api = &api;
  XLA_FFI_Error* error = nullptr;
  call_driver("devrt_kernel", device, [&](Machine& machine, const Call&) {
    choose_device(machine, device);
    const ProgramCall call(device, arrays_of(*frame));
    error = client_handler.load(std::memory_order_acquire)(&own);
  });
  return error;
}

XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) noexcept {
  if (pjrt::ffi::detail::answer_metadata(*frame)) return nullptr;
  try {
    return call_on_device(frame);
  } catch (const StatusError& error) {
    return pjrt::ffi::fail(*frame, error.status());
  } catch (const std::exception& error) {
    return pjrt::ffi::fail(*frame, Status(StatusCode::kInternal, error.what()));
  }
}

}  // namespace

const std::string& kernel_target() {
  static const std::string target = [] {
    std::string made = "devrt_" + std::string(platform_name());
    made.resize(kTarget.size(), '_');
    return made;
  }();
  return target;
}

std::string with_kernel_target(std::string_view code) {
  std::string made(code);
  for (std::size_t at = 0; (at = made.find(kTarget, at)) != std::string::npos;
       at += kTarget.size()) {
    const std::size_t end = at + kTarget.size();
    // Before an '@' it is the name of a kernel, by which the call finds that.
    if (end == made.size() || made[end] != '@') made.replace(at, kTarget.size(), kernel_target());
  }
  return made;
}

XLA_FFI_Handler wrap_kernel_calls(void* handler) noexcept {
  client_handler.store(reinterpret_cast<XLA_FFI_Handler>(handler), std::memory_order_release);
  return &handle;
}

void tell_kernel_calls(PJRT_ExecuteContext& context, PJRT_Client& client) {
  if (!client_handler.load(std::memory_order_acquire)) return;  // no program calls one
  auto args = pjrt::make_args<PJRT_FFI_UserData_Add_Args>();
  args.context = &context;
  args.user_data = {client_type(), &client};
  const std::shared_ptr<const pjrt::Api> api = compiler();
  raise_if_error(api->take(pjrt::ffi::ffi_extension(*api)->user_data_add(&args)));
}

}  // namespace devrt::gpu_simulator::plugin
