// Clients of the simulated plugin, and what shows or takes memory of others.
#include <algorithm>
#include <string_view>

#include "gpu_simulator/kernel_run.hpp"
#include "gpu_simulator/plugin/objects.hpp"

namespace devrt::gpu_simulator::plugin {

namespace {

struct Options {
  std::vector<std::int64_t> devices;
  std::string allocator;  // as XLA's plugin calls it
};

Options read_options(const PJRT_Client_Create_Args& args) {
  Options options;
  for (std::size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& option = args.create_options[i];
    const std::string_view name(option.name, option.name_size);
    if (name == "visible_devices") {
      options.devices.assign(option.int64_array_value,
                             option.int64_array_value + option.value_size);
    }
    if (name == "allocator") {
      options.allocator = std::string(option.string_value, option.value_size);
    }
  }
  return options;
}

/// Takes memory from the device's pool, which is to keep nothing from then on, as XLA's plugin has
/// it; or from one of its own, where devices have any; or each block from the driver.
void find_pool(Machine& machine, PJRT_Device& device, std::string_view allocator) {
  if (!machine.settings().pools || allocator == "platform") return;
  device.owns_pool = allocator == "bfc";
  if (device.owns_pool) {
    device.pool = machine.make_pool(device.number);
    return;
  }
  device.pool = machine.default_pool(device.number);
  machine.with_pool(device.pool, [](Pool& pool) { pool.threshold = 0; });
}

void start(PJRT_Device& device, std::string_view allocator) {
  call_driver("PJRT_Client_Create", [&](Machine& machine, const Call&) {
    machine.retain(device.number);
    const OnDevice current(machine, device.number);
    device.external = machine.make_stream(false);
    device.compute = machine.make_stream(false);
    find_pool(machine, device, allocator);
  });
}

/// Returns how a test wants the devices listed.
std::string listing() {
  std::string found;
  call_driver("PJRT_Client_AddressableDevices",
              [&](Machine& machine, const Call&) { found = machine.settings().plugin_devices; });
  return found;
}

void create(PJRT_Client_Create_Args& args) {
  Options options = read_options(args);
  if (listing() == "reversed") std::ranges::reverse(options.devices);
  auto client = std::make_unique<PJRT_Client>();
  const std::vector<pjrt::Option> given = {
      {"cpu_device_count", static_cast<std::int64_t>(options.devices.size())}};
  client->compiler = pjrt::Client::make(compiler(), given);
  client->endings = std::make_unique<pjrt::ReleaseQueue>();
  client->devices.resize(options.devices.size());
  for (std::size_t i = 0; i < client->devices.size(); ++i) {
    PJRT_Device& device = client->devices[i];
    device.client = client.get();
    device.description.id = static_cast<int>(i);
    device.number = static_cast<int>(options.devices[i]);
    start(device, options.allocator);
    client->pointers.push_back(&device);
  }
  args.client = client.release();
}

void drain(const PJRT_Client& client) noexcept {
  for (const PJRT_Device& device : client.devices) {
    try_driver("PJRT_Client_Destroy", device.number, [&](Machine& machine, const Call& call) {
      machine.synchronize_stream(call, device.compute);
      machine.synchronize_stream(call, device.external);
    });
  }
}

void destroy(PJRT_Client* client) noexcept {
  drain(*client);
  client->endings.reset();  // says what has ended, and frees what that kept
  drain(*client);
  for (const PJRT_Device& device : client->devices) {
    try_driver("PJRT_Client_Destroy", device.number, [&](Machine& machine, const Call& call) {
      machine.destroy_stream(call, device.compute);
      machine.destroy_stream(call, device.external);
      if (device.owns_pool) machine.destroy_pool(device.pool);
    });
    try_driver("PJRT_Client_Destroy", device.number,
               [&](Machine& machine, const Call& call) { machine.release(call, device.number); });
  }
  delete client;
}

PJRT_Buffer* make_buffer(PJRT_Buffer_Type type, const std::int64_t* dims, std::size_t rank) {
  auto buffer = std::make_unique<PJRT_Buffer>();
  buffer->type = static_cast<ElementType>(type);
  buffer->dims = Dims(std::span(dims, rank));
  buffer->size = checked_bytes(buffer->dims.span(), itemsize(buffer->type));
  return buffer.release();
}

void view(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  const PJRT_Device& device = *args.device;
  if (args.stream && static_cast<Handle>(args.stream) != device.external) {
    throw StatusError(Status(StatusCode::kNotFound, "the stream is none of the plugin's"));
  }
  std::unique_ptr<PJRT_Buffer> buffer(make_buffer(args.element_type, args.dims, args.num_dims));
  if (args.stream) buffer->filled = std::make_shared<Mark>(device, device.external);
  buffer->bytes = std::make_shared<Bytes>(device, args.device_buffer_ptr, args.on_delete_callback,
                                          args.on_delete_callback_arg);
  args.buffer = buffer.release();
}

/// Copies memory of the host's, which the caller may change when this has returned.
void put(PJRT_Client_BufferFromHostBuffer_Args& args) {
  const PJRT_Device& device = *args.device;
  if (args.host_buffer_semantics != PJRT_HostBufferSemantics_kImmutableOnlyDuringCall ||
      args.num_byte_strides) {
    throw StatusError(
        Status(StatusCode::kUnimplemented, "the simulated plugin copies dense memory"));
  }
  std::unique_ptr<PJRT_Buffer> buffer(make_buffer(args.type, args.dims, args.num_dims));
  buffer->bytes = std::make_shared<Bytes>(device, buffer->size);
  const auto* from = static_cast<const std::byte*>(args.data);
  const auto write = [to = buffer->bytes, staged = std::vector(from, from + buffer->size)](
                         Code code, KernelRun& memory) {
    if (code == Code::kSuccess && !staged.empty()) {
      memory.write(to->address(), staged.data(), staged.size());
    }
  };
  call_driver(
      "PJRT_Client_BufferFromHostBuffer", device.number,
      [&](Machine& machine, const Call& call) { machine.run(call, device.compute, write); });
  buffer->filled = std::make_shared<Mark>(device, device.compute);
  auto copied = std::make_shared<Work>();
  copied->end({});
  args.done_with_host_buffer = new PJRT_Event{std::move(copied)};
  args.buffer = buffer.release();
}

}  // namespace

void fill_clients(PJRT_Api& table) {
  table.PJRT_Client_Create = [](PJRT_Client_Create_Args* args) {
    return guard([&] { create(*args); });
  };
  table.PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args* args) -> PJRT_Error* {
    destroy(args->client);
    return nullptr;
  };
  table.PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args* args) -> PJRT_Error* {
    args->platform_name = platform_name().data();
    args->platform_name_size = platform_name().size();
    return nullptr;
  };
  table.PJRT_Client_AddressableDevices =
      [](PJRT_Client_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->client->pointers.data();
    args->num_addressable_devices = args->client->pointers.size();
    return nullptr;
  };
  table.PJRT_Device_LocalHardwareId = [](PJRT_Device_LocalHardwareId_Args* args) -> PJRT_Error* {
    constexpr int kOther = 1 << 20;
    args->local_hardware_id = args->device->number + (listing() == "others" ? kOther : 0);
    return nullptr;
  };
  table.PJRT_Device_GetDescription = [](PJRT_Device_GetDescription_Args* args) -> PJRT_Error* {
    args->device_description = &args->device->description;
    return nullptr;
  };
  table.PJRT_DeviceDescription_Id = [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = args->device_description->id;
    return nullptr;
  };
  table.PJRT_Client_CreateViewOfDeviceBuffer = [](PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
    return guard([&] { view(*args); });
  };
  table.PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    return guard([&] { put(*args); });
  };
}

}  // namespace devrt::gpu_simulator::plugin
