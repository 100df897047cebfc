// The Python class of clients.
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "binding/exchange.hpp"
#include "binding/host_value.hpp"
#include "binding/python.hpp"
#include "binding/signals.hpp"
#include "client/release_queue.hpp"
#include "execution/custom_calls.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

nb::object buffer_from_pyval(Client& self, nb::handle argument, nb::handle device,
                             nb::handle force_copy, nb::handle semantics, nb::handle layout) {
  drain_release_queue();
  self.check_open("buffer_from_pyval");
  PutOptions options = to_put_options(semantics, "buffer_from_pyval");
  options.force_copy = to_bool(force_copy, "force_copy", "buffer_from_pyval");
  Memory& memory = resolve_memory(self, device, "buffer_from_pyval");
  HostValue value(argument, options.semantics != Semantics::kOnlyDuringCall);
  Dims order;
  if (!layout.is_none()) {
    order = to_storage_order(layout, value.array().type, value.array().view.shape.size());
    options.order = order.span();
  }
  Ref<Buffer> buffer;
  if (value.bytes() <= kInlineCopyBytes) {
    buffer = self.put(memory, value.array(), value.hold(), options);
  } else {
    options.stream = execution_stream();
    GilRelease released;
    buffer = self.put(memory, value.array(), value.hold(), options);
  }
  return wrap(std::move(buffer));
}

[[noreturn]] void raise_no_dims(nb::handle sequence, const char* what, const char* operation) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
  PyErr_Clear();
  raise_type(
      std::string(what) + " must be a sequence of integers, not of type " + kind_of(sequence) + ".",
      operation);
}

}  // namespace

PutOptions to_put_options(nb::handle semantics, const char* operation) {
  const int value = to_int(semantics, "host_buffer_semantics", operation);
  if (value < 0 || value > 3) {
    raise_invalid("host_buffer_semantics must be 0, 1, 2 or 3, not " + std::to_string(value) +
                      ". See devrt.contract.HostBufferSemantics.",
                  operation);
  }
  return {.semantics = static_cast<Semantics>(value)};
}

Dims to_dims(nb::handle sequence, const char* what, const char* operation) {
  const Py_ssize_t size = PyObject_Size(sequence.ptr());
  if (size < 0) raise_no_dims(sequence, what, operation);
  Dims dims(static_cast<std::size_t>(size));
  const bool is_tuple = PyTuple_CheckExact(sequence.ptr());
  for (Py_ssize_t i = 0; i < size; ++i) {
    nb::object item = is_tuple ? nb::borrow(PyTuple_GetItem(sequence.ptr(), i))
                               : nb::steal(PySequence_GetItem(sequence.ptr(), i));
    if (!item.is_valid()) raise_no_dims(sequence, what, operation);
    const long long value = PyLong_AsLongLong(item.ptr());
    if (value == -1 && PyErr_Occurred()) {
      const bool is_number = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
      PyErr_Clear();
      const std::string message = std::string(what) + " must hold integers of at most 64 bits";
      if (is_number) raise_invalid(message + ".", operation);
      raise_type(message + ", not a value of type " + kind_of(item) + ".", operation);
    }
    dims[static_cast<std::size_t>(i)] = value;
  }
  return dims;
}

