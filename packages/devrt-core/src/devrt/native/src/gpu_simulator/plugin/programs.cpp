// Programs of the simulated plugin: compiled for the CPU, for as many devices.
#include "gpu_simulator/plugin/kernel_calls.hpp"
#include "gpu_simulator/plugin/objects.hpp"

namespace devrt::gpu_simulator::plugin {

namespace {

/// Has the compiler answer what it would answer itself: its executables are the plugin's.
template <auto Function>
struct Forwarded;
template <class Args, PJRT_Error* (*PJRT_Api::*Function)(Args*)>
struct Forwarded<Function> {
  static PJRT_Error* call(Args* args) {
    return guard([&] { compiler()->template check<Function>(*args); });
  }
};

template <auto... Functions>
void forward(PJRT_Api& table) {
  ((table.*Functions = &Forwarded<Functions>::call), ...);
}

PJRT_LoadedExecutable* load(PJRT_Client& client, Ref<pjrt::Executable> program) {
  auto made = std::make_unique<PJRT_LoadedExecutable>(&client, std::move(program));
  for (const std::size_t device : made->program->devices()) {
    made->devices.push_back(client.pointers.at(device));
  }
  return made.release();
}

void compile(PJRT_Client_Compile_Args& args) {
  const PJRT_Program& program = *args.program;
  const std::string code = with_kernel_target({program.code, program.code_size});
  args.executable = load(
      *args.client,
      pjrt::Executable::compile(*args.client->compiler, code, {program.format, program.format_size},
                                {args.compile_options, args.compile_options_size}));
}

void deserialize(PJRT_Executable_DeserializeAndLoad_Args& args) {
  const std::string_view options(args.overridden_serialized_compile_options,
                                 args.overridden_serialized_compile_options_size);
  args.loaded_executable = load(
      *args.client, pjrt::Executable::deserialize(
                        *args.client->compiler,
                        {args.serialized_executable, args.serialized_executable_size}, options));
}

/// Returns an executable that the caller owns.
void get(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  auto own = args;
  own.loaded_executable = args.loaded_executable->program->get();
  compiler()->check<&PJRT_Api::PJRT_LoadedExecutable_GetExecutable>(own);
  args.executable = own.executable;
}

}  // namespace

void fill_programs(PJRT_Api& table) {
  table.PJRT_Client_Compile = [](PJRT_Client_Compile_Args* args) {
    return guard([&] { compile(*args); });
  };
  table.PJRT_Executable_DeserializeAndLoad = [](PJRT_Executable_DeserializeAndLoad_Args* args) {
    return guard([&] { deserialize(*args); });
  };
  table.PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    return guard([&] { execute(*args); });
  };
  table.PJRT_LoadedExecutable_GetExecutable = [](PJRT_LoadedExecutable_GetExecutable_Args* args) {
    return guard([&] { get(*args); });
  };
  table.PJRT_LoadedExecutable_AddressableDevices =
      [](PJRT_LoadedExecutable_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->executable->devices.data();
    args->num_addressable_devices = args->executable->devices.size();
    return nullptr;
  };
  table.PJRT_LoadedExecutable_Destroy =
      [](PJRT_LoadedExecutable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  // Not what memory outputs go to: the compiler speaks of the host's.
  forward<
      &PJRT_Api::PJRT_Executable_Destroy, &PJRT_Api::PJRT_Executable_OptimizedProgram,
      &PJRT_Api::PJRT_Executable_NumReplicas, &PJRT_Api::PJRT_Executable_NumPartitions,
      &PJRT_Api::PJRT_Executable_Fingerprint, &PJRT_Api::PJRT_Executable_Serialize,
      &PJRT_Api::PJRT_Executable_GetCostAnalysis, &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats,
      &PJRT_Api::PJRT_Executable_SizeOfGeneratedCodeInBytes, &PJRT_Api::PJRT_ExecuteContext_Create,
      &PJRT_Api::PJRT_ExecuteContext_Destroy, &PJRT_Api::PJRT_Plugin_Attributes>(table);
}

}  // namespace devrt::gpu_simulator::plugin
