// The Python classes of clients, devices and memories.
#include <string>
#include <vector>

#include "graveyard.hpp"
#include "host_value.hpp"
#include "python.hpp"

namespace devrt::cpu {

using namespace nb::literals;

namespace {

[[noreturn]] void raise_foreign(nb::handle target, const char* operation) {
  nb::str text = nb::str(target);
  raise_invalid(std::string(operation) + " failed: " + text.c_str() +
                    " belongs to another client. Use a device or memory of this client.",
                operation);
}

/// A Python object that native code keeps: let go in the graveyard.
struct ObjectGrave : Grave {
  explicit ObjectGrave(nb::object kept) noexcept
      : Grave(&ObjectGrave::release), object(std::move(kept)) {}
  static void release(Grave* node) { delete static_cast<ObjectGrave*>(node); }
  nb::object object;
};

PutOptions put_options(int semantics, bool force_copy) {
  if (semantics < 0 || semantics > 3) {
    raise_invalid("host_buffer_semantics must be 0, 1, 2 or 3, not " + std::to_string(semantics) +
                      ". See devrt.contract.HostBufferSemantics.",
                  "buffer_from_pyval");
  }
  return {static_cast<Semantics>(semantics), force_copy};
}

nb::object buffer_from_pyval(Client& self, nb::handle argument, nb::handle device, bool force_copy,
                             int semantics) {
  drain_graveyard();
  self.check_open("buffer_from_pyval");
  const PutOptions options = put_options(semantics, force_copy);
  Memory& memory = resolve_memory(self, device, "buffer_from_pyval");
  HostValue value(argument, options.semantics != Semantics::kOnlyDuringCall);
  Ref<Buffer> buffer;
  if (value.bytes() <= kInlineCopyBytes) {
    buffer = self.put(memory, value.array(), value.hold(), options);
  } else {
    nb::gil_scoped_release released;
    buffer = self.put(memory, value.array(), value.hold(), options);
  }
  return wrap(std::move(buffer));
}

Dims to_dims(nb::handle sequence, const char* what) {
  const Py_ssize_t size = PyObject_Size(sequence.ptr());
  if (size < 0) throw nb::python_error();
  Dims dims(static_cast<std::size_t>(size));
  const bool is_tuple = PyTuple_CheckExact(sequence.ptr());
  for (Py_ssize_t i = 0; i < size; ++i) {
    nb::object item = is_tuple ? nb::borrow(PyTuple_GetItem(sequence.ptr(), i))
                               : nb::steal(PySequence_GetItem(sequence.ptr(), i));
    if (!item.is_valid()) throw nb::python_error();
    const long long value = PyLong_AsLongLong(item.ptr());
    if (value == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      raise_invalid(std::string(what) + " must hold integers of at most 64 bits.",
                    "batched_buffer_from_pyval");
    }
    dims[static_cast<std::size_t>(i)] = value;
  }
  return dims;
}

/// Reads the targets and offsets of a batch.
std::vector<Block> to_blocks(Client& client, nb::handle devices, nb::handle offsets) {
  nb::object targets = nb::steal(PySequence_Fast(devices.ptr(), "devices must be a sequence"));
  if (!targets.is_valid()) throw nb::python_error();
  nb::object starts = nb::steal(PySequence_Fast(offsets.ptr(), "offsets must be a sequence"));
  if (!starts.is_valid()) throw nb::python_error();
  const Py_ssize_t count = PyObject_Size(targets.ptr());
  if (count != PyObject_Size(starts.ptr())) {
    raise_invalid("devices and offsets must be of the same length.", "batched_buffer_from_pyval");
  }
  std::vector<Block> blocks;
  blocks.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    nb::object target = nb::steal(PySequence_GetItem(targets.ptr(), i));
    nb::object start = nb::steal(PySequence_GetItem(starts.ptr(), i));
    if (!target.is_valid() || !start.is_valid()) throw nb::python_error();
    Memory& memory = resolve_memory(client, target, "batched_buffer_from_pyval");
    blocks.push_back({&memory, to_dims(start, "An offset")});
  }
  return blocks;
}

nb::object batched_buffer_from_pyval(Client& self, nb::handle argument, nb::handle devices,
                                     nb::handle offsets, nb::handle shape, int semantics) {
  drain_graveyard();
  self.check_open("batched_buffer_from_pyval");
  const PutOptions options = put_options(semantics, false);
  const std::vector<Block> blocks = to_blocks(self, devices, offsets);
  const Dims extents = to_dims(shape, "A shape");
  HostValue value(argument, options.semantics != Semantics::kOnlyDuringCall);
  const std::size_t block_bytes = checked_bytes(extents.span(), value.array().view.itemsize);
  std::vector<Ref<Buffer>> buffers;
  const auto put = [&] {
    buffers = self.put_blocks(value.array(), blocks, extents.span(), value.hold(), options);
  };
  if (block_bytes <= kInlineCopyBytes / std::max<std::size_t>(blocks.size(), 1)) {
    put();
  } else {
    nb::gil_scoped_release released;
    put();
  }
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(buffers.size())));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    nb::object handle = wrap(std::move(buffers[i]));
    if (PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), handle.release().ptr()) != 0) {
      throw nb::python_error();
    }
  }
  return list;
}

