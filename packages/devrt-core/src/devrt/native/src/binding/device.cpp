// The Python classes of devices and memories.
#include <nanobind/stl/string_view.h>

#include <string>
#include <string_view>

#include "binding/exchange.hpp"
#include "binding/python.hpp"
#include "client/release_queue.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

[[noreturn]] void raise_foreign(nb::handle target, const char* operation) {
  nb::str text = nb::str(target);
  raise_invalid(std::string(operation) + " failed: " + text.c_str() +
                    " belongs to another client. Use a device or memory of this client.",
                operation);
}

void bind_memory(nb::module_& module) {
  nb::class_<Memory> cls(module, DEVRT_CLASS_PREFIX "Memory", nb::is_final(),
                         nb::is_weak_referenceable(), nb::type_slots(no_new_slots),
                         "One memory of one device.");
  types.memory = cls;
  cls.def_prop_ro("kind", [](const Memory& m) { return nb::str(m.kind().c_str()); })
      .def_prop_ro("platform", [](const Memory&) { return nb::str(platform().name.c_str()); })
      .def_prop_ro("process_index", [](const Memory& m) { return m.device().process_index(); })
      .def(
          "addressable_by_devices",
          [](const Memory& m) {
            nb::list devices;
            devices.append(m.device().shared());
            return devices;
          },
          nb::sig("def addressable_by_devices(self) -> list[" DEVRT_CLASS_PREFIX "Device]"))
      .def("memory_stats", &memory_stats, nb::sig("def memory_stats(self) -> dict[str, int]"),
           "Return this memory's own counters, keyed as `" DEVRT_CLASS_PREFIX
           "Device.memory_stats`.\n\n"
           "The reserved bytes are those held for all memories of this kind, blocks kept for reuse "
           "included.")
      .def("__repr__",
           [](const Memory& m) {
             return nb::str((DEVRT_CLASS_PREFIX "Memory(device=" + m.device().name() +
                             ", kind=" + m.kind() + ")")
                                .c_str());
           })
      .def("__str__",
           [](const Memory& m) { return nb::str((m.device().name() + ":" + m.kind()).c_str()); });
}

nb::object to_python(const DeviceFacts::Attribute& value) {
  const auto convert = [](const auto& given) -> nb::object {
    if constexpr (requires {
                    given.begin();
                    given.c_str();
                  }) {
      return nb::str(given.c_str());
    } else if constexpr (requires { given.begin(); }) {
      return to_tuple(given);
    } else {
      return nb::cast(given);
    }
  };
  return std::visit(convert, value);
}

nb::dict attributes_of(const Device& device) {
  nb::dict found;
  for (const auto& [name, value] : device.facts().attributes)
    found[name.c_str()] = to_python(value);
  return found;
}

/// Returns what the class does not have from the attributes, as JAX's devices do.
nb::object attribute_of(const Device& device, std::string_view name) {
  for (const auto& [known, value] : device.facts().attributes) {
    if (known == name) return to_python(value);
  }
  const std::string message =
      "'" DEVRT_CLASS_PREFIX "Device' object has no attribute '" + std::string(name) + "'";
  throw nb::attribute_error(message.c_str());
}

void bind_device_facts(nb::class_<Device>& cls) {
  cls.def_prop_ro("id", &Device::id)
      .def_prop_ro("process_index", &Device::process_index)
      .def_prop_ro("host_id", &Device::process_index)
      .def_prop_ro("task_id", &Device::process_index)
      .def_prop_ro("local_hardware_id", [](const Device& d) { return d.facts().local_hardware_id; })
      .def_prop_ro("platform", [](const Device&) { return nb::str(platform().name.c_str()); })
      .def_prop_ro("device_kind", [](const Device& d) { return nb::str(d.facts().kind.c_str()); })
      .def_prop_ro("client", [](const Device& d) { return d.client().shared(); })
      .def_prop_ro(
          "attributes", &attributes_of,
          nb::sig("def attributes(self) -> collections.abc.Mapping[str, typing.Any]"),
          "What the platform says of the device beyond the rest; each is an attribute too.")
      .def("__getattr__", &attribute_of, nb::sig("def __getattr__(self, name: str) -> typing.Any"))
      .def(
          "__call__", [](nb::handle_t<Device> self) { return nb::borrow(self); },
          nb::sig("def __call__(self) -> " DEVRT_CLASS_PREFIX "Device"),
          "Return the device itself, so that ``buffer.device()`` works too.")
      .def("__repr__",
           [](const Device& d) {
             return nb::str(
                 (DEVRT_CLASS_PREFIX "Device(id=" + std::to_string(d.id()) + ")").c_str());
           })
      .def("__str__", [](const Device& d) { return nb::str(d.name().c_str()); });
}

