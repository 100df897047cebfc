// A PJRT plugin for simulated GPUs, with streams of its own and the Stream extension. It runs a few
// programs, known by what is in their names, on the driver that devrt loaded:
//
//   add: one result, a + b     two: a + b, and a      same: a, in its memory where it is donated
//
//   total: of a job, the sum over the devices of all its processes
//
// A program with a custom call makes that alone: of its arguments, for one result of their size.
//
// The environment says where things are, and what it leaves out:
//   FAKE_GPU_DRIVER   the driver's library       FAKE_GPU_KERNELS   a module with `add`
//   FAKE_GPU_MODULES  a folder: NAME.hlo is what programs of that name were compiled to
//   FAKE_GPU_MINOR    the version that it claims
//   FAKE_GPU_FAULTS   some of these, and it does what only a broken client lets happen:
//     before   programs do not wait for their arguments
//     after    `wait_stream` does nothing
//     early    views are given up at once (no fault: older plugins do)
//     done     programs end before they have
//     full     they end with the error that memory was lacking
//     seize    donated memory is taken, whatever was withheld
//     silent   of a job, its devices are not published      more   one more is listed than there is
//     reversed the devices are listed the other way round
//   FAKE_GPU_TIMEOUT  milliseconds that it waits for keys of the job
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <span>

#include "shard.hpp"