namespace {

/// Reads the targets and offsets of a batch.
std::vector<Block> to_blocks(Client& client, nb::handle devices, nb::handle offsets) {
  constexpr const char* kOperation = "batched_buffer_from_pyval";
  const std::vector<nb::object> targets = to_items(devices, "devices", kOperation);
  const std::vector<nb::object> starts = to_items(offsets, "offsets", kOperation);
  if (targets.size() != starts.size()) {
    raise_invalid("devices and offsets must be of the same length.", kOperation);
  }
  std::vector<Block> blocks;
  blocks.reserve(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Memory& memory = resolve_memory(client, targets[i], kOperation);
    blocks.push_back({&memory, to_dims(starts[i], "An offset", kOperation)});
  }
  return blocks;
}

nb::object batched_buffer_from_pyval(Client& self, nb::handle argument, nb::handle devices,
                                     nb::handle offsets, nb::handle shape, nb::handle semantics) {
  drain_release_queue();
  self.check_open("batched_buffer_from_pyval");
  PutOptions options = to_put_options(semantics, "batched_buffer_from_pyval");
  const std::vector<Block> blocks = to_blocks(self, devices, offsets);
  const Dims extents = to_dims(shape, "A shape", "batched_buffer_from_pyval");
  HostValue value(argument, options.semantics != Semantics::kOnlyDuringCall);
  const std::size_t block_bytes = checked_bytes(extents.span(), value.array().view.itemsize);
  std::vector<Ref<Buffer>> buffers;
  const auto put = [&] {
    buffers = self.put_blocks(value.array(), blocks, extents.span(), value.hold(), options);
  };
  if (block_bytes <= kInlineCopyBytes / std::max<std::size_t>(blocks.size(), 1)) {
    put();
  } else {
    options.stream = execution_stream();
    GilRelease released;
    put();
  }
  return wrap_all(std::move(buffers));
}

nb::list to_list(std::span<const std::unique_ptr<Device>> devices) {
  nb::list list;
  for (const auto& device : devices) list.append(device->shared());
  return list;
}

std::shared_ptr<Device> device_from_local_hardware_id(const Client& client, nb::handle number) {
  const int id = to_int(number, "local_hardware_id", "device_from_local_hardware_id");
  for (const auto& device : client.local_devices()) {
    if (device->facts().local_hardware_id == id) return device->shared();
  }
  raise_invalid("There is no local device with hardware id " + std::to_string(id) +
                    ". Use an id below " + std::to_string(client.local_devices().size()) + ".",
                "device_from_local_hardware_id");
}

/// Throws where a close would wait for the function that it is called from.
void check_may_close(const Client& client) {
  if (client.is_closed() || !is_in_program()) return;
  throw StatusError(Status(StatusCode::kFailedPrecondition,
                           "close failed: it was called from a function that one of the client's "
                           "programs runs, and would wait for that function to return. Close the "
                           "client after the program.")
                        .during("close"));
}

void close_client(Client& client, nb::handle cancel) {
  const bool is_cancelled = to_bool(cancel, "cancel", "close");
  check_may_close(client);
  const auto how = is_cancelled ? WorkQueue::OnClose::kCancel : WorkQueue::OnClose::kDrain;
  DrainScope drain;
  call_apart([how, closed = client.shared()] { closed->close(how); }, Waiting::kEnd);
  static PyObject* forget_function = nullptr;
  (void)call_python(module_attribute(forget_function, "devrt._support.caches", "forget_closed"));
}

nb::object distributed_client(const Client& client) {
  if (!client.attached()) return nb::none();
  return nb::borrow(static_cast<PyObject*>(client.attached()));
}

// A user's distributed client may well refer to the client, if only through its class and the
// globals of the module that both are in: the garbage collector has to see that. What buffers,
// devices or executables own as well is not the Python object's to show or to clear: they may be
// in use, and the collector does not see them. The exit handler releases those.
Client* only_owned(PyObject* self) {
  if (!nb::inst_ready(self)) return nullptr;
  Client* client = nb::inst_ptr<Client>(self);
  return client->owners() == 1 ? client : nullptr;
}

int traverse_client(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (Client* client = only_owned(self)) Py_VISIT(static_cast<PyObject*>(client->attached()));
  return 0;
}

int clear_client(PyObject* self) {
  if (Client* client = only_owned(self)) client->attach(nullptr, {});
  drain_release_queue();
  return 0;
}

PyType_Slot client_slots[] = {{Py_tp_new, reinterpret_cast<void*>(&refuse_new)},
                              {Py_tp_traverse, reinterpret_cast<void*>(&traverse_client)},
                              {Py_tp_clear, reinterpret_cast<void*>(&clear_client)},
                              {0, nullptr}};

PyObject* topology_function = nullptr;

nb::object topology_of(nb::handle_t<Client> client) {
  const nb::handle describe =
      module_attribute(topology_function, "devrt.topology", "describe_devices");
  return call_python(describe, to_list(nb::inst_ptr<Client>(client)->devices()));
}

PyObject* version_function = nullptr;

nb::object full_version(nb::handle_t<Client> client) {
  const nb::handle of =
      module_attribute(version_function, "devrt.native.engines", "platform_version");
  return call_python(of, client, nb::str(platform_version()));
}

void bind_client_facts(nb::class_<Client>& cls) {
  cls.def_prop_ro("platform", [](const Client&) { return nb::str(platform().name.c_str()); })
      .def_prop_ro("platform_version", &full_version, nb::sig("def platform_version(self) -> str"),
                   "The versions of " DEVRT_DISTRIBUTION
                   " and of the compiler, which is not opened for it.")
      .def_prop_ro("runtime_type", [](const Client&) { return nb::str("native"); })
      .def("process_index", &Client::process_index)
      .def("host_id", &Client::process_index)
      .def("task_id", &Client::process_index)
      .def(
          "devices", [](const Client& c) { return to_list(c.devices()); },
          nb::sig("def devices(self) -> list[" DEVRT_CLASS_PREFIX "Device]"),
          "Return every device of every process, ordered by id.")
      .def(
          "_get_all_devices", [](const Client& c) { return to_list(c.devices()); },
          nb::sig("def _get_all_devices(self) -> list[" DEVRT_CLASS_PREFIX "Device]"))
      .def(
          "local_devices", [](const Client& c) { return to_list(c.local_devices()); },
          nb::sig("def local_devices(self) -> list[" DEVRT_CLASS_PREFIX "Device]"),
          "Return the devices that this process addresses, ordered by id.")
      .def("device_count", [](const Client& c) { return c.devices().size(); })
      .def("local_device_count", [](const Client& c) { return c.local_devices().size(); })
      .def("device_from_local_hardware_id", &device_from_local_hardware_id,
           "local_hardware_id"_a.none(),
           nb::sig("def device_from_local_hardware_id(self, local_hardware_id: int) "
                   "-> " DEVRT_CLASS_PREFIX "Device"))
      .def("get_default_layout", &default_layout, "dtype"_a.none(), "shape"_a.none(),
           "device"_a = nb::none(),
           nb::sig("def get_default_layout(self, dtype: typing.Any, shape: "
                   "collections.abc.Sequence[int], device: " DEVRT_CLASS_PREFIX
                   "Device | " DEVRT_CLASS_PREFIX "Memory | None = None) -> "
                   "typing.Any"),
           "Return the layout of a buffer for which none is requested: row-major, no tiles.")
      .def_prop_ro("distributed_client", &distributed_client,
                   nb::sig("def distributed_client(self) -> typing.Any"),
                   "The connection to the cluster that the client was made with, or None.")
      .def("__repr__", [](const Client& c) {
        return nb::str((DEVRT_CLASS_PREFIX "Client(devices=" + std::to_string(c.devices().size()) +
                        (c.is_closed() ? ", closed)" : ")"))
                           .c_str());
      });
}

void bind_client_life(nb::class_<Client>& cls) {
  cls.def("close", &close_client, nb::kw_only(), "cancel"_a.none() = false,
          nb::sig("def close(self, *, cancel: bool = False) -> None"),
          "Wait for the work in flight, delete every buffer and give all memory back. "
          "Idempotent.\n\n"
          "With `cancel`, work that has not started is dropped: its waiters already get an "
          "error of code CANCELLED.")
      .def_prop_ro("is_closed", &Client::is_closed)
      .def(
          "__enter__", [](nb::handle_t<Client> self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> " DEVRT_CLASS_PREFIX "Client"))
      .def(
          "__exit__",
          [](Client& self, const nb::args&) { close_client(self, nb::borrow(Py_False)); },
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def("defragment", &Client::defragment, nb::call_guard<GilRelease>(),
           "Give the memory of freed buffers that is kept for the next ones back to the system.\n\n"
           "Waits for what is in flight, whose end frees what was deleted meanwhile.")
      .def(
          "live_buffers", [](Client& c) { return live_buffers(c, nullptr); },
          nb::sig("def live_buffers(self) -> list[" DEVRT_CLASS_PREFIX "Buffer]"),
          "Return the buffers that are neither deleted nor collected, oldest first.")
      .def(
          "live_arrays", [](Client& c) { return live_buffers(c, nullptr); },
          nb::sig("def live_arrays(self) -> list[" DEVRT_CLASS_PREFIX "Buffer]"),
          "Return `live_buffers` under jaxlib's name.")
      .def(
          "live_executables", [](const Client& c) { return live_executables(c); },
          nb::sig("def live_executables(self) -> list[" DEVRT_CLASS_PREFIX "LoadedExecutable]"),
          "Return the executables that are neither deleted nor collected, oldest first.")
      .def(
          "engine_stats", [](const Client& c) { return engine_stats(c); },
          nb::sig("def engine_stats(self) -> dict[str, int]"),
          "Return how many executions there were, and how many buffers the compiler's runtime was "
          "shown as they are (views) or copied for it (copies, bytes_copied).")
      .def("heap_profile", &heap_profile, nb::sig("def heap_profile(self) -> bytes"),
           "Return the live buffers as a gzipped pprof profile.")
      .def("topology", &topology_of, nb::sig("def topology(self) -> typing.Any"),
           "Return a description of all devices, those of other processes too.");
}

void bind_client_class(nb::module_& module) {
  nb::class_<Client> cls(module, DEVRT_CLASS_PREFIX "Client", nb::is_final(),
                         nb::is_weak_referenceable(), nb::type_slots(client_slots),
                         "A live connection to a platform's devices.");
  types.client = cls;
  cls.def(
         "buffer_from_pyval", &buffer_from_pyval, "argument"_a.none(), "device"_a = nb::none(),
         "force_copy"_a.none() = false, "host_buffer_semantics"_a.none() = 0,
         "layout"_a = nb::none(),
         nb::sig("def buffer_from_pyval(self, argument: typing.Any, device: " DEVRT_CLASS_PREFIX
                 "Device | " DEVRT_CLASS_PREFIX "Memory "
                 "| None = None, force_copy: bool = False, host_buffer_semantics: int = 0, layout: "
                 "typing.Any = None) -> " DEVRT_CLASS_PREFIX "Buffer"),
         "Start the transfer of a host value to a device or memory.\n\n"
         "The elements lie in row-major order, or in that of `layout`, a Layout or PjRtLayout.")
      .def("buffer_from_external", &buffer_from_external, "value"_a, "copy"_a = nb::none(),
           nb::sig("def buffer_from_external(self, value: typing.Any, copy: bool | None = None) "
                   "-> " DEVRT_CLASS_PREFIX "Buffer | None"),
           "Take over an array of another library that lies on a device of this client.")
      .def("batched_buffer_from_pyval", &batched_buffer_from_pyval, "argument"_a.none(),
           "devices"_a.none(), "offsets"_a.none(), "shape"_a.none(),
           "host_buffer_semantics"_a.none() = 0,
           nb::sig("def batched_buffer_from_pyval(self, argument: typing.Any, devices: "
                   "collections.abc.Sequence[" DEVRT_CLASS_PREFIX "Device | " DEVRT_CLASS_PREFIX
                   "Memory], offsets: "
                   "collections.abc.Sequence[tuple[int, ...]], shape: tuple[int, ...], "
                   "host_buffer_semantics: int = 0) -> list[" DEVRT_CLASS_PREFIX "Buffer]"),
           "Start the transfer of one block of a host array to each of several targets.");
  bind_client_facts(cls);
  bind_client_life(cls);
}

}  // namespace

void bind_client(nb::module_& module) { bind_client_class(module); }

}  // namespace devrt::native