/// Returns the live buffers, of one device if it is given.
nb::list live_buffers(Client& client, const Device* device) {
  drain_graveyard();
  nb::list found;
  if (client.is_closed()) return found;
  client.check_open("live_buffers");
  for (Ref<Buffer>& buffer : client.registry().snapshot()) {
    if (!device || &buffer->memory()->device() == device) found.append(wrap(std::move(buffer)));
  }
  return found;
}

nb::dict to_dict(const MemorySnapshot& snapshot) {
  nb::dict stats;
  for (const auto& [key, value] : snapshot.items()) stats[key] = value;
  return stats;
}

nb::dict memory_stats(const Memory& memory) {
  nb::dict stats = to_dict(memory.stats().snapshot());
  if (const PageLockedAllocator* pages = memory.page_locked()) {
    stats["bytes_page_locked"] = pages->locked_bytes();
    stats["bytes_not_page_locked"] = pages->unlocked_bytes();
  }
  return stats;
}

nb::list to_list(std::span<const std::unique_ptr<Device>> devices) {
  nb::list list;
  for (const auto& device : devices) list.append(device->shared());
  return list;
}

[[noreturn]] void raise_unimplemented(const char* operation, const char* why) {
  throw StatusError(Status(StatusCode::kUnimplemented,
                           std::string(operation) + " is not offered by the cpu client: " + why)
                        .during(operation));
}

std::shared_ptr<Device> device_from_local_hardware_id(const Client& client, int id) {
  for (const auto& device : client.local_devices()) {
    if (device->local_id() == id) return device->shared();
  }
  raise_invalid("There is no local device with hardware id " + std::to_string(id) +
                    ". Use an id below " + std::to_string(client.local_devices().size()) + ".",
                "device_from_local_hardware_id");
}

void close_client(Client& client) {
  DrainScope drain;
  nb::gil_scoped_release released;
  client.close();
}

bool is_builtin_kind(const std::string& kind) {
  return kind == "device" || kind == "pinned_host" || kind == "unpinned_host";
}

std::shared_ptr<HostAllocator> foreign_allocator(nb::object capsule) {
  auto* table = static_cast<const devrt_host_allocator*>(
      PyCapsule_GetPointer(capsule.ptr(), DEVRT_HOST_ALLOCATOR_CAPSULE));
  if (!table) throw nb::python_error();
  return std::make_shared<ForeignAllocator>(table,
                                            grave_owner(new ObjectGrave(std::move(capsule))));
}