namespace {

PJRT_Client* the_client = nullptr;
// All that were made: views may outlive theirs.
std::vector<PJRT_Client*>& clients = *new std::vector<PJRT_Client*>;
std::string options_seen, compile_options_seen;
std::mutex clients_mutex;  // processes of a job may be threads of a test

void start(PJRT_Device& device, std::int64_t ordinal) {
  device.ordinal = static_cast<int>(ordinal);
  drive("cuDevicePrimaryCtxRetain", &device.context, device.ordinal);
  const Current current(device);
  drive("cuStreamCreateWithPriority", &device.external, 1U, 0);
  drive("cuStreamCreateWithPriority", &device.compute, 1U, 0);
  std::ifstream file(std::getenv("FAKE_GPU_KERNELS"), std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(file), {});
  Handle module = nullptr;
  drive("cuModuleLoadDataEx", &module, static_cast<const void*>(image.data()), 0U,
        static_cast<int*>(nullptr), static_cast<void**>(nullptr));
  drive("cuModuleGetFunction", &device.kernel, module, "add");
}

PJRT_Error* create(PJRT_Client_Create_Args* args) {
  auto* client = new PJRT_Client;
  client->job.read(*args);
  std::string options;
  std::vector<std::int64_t> visible;
  for (std::size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    const std::string name(option.name, option.name_size);
    if (name == "visible_devices") {
      visible.assign(option.int64_array_value, option.int64_array_value + option.value_size);
    }
    if (name == "allocator") options += std::string(option.string_value, option.value_size);
    if (name == "preallocate") options += option.bool_value ? " all" : " as needed";
    if (name == "memory_fraction") options += " fraction " + std::to_string(option.float_value);
    if (name == "collective_memory_size" && option.type == PJRT_NamedValue_kInt64) {
      options += " collectives " + std::to_string(option.int64_value);
    }
  }
  if (has_fault("reversed")) std::ranges::reverse(visible);
  client->devices.resize(visible.size());
  try {
    number_devices(*client);
  } catch (std::unique_ptr<PJRT_Error>& error) {
    delete client;
    return error.release();
  }
  for (std::size_t i = 0; i < visible.size(); ++i) {
    start(client->devices[i], visible[i]);
    client->pointers.push_back(&client->devices[i]);
    Handle pool = nullptr;  // shared, and to keep nothing
    std::uint64_t none = 0;
    drive("cuDeviceGetDefaultMemPool", &pool, client->devices[i].ordinal);
    drive("cuMemPoolSetAttribute", pool, 4, static_cast<void*>(&none));
  }
  const std::lock_guard lock(clients_mutex);
  options_seen = options;
  clients.push_back(client);
  args->client = the_client = client;
  return nullptr;
}

PJRT_Error* view(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  auto* device = args->device;
  if (args->stream && reinterpret_cast<Handle>(args->stream) != device->external) {
    return fail(PJRT_Error_Code_NOT_FOUND, "the stream is none of the plugin's");
  }
  std::size_t size = 4;
  for (std::size_t i = 0; i < args->num_dims; ++i) size *= static_cast<std::size_t>(args->dims[i]);
  auto bytes = std::make_shared<Bytes>();
  bytes->device = device;
  bytes->address = reinterpret_cast<std::uintptr_t>(args->device_buffer_ptr);
  bytes->on_delete = args->on_delete_callback;
  bytes->argument = args->on_delete_callback_arg;
  args->buffer = new PJRT_Buffer{std::move(bytes), nullptr, nullptr, size};
  if (args->stream) args->buffer->filled = record(*device, device->external);
  return nullptr;
}

PJRT_Error* destroy(PJRT_Buffer_Destroy_Args* args) {
  std::unique_ptr<PJRT_Buffer> buffer(args->buffer);
  if (!buffer->used || has_fault("early")) return nullptr;
  std::lock_guard lock(buffer->used->mutex);
  if (!buffer->used->has_ended) buffer->used->kept.push_back(std::move(buffer->bytes));
  return nullptr;
}

bool is_of_job(const PJRT_Executable& program) {
  return program.name.find("total") != std::string::npos;
}

/// Adds up the arguments of all processes.
std::vector<float> add_up(const PJRT_LoadedExecutable_Execute_Args& args) {
  static int runs = 0;
  std::vector<std::vector<float>> values;
  std::vector<int> ids;
  for (std::size_t d = 0; d < args.num_devices; ++d) {
    const std::span given(args.argument_lists[d], args.num_args);
    const Call call{*given[0]->bytes->device, given};
    const Current current(call.device);
    call.wait_for_arguments();
    values.push_back(call.fetch());
    ids.push_back(call.device.id);
  }
  const int count = static_cast<int>(the_client->all.size());
  return the_client->job.add(std::to_string(runs++), ids, count, values);
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  const std::string& name = args->executable->executable.name;
  std::vector<float> sums;
  try {
    if (is_of_job(args->executable->executable)) sums = add_up(*args);
  } catch (std::unique_ptr<PJRT_Error>& error) {
    return error.release();
  }
  const bool is_withheld = args->options->num_non_donatable_input_indices > 0;
  for (std::size_t d = 0; d < args->num_devices; ++d) {
    const std::span given(args->argument_lists[d], args->num_args);
    const Call call{*given[0]->bytes->device, given};
    const Current current(call.device);
    call.wait_for_arguments();
    std::vector<PJRT_Buffer*> made;
    // First: the argument may be taken.
    PJRT_Buffer* const second = name.find("two") != name.npos ? call.copy() : nullptr;
    if (const auto& program = args->executable->executable; !program.target.empty()) {
      std::string error;
      made = {call.custom(program, args->options->context, error)};
      if (!error.empty()) return fail(PJRT_Error_Code_INTERNAL, error);
    } else if (!sums.empty()) {
      made = {call.fill(sums)};
    } else if (name.find("same") != name.npos) {
      made = {is_withheld && !has_fault("seize") ? call.copy() : call.take()};
    } else {
      made = {call.add()};
    }
    if (second) made.push_back(second);
    const std::shared_ptr<Work> done = record(call.device, call.device.compute, has_fault("full"));
    for (PJRT_Buffer* argument : given) argument->used = done;
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i]->filled = done;
      args->output_lists[d][i] = made[i];
    }
    if (args->device_complete_events) args->device_complete_events[d] = new PJRT_Event{done};
  }
  return nullptr;
}

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  const std::string code(args->program->code, args->program->code_size);
  compile_options_seen.assign(args->compile_options, args->compile_options_size);
  for (const auto& entry : std::filesystem::directory_iterator(std::getenv("FAKE_GPU_MODULES"))) {
    const std::string name = entry.path().stem();
    if (code.find("@" + name + " ") == std::string::npos) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::smatch call;
    const bool has_call = std::regex_search(
        code, call, std::regex(R"re(custom_call(?: @(\w+)|.*call_target_name = "(\w+)"))re"));
    const std::string target = has_call ? (call[1].matched ? call[1] : call[2]).str() : "";
    // Without an assignment a program of such a name runs on two devices, any other on the first.
    std::vector<PJRT_Device*> devices = assigned(*args->client, compile_options_seen);
    const std::size_t count = name.ends_with("_all") ? 2 : 1;
    for (std::size_t i = 0; devices.size() < count; ++i)
      devices.push_back(args->client->pointers[i]);
    args->executable = new PJRT_LoadedExecutable{
        {name, std::string(std::istreambuf_iterator<char>(file), {}), code, target}, devices};
    return nullptr;
  }
  return fail(PJRT_Error_Code_INVALID_ARGUMENT, "no such program");
}