std::shared_ptr<Memory> memory_of_kind(const Device& device, nb::handle kind) {
  std::string_view name;
  if (!nb::try_cast(kind, name)) {
    const nb::str type(kind.type().attr("__qualname__"));
    throw StatusError(Status(StatusCode::kInvalidArgument,
                             std::string("The kind of a memory must be a str, not of type ") +
                                 type.c_str() + ". Call default_memory() for the default one.")
                          .because(Reason::kType)
                          .during("memory"));
  }
  // The names that devrt.contract.memory_kind_named reads.
  if (name == "default") return device.default_memory().shared();
  return device.memory(name == "pinned" ? "pinned_host" : name).shared();
}

void bind_device(nb::module_& module) {
  nb::class_<Device> cls(module, DEVRT_CLASS_PREFIX "Device", nb::is_final(),
                         nb::is_weak_referenceable(), nb::type_slots(no_new_slots), "One device.");
  types.device = cls;
  bind_device_facts(cls);
  cls.def(
         "memory", [](const Device& d, nb::handle kind) { return memory_of_kind(d, kind); },
         "kind"_a.none(), nb::sig("def memory(self, kind: str) -> " DEVRT_CLASS_PREFIX "Memory"),
         "Return the memory of a kind; the error lists those that there are.")
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
          nb::sig("def addressable_memories(self) -> list[" DEVRT_CLASS_PREFIX "Memory]"),
          "Return every memory of the device, the default one first.")
      .def(
          "live_buffers", [](const Device& d) { return live_buffers(d.client(), &d); },
          nb::sig("def live_buffers(self) -> list[" DEVRT_CLASS_PREFIX "Buffer]"),
          "Return the buffers on this device that are neither deleted nor collected.")
      .def(
          "live_arrays", [](const Device& d) { return live_buffers(d.client(), &d); },
          nb::sig("def live_arrays(self) -> list[" DEVRT_CLASS_PREFIX "Buffer]"),
          "Return `live_buffers` under jaxlib's name.")
      .def(
          "memory_stats",
          [](const Device& d) {
            const Memory& own = d.default_memory();  // none of another process's device
            // Beside memory of its own, a device's memory kinds of the host are the host's.
            return to_dict(own.is_host_visible() ? d.stats()->snapshot() : own.stats().snapshot());
          },
          nb::sig("def memory_stats(self) -> dict[str, int]"),
          "Return counts and bytes of the device's own memory, keyed as JAX keys them.\n\n"
          "Of a device without any, whose memories are all the host's: over all of them. The "
          "reserved bytes are then those held for all devices of the client, as they share "
          "blocks.")
      .def("get_stream_for_external_ready_events", &stream_for_others,
           nb::sig("def get_stream_for_external_ready_events(self) -> int"),
           "Return the handle of the stream that others have wait for what they fill.");
}

}  // namespace

nb::list live_buffers(Client& client, const Device* device) {
  drain_release_queue();
  nb::list found;
  if (client.is_closed()) return found;
  client.check_open("live_buffers");
  for (Ref<Buffer>& buffer : client.registry().snapshot()) {
    if (!device || &buffer->memory()->device() == device)
      found.append(wrap_known(std::move(buffer)));
  }
  return found;
}

void raise_unimplemented(const char* operation, const char* why) {
  throw StatusError(Status(StatusCode::kUnimplemented, std::string(operation) +
                                                           " is not offered by the " +
                                                           platform().name + " client: " + why)
                        .during(operation));
}

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
                                               "memory of this " +
                                               platform().name + " client, not " +
                                               nb::str(type.attr("__qualname__")).c_str() + ".")
          .because(Reason::kType)
          .during(operation));
}

void bind_devices(nb::module_& module) {
  bind_memory(module);
  bind_device(module);
}

}  // namespace devrt::native