std::vector<AddedKind> to_added_kinds(nb::handle memory_kinds) {
  std::vector<AddedKind> added;
  for (nb::handle record : memory_kinds) {
    std::string kind = nb::str(record.attr("kind")).c_str();
    nb::object allocator = record.attr("allocator");
    if (is_builtin_kind(kind) && allocator.is_none()) continue;
    bool known = is_builtin_kind(kind);
    for (const AddedKind& other : added) known = known || other.kind == kind;
    if (known || allocator.is_none()) {
      raise_invalid("The memory kind '" + kind + "' " +
                        (known ? "is there already and cannot be added again."
                               : "is unknown to the cpu client and brings no allocator: set "
                                 "MemoryKind.allocator to a function that returns a "
                                 "'" DEVRT_HOST_ALLOCATOR_CAPSULE "' capsule."),
                    "make_cpu_client");
    }
    added.push_back({std::move(kind), foreign_allocator(allocator())});
  }
  return added;
}

std::shared_ptr<Client> make_cpu_client(bool asynchronous, int num_devices, int node_id,
                                        int num_nodes, nb::handle memory_kinds) {
  ClientOptions options;
  options.asynchronous = asynchronous;
  options.num_devices = num_devices;
  options.node_id = node_id;
  options.num_nodes = num_nodes;
  options.added_kinds = to_added_kinds(memory_kinds);
  return Client::make(std::move(options));
}

void bind_memory(nb::module_& module) {
  nb::class_<Memory> cls(module, "CpuMemory", nb::is_final(), nb::is_weak_referenceable(),
                         "One address space of one CPU device.");
  types.memory = cls;
  cls.def_prop_ro("kind", [](const Memory& m) { return nb::str(m.kind().c_str()); })
      .def_prop_ro("platform", [](const Memory&) { return nb::str("cpu"); })
      .def_prop_ro("process_index", [](const Memory& m) { return m.device().process_index(); })
      .def(
          "addressable_by_devices",
          [](const Memory& m) {
            nb::list devices;
            devices.append(m.device().shared());
            return devices;
          },
          nb::sig("def addressable_by_devices(self) -> list[CpuDevice]"))
      .def("memory_stats", &memory_stats, nb::sig("def memory_stats(self) -> dict[str, int]"),
           "Return this memory's own counters, keyed as `CpuDevice.memory_stats`.")
      .def("__repr__",
           [](const Memory& m) {
             return nb::str(
                 ("CpuMemory(device=" + m.device().name() + ", kind=" + m.kind() + ")").c_str());
           })
      .def("__str__",
           [](const Memory& m) { return nb::str((m.device().name() + ":" + m.kind()).c_str()); });
}

void bind_device_facts(nb::class_<Device>& cls) {
  cls.def_prop_ro("id", &Device::id)
      .def_prop_ro("process_index", &Device::process_index)
      .def_prop_ro("host_id", &Device::process_index)
      .def_prop_ro("task_id", &Device::process_index)
      .def_prop_ro("local_hardware_id", &Device::local_id)
      .def_prop_ro("platform", [](const Device&) { return nb::str("cpu"); })
      .def_prop_ro("device_kind", [](const Device&) { return nb::str("cpu"); })
      .def_prop_ro("client", [](const Device& d) { return d.client().shared(); })
      .def(
          "__call__", [](nb::handle_t<Device> self) { return nb::borrow(self); },
          nb::sig("def __call__(self) -> CpuDevice"),
          "Return the device itself, so that ``buffer.device()`` works too.")
      .def("__repr__",
           [](const Device& d) {
             return nb::str(("CpuDevice(id=" + std::to_string(d.id()) + ")").c_str());
           })
      .def("__str__", [](const Device& d) { return nb::str(d.name().c_str()); });
}

