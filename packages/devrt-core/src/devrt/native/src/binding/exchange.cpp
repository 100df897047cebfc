#include "binding/exchange.hpp"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "binding/dlpack_import.hpp"
#include "client/external.hpp"

namespace devrt::native {

namespace {

constexpr const char* kExport = "__dlpack__";
constexpr const char* kImport = "buffer_from_external";
constexpr const char* kInterface = "__cuda_array_interface__";
constexpr int kInterfaceVersion = 3;

std::size_t number_of(const Device& device) { return static_cast<std::size_t>(device.local_id()); }

std::intptr_t to_handle(nb::handle value, const char* operation) {
  std::int64_t number = 0;
  if (PyBool_Check(value.ptr()) || !nb::try_cast(value, number)) {
    raise_type("stream must be None, an int, or an object with __cuda_stream__, not of type " +
                   kind_of(value) + ".",
               operation);
  }
  return static_cast<std::intptr_t>(number);
}

/// Returns the handle that an object with `__cuda_stream__` gives: version 0 and an address.
std::intptr_t handle_of_object(nb::handle object, const char* operation) {
  const nb::object given = object.attr("__cuda_stream__")();
  if (!PyTuple_Check(given.ptr()) || nb::len(given) != 2 ||
      to_int(given[0], "__cuda_stream__()[0]", operation) != 0) {
    raise_type("__cuda_stream__ of a value of type " + kind_of(object) +
                   " returned no (0, handle). Pass the handle of its stream.",
               operation);
  }
  return to_handle(given[1], operation);
}

PyObject* handle_class = nullptr;

}  // namespace

Consumer consumer_of(const Memory& memory, nb::handle stream) {
  DeviceBackend& backend = memory.client().backend();
  const std::size_t device = number_of(memory.device());
  const bool has_streams = backend.stream_handle({device, Lane::kExternal, 0}).has_value();
  if (!has_streams) {
    if (stream.is_none()) return {};
    throw nb::buffer_error(
        ("The " + platform().name + " has no streams: stream must be None.").c_str());
  }
  std::optional<std::intptr_t> number;
  Consumer consumer;
  const bool is_object = nb::hasattr(stream, "__cuda_stream__");
  if (is_object) {
    number = handle_of_object(stream, kExport);
    consumer.owner = keep_object(nb::borrow(stream));
  } else if (!stream.is_none()) {
    number = to_handle(stream, kExport);
  }
  consumer.is_unordered = number == -1;
  if (!consumer.is_unordered) {
    consumer.stream = backend.other_stream(device, number, StreamProtocol::kDlpack, is_object);
  }
  if (memory.is_host_visible()) return {};  // the host waits, whatever reads it
  return consumer;
}

void hold_until_used(Storage& storage, OtherStream& stream) noexcept {
  const ReadyEvent used = stream.record_if_there();
  try {
    storage.used_until(used);
  } catch (...) {
    (void)used.wait();  // no memory to keep it longer than this call
  }
}

nb::object stream_for_others(const Device& device) {
  constexpr const char* kOperation = "get_stream_for_external_ready_events";
  (void)device.default_memory();  // another process's device has no stream here
  device.client().check_open(kOperation);
  const auto handle = device.client().backend().stream_handle(
      {number_of(device), Lane::kExternal, execution_stream()});
  if (!handle) raise_unimplemented(kOperation, "the platform has no streams.");
  return call_python(module_attribute(handle_class, "devrt.contract", "StreamHandle"),
                     nb::int_(*handle));
}

namespace {

/// An array of another library that is taken over. Its dimensions lie in `tensor`.
struct Incoming {
  ImportedTensor tensor;
  Dims shape;
  Device* device = nullptr;
  ReadyEvent ready;
  std::shared_ptr<OtherStream> producer;  ///< waits for what is made of it, where it is known
  bool is_described = false;              ///< by an interface, in numbers
};

Device* device_of(const Client& client, nb::handle dlpack_device) {
  if (!PyTuple_Check(dlpack_device.ptr()) || nb::len(dlpack_device) != 2) return nullptr;
  const int type = to_int(dlpack_device[0], "__dlpack_device__()[0]", kImport);
  const int id = to_int(dlpack_device[1], "__dlpack_device__()[1]", kImport);
  for (const auto& device : client.local_devices()) {
    const Memory& memory = device->default_memory();
    const dlpack::Device own = memory.dlpack_device();
    if (!memory.is_host_visible() && own.type == type && own.id == id) return device.get();
  }
  return nullptr;
}

bool open_tensor(const Client& client, nb::handle value, Incoming& found) {
  if (!nb::hasattr(value, "__dlpack__") || !nb::hasattr(value, "__dlpack_device__")) return false;
  found.device = device_of(client, value.attr("__dlpack_device__")());
  if (!found.device) return false;
  // The producer has our stream wait for its work; what that stream has come to is the array's
  // event.
  const Queue queue{number_of(*found.device), Lane::kExternal, execution_stream()};
  const auto handle = client.backend().stream_handle(queue);
  open_capsule(call_dlpack(value, handle ? nb::object(nb::int_(*handle)) : nb::none()),
               found.device->default_memory().dlpack_device(), found.tensor);
  found.ready = client.backend().end_of(queue);
  return true;
}

nb::object entry(const nb::dict& interface, const char* name) {
  return interface.contains(name) ? nb::object(interface[name]) : nb::none();
}

[[noreturn]] void raise_interface(nb::handle value, const std::string& what) {
  raise_type("The __cuda_array_interface__ of a value of type " + kind_of(value) + " " + what,
             kImport);
}

void open_layout(const nb::dict& interface, nb::handle value, Incoming& found) {
  const nb::object typestr = entry(interface, "typestr");
  // Without one NumPy would take the elements for float64.
  if (!PyUnicode_Check(typestr.ptr())) raise_interface(value, "has no typestr that is text.");
  const DtypeInfo info = dtype_info(nb::module_::import_("numpy").attr("dtype")(typestr));
  if (info.swapped) raise_interface(value, "has elements in the other byte order. Convert it.");
  found.shape = to_dims(entry(interface, "shape"), "shape", kImport);
  const std::size_t size = itemsize(info.type);
  const nb::object strides = entry(interface, "strides");
  found.tensor.strides = strides.is_none() ? dense_strides(found.shape.span(), size)
                                           : to_dims(strides, "strides", kImport);
  if (found.tensor.strides.size() != found.shape.size()) {
    raise_interface(value, "has another number of strides than of dimensions.");
  }
  const nb::object data = entry(interface, "data");
  if (!PyTuple_Check(data.ptr()) || nb::len(data) != 2) raise_interface(value, "has no data.");
  std::uintptr_t address = 0;
  if (!nb::try_cast(data[0], address)) {
    raise_interface(value, "has an address that is no number of 64 bits.");
  }
  found.tensor.array = {{reinterpret_cast<const std::byte*>(address), found.shape.span(),
                         found.tensor.strides.span(), size, 1},
                        info.type};
  found.tensor.bytes = checked_bytes(found.shape.span(), size);
}

bool open_interface(const Client& client, nb::handle value, Incoming& found) {
  if (!nb::hasattr(value, kInterface)) return false;
  const nb::object given = value.attr(kInterface);
  if (!PyDict_Check(given.ptr())) raise_interface(value, "is no dict.");
  const nb::dict interface = nb::borrow<nb::dict>(given);
  const nb::object version = entry(interface, "version");
  if (!version.is_none() && !PyLong_Check(version.ptr())) {
    raise_interface(value, "has a version of type " + kind_of(version) + ", not an int.");
  }
  long number = kInterfaceVersion;
  if (!version.is_none() &&
      (!nb::try_cast(version, number) || number < 1 || number > kInterfaceVersion)) {
    raise_interface(value, "has version " + nb::cast<std::string>(nb::str(version)) +
                               ", and this client reads 1 to " + std::to_string(kInterfaceVersion) +
                               ".");
  }
  if (!entry(interface, "mask").is_none()) {
    raise_interface(value, "has a mask, which a device has none for. Fill the missing elements.");
  }
  found.is_described = true;
  open_layout(interface, value, found);
  // The interface does not say which device. An array without elements may have no address.
  const auto at = found.tensor.bytes == 0
                      ? std::optional<std::size_t>(0)
                      : client.backend().device_at(found.tensor.array.view.data);
  if (!at) return false;
  found.device = client.local_devices()[*at].get();
  found.tensor.hold = keep_object(nb::borrow(value));
  const nb::object stream = entry(interface, "stream");
  if (stream.is_none()) return true;  // it is there already, or its owner waits
  found.producer = client.backend().other_stream(*at, to_handle(stream, kImport),
                                                 StreamProtocol::kArrayInterface, true);
  if (found.producer) found.ready = found.producer->record();
  return true;
}

}  // namespace

nb::object buffer_from_external(Client& self, nb::handle value, nb::handle copy) {
  self.check_open(kImport);
  Copy wanted = Copy::kWhereNeeded;
  if (!copy.is_none()) wanted = to_bool(copy, "copy", kImport) ? Copy::kAlways : Copy::kNever;
  Incoming found;
  if (!open_tensor(self, value, found) && !open_interface(self, value, found)) return nb::none();
  External source{found.tensor.array, found.ready, std::move(found.tensor.hold), wanted,
                  found.is_described};
  Memory& memory = found.device->default_memory();
  return wrap(self.take_over(memory, std::move(source), execution_stream()));
}

[[noreturn]] static void raise_no_interface(const char* why) {
  throw StatusError(Status(StatusCode::kUnimplemented, std::string(kInterface) + " failed: " + why)
                        .because(Reason::kInterface)
                        .during(kInterface));
}

nb::object array_interface(const BufferHandle& self) {
  const Buffer& buffer = *self.state;
  const Memory& memory = *buffer.memory();
  const Ref<Storage> storage = memory.client().storage_of(buffer, kInterface);
  if (!memory.is_for_kernels()) {
    raise_no_interface("the buffer lies in memory of the host. Use numpy.asarray.");
  }
  if (*info(buffer.type()).format == '\0') {
    raise_no_interface("it has no name for the buffer's dtype. Use DLPack, or convert it.");
  }
  nb::object stream = nb::none();
  if (buffer.ready().is_ready()) {
    raise_if_error(buffer.ready().error());
  } else {
    const Queue queue{number_of(memory.device()), Lane::kExternal, execution_stream()};
    DeviceBackend& backend = memory.client().backend();
    const auto handle = backend.stream_handle(queue);
    Dependencies dependencies;  // nobody would tell the other library of their failure
    backend.add_dependencies(queue.device, buffer.ready(), dependencies);
    if (handle && dependencies.empty() && backend.wait(queue, buffer.ready())) {
      stream = nb::int_(*handle);
    } else {
      await(buffer);
    }
  }
  nb::dict found;
  found["shape"] = to_tuple(buffer.shape().span());
  found["typestr"] = numpy_dtype(buffer.type()).attr("str");
  const auto address = storage->bytes() > 0 ? reinterpret_cast<std::uintptr_t>(storage->data()) : 0;
  found["data"] = nb::make_tuple(address, true);
  const Dims strides =
      ordered_strides(buffer.shape().span(), itemsize(buffer.type()), buffer.order());
  found["strides"] = buffer.order().empty() ? nb::none() : to_tuple(strides.span());
  found["stream"] = stream;
  found["version"] = kInterfaceVersion;
  return found;
}

}  // namespace devrt::native