PJRT_Error* on_ready(PJRT_Event_OnReady_Args* args) {
  Work& work = *args->event->work;
  {
    std::lock_guard lock(work.mutex);
    if (!work.has_ended) {
      work.callbacks.emplace_back(args->callback, args->user_arg);
      return nullptr;
    }
  }
  args->callback(work.outcome(), args->user_arg);
  return nullptr;
}

PJRT_Error* await(PJRT_Event_Await_Args* args) {
  Work& work = *args->event->work;
  std::unique_lock lock(work.mutex);
  work.changed.wait(lock, [&] { return work.has_ended; });
  return work.outcome();
}

PJRT_Error* get_stream(PJRT_Get_Stream_For_External_Ready_Events_Args* args) {
  args->stream = reinterpret_cast<intptr_t>(args->device->external);
  return nullptr;
}

PJRT_Error* wait_stream(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args* args) {
  PJRT_Buffer& buffer = *args->buffer;
  if (!buffer.filled || has_fault("after")) return nullptr;
  // The stream may be of another device's: only it knows its context.
  drive("cuStreamWaitEvent", reinterpret_cast<Handle>(args->stream), buffer.filled->event, 0U);
  return nullptr;
}

PJRT_Stream_Extension streams{};
PJRT_FFI_Extension calls{};
PJRT_Api table{};

template <class Args>
using Function = PJRT_Error* (*)(Args*);