void bind_device(nb::module_& module) {
  nb::class_<Device> cls(module, "CpuDevice", nb::is_final(), nb::is_weak_referenceable(),
                         "One virtual CPU device.");
  types.device = cls;
  bind_device_facts(cls);
  cls.def(
         "memory", [](const Device& d, const char* kind) { return d.memory(kind).shared(); },
         "kind"_a, "Return the memory of a kind; the error lists those that there are.")
      .def(
          "default_memory", [](const Device& d) { return d.default_memory().shared(); },
          "Return the memory that buffers go to when none is named.")
      .def(
          "addressable_memories",
          [](const Device& d) {
            nb::list memories;
            for (const auto& memory : d.memories()) memories.append(memory->shared());
            return memories;
          },
          nb::sig("def addressable_memories(self) -> list[CpuMemory]"),
          "Return every memory of the device, the default one first.")
      .def(
          "live_buffers", [](const Device& d) { return live_buffers(d.client(), &d); },
          nb::sig("def live_buffers(self) -> list[CpuBuffer]"),
          "Return the buffers on this device that are neither deleted nor collected.")
      .def(
          "memory_stats",
          [](const Device& d) {
            (void)d.default_memory();  // another process's device has no counters here
            return to_dict(d.stats()->snapshot());
          },
          nb::sig("def memory_stats(self) -> dict[str, int]"),
          "Return counts and bytes over the device's memories, keyed as JAX keys them.")
      .def("get_stream_for_external_ready_events", [](const Device&) -> int {
        raise_unimplemented("get_stream_for_external_ready_events", "the platform has no streams.");
      });
}

void bind_client_facts(nb::class_<Client>& cls) {
  cls.def_prop_ro("platform", [](const Client&) { return nb::str("cpu"); })
      .def_prop_ro("platform_version", [](const Client&) { return nb::str(platform_version()); })
      .def_prop_ro("runtime_type", [](const Client&) { return nb::str("native"); })
      .def_prop_ro(
          "program_formats", [](const Client&) { return nb::make_tuple(); },
          nb::sig("def program_formats(self) -> tuple[str, ...]"))
      .def("process_index", &Client::process_index)
      .def("host_id", &Client::process_index)
      .def(
          "devices", [](const Client& c) { return to_list(c.devices()); },
          nb::sig("def devices(self) -> list[CpuDevice]"),
          "Return every device of every process, ordered by id.")
      .def(
          "local_devices", [](const Client& c) { return to_list(c.local_devices()); },
          nb::sig("def local_devices(self) -> list[CpuDevice]"),
          "Return the devices that this process addresses, ordered by id.")
      .def("device_count", [](const Client& c) { return c.devices().size(); })
      .def("local_device_count", [](const Client& c) { return c.local_devices().size(); })
      .def("device_from_local_hardware_id", &device_from_local_hardware_id, "local_hardware_id"_a)
      .def("__repr__", [](const Client& c) {
        return nb::str(("CpuClient(devices=" + std::to_string(c.devices().size()) +
                        (c.is_closed() ? ", closed)" : ")"))
                           .c_str());
      });
}

