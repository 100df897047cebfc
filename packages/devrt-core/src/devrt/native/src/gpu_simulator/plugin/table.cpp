// The simulated plugin's table of functions. The library of a simulated driver is this plugin too:
// what devrt does with a vendor's plugin, it does with this one, on simulated devices.
#include <cstring>

#include "devrt/pjrt/engine/ffi.hpp"
#include "execution/kernel_target.hpp"
#include "gpu_simulator/control.h"
#include "gpu_simulator/plugin/kernel_calls.hpp"
#include "gpu_simulator/plugin/objects.hpp"

namespace devrt::gpu_simulator::plugin {

namespace {

constexpr int kMinorVersion = 115;  // of the C API, whose manners this one has

std::mutex naming;
std::string& compiler_path() {
  static auto* const path = new std::string;
  return *path;
}

template <class Args>
PJRT_Error* ask(PJRT_Error* (*PJRT_FFI_Extension::*function)(Args*), Args& args) {
  return guard([&] {
    const std::shared_ptr<const pjrt::Api> api = compiler();
    const PJRT_FFI_Extension* extension = pjrt::ffi::ffi_extension(*api);
    if (!extension || !(extension->*function)) {
      throw StatusError(Status(StatusCode::kUnimplemented, "the compiler takes no handlers"));
    }
    raise_if_error(api->take((extension->*function)(&args)));
  });
}

/// Registers a type by a name of its own: the compiler may serve another client of the process too,
/// which registers the same.
PJRT_Error* register_type(PJRT_FFI_Type_Register_Args* args) {
  const std::string name = "simulated " + std::string(platform_name()) + ": " +
                           std::string(args->type_name, args->type_name_size);
  auto own = *args;
  own.type_name = name.data();
  own.type_name_size = name.size();
  PJRT_Error* error = ask(&PJRT_FFI_Extension::type_register, own);
  args->type_id = own.type_id;
  return error;
}

/// Registers a handler for the processor: it is where programs run. That of calls of kernels is
/// called by one of the plugin's, which gives it what a device's programs have.
PJRT_Error* register_handler(PJRT_FFI_Register_Handler_Args* args) {
  constexpr std::string_view kHost = "Host";
  auto own = *args;
  own.platform_name = kHost.data();
  own.platform_name_size = kHost.size();
  const bool is_kernels =
      std::string_view(args->target_name, args->target_name_size) == native::kKernelTarget;
  if (is_kernels) {
    own.target_name = kernel_target().data();
    own.target_name_size = kernel_target().size();
    own.handler = reinterpret_cast<void*>(wrap_kernel_calls(args->handler));
  }
  return ask(&PJRT_FFI_Extension::register_handler, own);
}

PJRT_Error* add_user_data(PJRT_FFI_UserData_Add_Args* args) {
  return ask(&PJRT_FFI_Extension::user_data_add, *args);
}

PJRT_Error* get_stream(PJRT_Get_Stream_For_External_Ready_Events_Args* args) {
  args->stream = static_cast<std::intptr_t>(args->device->external);
  return nullptr;
}

PJRT_Error* wait_stream(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args* args) {
  return guard([&] {
    if (args->buffer->filled) args->buffer->filled->order(static_cast<Handle>(args->stream));
  });
}

template <class Extension>
PJRT_Extension_Base base_of(int type, PJRT_Extension_Base* next) {
  return {sizeof(Extension), static_cast<PJRT_Extension_Type>(type), next};
}

PJRT_Extension_Base* extensions() {
  static PJRT_Stream_Extension streams{base_of<PJRT_Stream_Extension>(3, nullptr), &get_stream,
                                       &wait_stream};
  static PJRT_FFI_Extension handlers{
      base_of<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI, &streams.base), &register_type,
      &add_user_data, &register_handler};
  return &handlers.base;
}

void fill_errors(PJRT_Api& table) {
  table.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) { delete args->error; };
  table.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    const std::string& message = args->error->status.message();
    args->message = message.data();
    args->message_size = message.size();
  };
  table.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = static_cast<PJRT_Error_Code>(args->error->status.code());
    return nullptr;
  };
}

PJRT_Api make_table() {
  PJRT_Api table{};
  table.struct_size = sizeof(PJRT_Api);
  table.extension_start = extensions();
  table.pjrt_api_version.struct_size = sizeof(PJRT_Api_Version);
  table.pjrt_api_version.major_version = PJRT_API_MAJOR;
  table.pjrt_api_version.minor_version = kMinorVersion;
  table.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) {
    return guard([] { (void)compiler(); });
  };
  fill_errors(table);
  fill_clients(table);
  fill_buffers(table);
  fill_programs(table);
  return table;
}

}  // namespace

std::int64_t register_own_type(const char* name) {
  PJRT_FFI_Type_Info nothing_to_free{};
  auto args = pjrt::make_args<PJRT_FFI_Type_Register_Args>();
  args.type_name = name;
  args.type_name_size = std::strlen(name);
  args.type_info = &nothing_to_free;
  const std::unique_ptr<PJRT_Error> error(register_type(&args));
  if (error) throw StatusError(error->status);
  return args.type_id;
}

std::shared_ptr<const pjrt::Api> compiler() {
  std::string path;
  {
    const std::lock_guard lock(naming);
    path = compiler_path();
  }
  if (path.empty()) {
    throw StatusError(Status(StatusCode::kFailedPrecondition,
                             "Nobody named a compiler for programs on simulated devices "
                             "(devrt_simulator_compile_with)."));
  }
  return pjrt::Api::load(path);
}

}  // namespace devrt::gpu_simulator::plugin

void devrt_simulator_compile_with(const char* library) {
  using namespace devrt::gpu_simulator::plugin;
  const std::lock_guard lock(naming);
  if (compiler_path().empty()) compiler_path() = library;
}

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api table = devrt::gpu_simulator::plugin::make_table();
  return &table;
}