void fill_objects() {
  table.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) { delete args->error; };
  table.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    args->message = args->error->message.data();
    args->message_size = args->error->message.size();
  };
  table.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = args->error->code;
    return nullptr;
  };
  table.PJRT_Event_Destroy = [](PJRT_Event_Destroy_Args* args) -> PJRT_Error* {
    delete args->event;
    return nullptr;
  };
  table.PJRT_Event_IsReady = [](PJRT_Event_IsReady_Args* args) -> PJRT_Error* {
    std::lock_guard lock(args->event->work->mutex);
    args->is_ready = args->event->work->has_ended;
    return nullptr;
  };
  table.PJRT_Event_Error = [](PJRT_Event_Error_Args* args) -> PJRT_Error* {
    return args->event->work->outcome();
  };
  table.PJRT_Event_Await = &await;
  table.PJRT_Event_OnReady = &on_ready;
  table.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) -> PJRT_Error* {
    return nullptr;
  };
  table.PJRT_Client_Create = &create;
  table.PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args*) -> PJRT_Error* { return nullptr; };
  table.PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args* args) -> PJRT_Error* {
    args->platform_name = "cuda";
    args->platform_name_size = 4;
    return nullptr;
  };
  table.PJRT_Client_AddressableDevices =
      [](PJRT_Client_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->client->pointers.data();
    args->num_addressable_devices = args->client->pointers.size();
    return nullptr;
  };
  table.PJRT_Client_Devices = [](PJRT_Client_Devices_Args* args) -> PJRT_Error* {
    args->devices = args->client->all.data();
    args->num_devices = args->client->all.size();
    return nullptr;
  };
  table.PJRT_DeviceDescription_ProcessIndex =
      [](PJRT_DeviceDescription_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = reinterpret_cast<PJRT_Device*>(args->device_description)->process;
    return nullptr;
  };
  table.PJRT_Device_LocalHardwareId = [](PJRT_Device_LocalHardwareId_Args* args) -> PJRT_Error* {
    args->local_hardware_id = args->device->ordinal;
    return nullptr;
  };
  table.PJRT_Device_GetDescription = [](PJRT_Device_GetDescription_Args* args) -> PJRT_Error* {
    args->device_description = reinterpret_cast<PJRT_DeviceDescription*>(args->device);
    return nullptr;
  };
  table.PJRT_DeviceDescription_Id = [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = reinterpret_cast<PJRT_Device*>(args->device_description)->id;
    return nullptr;
  };
  table.PJRT_Client_CreateViewOfDeviceBuffer = &view;
  table.PJRT_Buffer_Destroy = &destroy;
  table.PJRT_Buffer_UnsafePointer = [](PJRT_Buffer_UnsafePointer_Args* args) -> PJRT_Error* {
    args->buffer_pointer = args->buffer->bytes->address;
    return nullptr;
  };
  table.PJRT_Buffer_IsDeleted = [](PJRT_Buffer_IsDeleted_Args* args) -> PJRT_Error* {
    args->is_deleted = !args->buffer->bytes;
    return nullptr;
  };
}

void fill_programs() {
  table.PJRT_Client_Compile = &compile;
  table.PJRT_LoadedExecutable_Execute = &execute;
  table.PJRT_LoadedExecutable_GetExecutable =
      [](PJRT_LoadedExecutable_GetExecutable_Args* args) -> PJRT_Error* {
    args->executable = new PJRT_Executable(args->loaded_executable->executable);
    return nullptr;
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
  table.PJRT_Executable_Destroy = [](PJRT_Executable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  table.PJRT_Executable_OptimizedProgram =
      [](PJRT_Executable_OptimizedProgram_Args* args) -> PJRT_Error* {
    const std::string& module = args->executable->module;
    args->program->code_size = module.size();
    if (args->program->code) std::memcpy(args->program->code, module.data(), module.size());
    return nullptr;
  };
  table.PJRT_Executable_NumReplicas = [](PJRT_Executable_NumReplicas_Args* args) -> PJRT_Error* {
    args->num_replicas = args->executable->name.ends_with("_all") ? 2 : 1;
    return nullptr;
  };
  table.PJRT_Executable_NumPartitions =
      [](PJRT_Executable_NumPartitions_Args* args) -> PJRT_Error* {
    args->num_partitions = is_of_job(*args->executable) ? the_client->all.size() : 1;
    return nullptr;
  };
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* fake_gpu_options() {
  return options_seen.c_str();
}

/// Returns what the last program was compiled with, and sets its size.
extern "C" __attribute__((visibility("default"))) const char* fake_gpu_compile_options(
    std::size_t* size) {
  *size = compile_options_seen.size();
  return compile_options_seen.data();
}

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  const char* minor = std::getenv("FAKE_GPU_MINOR");
  table.struct_size = sizeof(PJRT_Api);
  table.pjrt_api_version.struct_size = sizeof(PJRT_Api_Version);
  table.pjrt_api_version.minor_version = minor ? std::atoi(minor) : 116;
  streams.base.struct_size = sizeof(streams);
  streams.base.type = static_cast<PJRT_Extension_Type>(3);
  streams.get_stream = &get_stream;
  streams.wait_stream = &wait_stream;
  table.extension_start = &streams.base;
  fill_objects();
  fill_programs();
  streams.base.next = &calls.base;
  fill_calls(calls, table);
  return &table;
}