void bind_client_life(nb::class_<Client>& cls) {
  cls.def("close", &close_client,
          "Wait for the work in flight, delete every buffer and give all memory back. Idempotent.")
      .def_prop_ro("is_closed", &Client::is_closed)
      .def(
          "__enter__", [](nb::handle_t<Client> self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> CpuClient"))
      .def(
          "__exit__", [](Client& self, const nb::args&) { close_client(self); },
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def(
          "defragment", [](const Client& c) { c.check_open("defragment"); },
          "Do nothing: every allocation is its own, so there is nothing to defragment.")
      .def(
          "live_buffers", [](Client& c) { return live_buffers(c, nullptr); },
          nb::sig("def live_buffers(self) -> list[CpuBuffer]"),
          "Return the buffers that are neither deleted nor collected, oldest first.")
      .def(
          "live_arrays", [](Client& c) { return live_buffers(c, nullptr); },
          nb::sig("def live_arrays(self) -> list[CpuBuffer]"),
          "Return `live_buffers` under jaxlib's name.")
      .def(
          "live_executables", [](const Client&) { return nb::list(); },
          nb::sig("def live_executables(self) -> list[typing.Any]"))
      .def("heap_profile",
           [](const Client&) -> nb::bytes {
             raise_unimplemented("heap_profile", "it records no allocation sites yet.");
           })
      .def(
          "topology",
          [](const Client&) -> nb::object {
            raise_unimplemented("topology", "it describes no topology.");
          },
          nb::sig("def topology(self) -> typing.Any"))
      .def(
          "compile_and_load",
          [](const Client&, const nb::args&, const nb::kwargs&) -> nb::object {
            raise_unimplemented("compile_and_load", "it takes no program format yet.");
          },
          nb::sig("def compile_and_load(self, program: str | bytes, devices: "
                  "collections.abc.Sequence[typing.Any] | None = None, **options: typing.Any) -> "
                  "typing.Any"));
}

void bind_client_class(nb::module_& module) {
  nb::class_<Client> cls(module, "CpuClient", nb::is_final(), nb::is_weak_referenceable(),
                         "A live connection to the host's processors and memory.");
  types.client = cls;
  cls.def("buffer_from_pyval", &buffer_from_pyval, "argument"_a.none(), "device"_a = nb::none(),
          "force_copy"_a = false, "host_buffer_semantics"_a = 0,
          nb::sig("def buffer_from_pyval(self, argument: typing.Any, device: CpuDevice | CpuMemory "
                  "| None = None, force_copy: bool = False, host_buffer_semantics: int = 0) -> "
                  "CpuBuffer"),
          "Start the transfer of a host value to a device or memory.")
      .def("batched_buffer_from_pyval", &batched_buffer_from_pyval, "argument"_a.none(),
           "devices"_a, "offsets"_a, "shape"_a, "host_buffer_semantics"_a = 0,
           nb::sig("def batched_buffer_from_pyval(self, argument: typing.Any, devices: "
                   "collections.abc.Sequence[CpuDevice | CpuMemory], offsets: "
                   "collections.abc.Sequence[tuple[int, ...]], shape: tuple[int, ...], "
                   "host_buffer_semantics: int = 0) -> list[CpuBuffer]"),
           "Start the transfer of one block of a host array to each of several targets.");
  bind_client_facts(cls);
  bind_client_life(cls);
}

}  // namespace

Memory& resolve_memory(Client& client, nb::handle target, const char* operation) {
  if (target.is_none()) return client.local_devices().front()->default_memory();
  const nb::handle type = target.type();
  if (type.is(types.device)) {
    Device& device = *nb::inst_ptr<Device>(target);
    if (&device.client() != &client) raise_foreign(target, operation);
    return device.default_memory();
  }
  if (type.is(types.memory)) {
    Memory& memory = *nb::inst_ptr<Memory>(target);
    if (&memory.client() != &client) raise_foreign(target, operation);
    return memory;
  }
  throw StatusError(
      Status(StatusCode::kInvalidArgument, std::string(operation) +
                                               " failed: the target must be a device or a "
                                               "memory of this cpu client, not " +
                                               nb::str(type.attr("__qualname__")).c_str() + ".")
          .because(Reason::kType)
          .during(operation));
}

void bind_client(nb::module_& module) {
  bind_memory(module);
  bind_device(module);
  bind_client_class(module);
  module.def(
      "make_cpu_client", &make_cpu_client, "asynchronous"_a = true, "num_devices"_a = 1,
      "node_id"_a = 0, "num_nodes"_a = 1, "memory_kinds"_a = nb::tuple(),
      nb::sig("def make_cpu_client(asynchronous: bool = True, num_devices: int = 1, node_id: "
              "int = 0, num_nodes: int = 1, memory_kinds: "
              "collections.abc.Sequence[typing.Any] = ()) -> CpuClient"),
      "Make a client; see `devrt_cpu.make_cpu_client`.");
}

}  // namespace devrt::cpu
