// Collectives, as the Python half of the client starts them.
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binding/python.hpp"
#include "client/collectives.hpp"
#include "client/release_queue.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

/// What Python holds of a group: with its devices, whose client must outlive it.
struct GroupHandle {
  std::vector<std::shared_ptr<Device>> devices;
  std::shared_ptr<Communicator> communicator;
};

CollectiveKind to_collective(const std::string& name) {
  for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    if (name == collective_name(kind)) return kind;
  }
  raise_invalid("There is no collective " + name + ".", "collectives");
}

std::vector<std::pair<std::size_t, std::size_t>> to_pairs(nb::handle pairs) {
  std::vector<std::pair<std::size_t, std::size_t>> made;
  for (nb::handle pair : pairs) {
    made.emplace_back(nb::cast<std::size_t>(pair[0]), nb::cast<std::size_t>(pair[1]));
  }
  return made;
}

/// Returns the buffers of a list, null for None; `kept` keeps them alive.
std::vector<const Buffer*> to_group_buffers(const std::vector<nb::object>& kept,
                                            const char* operation) {
  std::vector<const Buffer*> buffers;
  for (const nb::object& each : kept) {
    const bool is_buffer = each.type().is(types.buffer);
    if (!is_buffer && !each.is_none()) {
      raise_type("An argument of a collective must be an array of its rank's device, not of type " +
                     kind_of(each) + ".",
                 operation);
    }
    buffers.push_back(is_buffer ? nb::inst_ptr<BufferHandle>(each)->state.get() : nullptr);
  }
  return buffers;
}

nb::object run(const GroupHandle& self, const std::string& kind, nb::handle arguments,
               nb::handle result, int reduction, std::size_t root, nb::handle pairs, bool donate) {
  const DrainScope drain;
  Collective collective{.kind = to_collective(kind),
                        .reduction = static_cast<Reduction>(reduction),
                        .root = root,
                        .pairs = to_pairs(pairs)};
  const std::vector<nb::object> kept = to_items(arguments, "arguments", kind.c_str());
  const std::vector<const Buffer*> buffers = to_group_buffers(kept, kind.c_str());
  CollectiveArguments given{buffers, to_dims(result, "A shape", kind.c_str()), donate,
                            execution_stream()};
  std::vector<Ref<Buffer>> results;
  {
    GilRelease released;
    results =
        start_collective(self.devices, self.communicator, std::move(collective), std::move(given));
  }
  return wrap_all(std::move(results));
}

GroupHandle connect_devices(nb::handle devices, const std::string& library,
                            const std::string& prefix) {
  drain_release_queue();
  GroupHandle made;
  std::vector<const Device*> pointers;
  for (nb::handle device : devices) {
    made.devices.push_back(nb::cast<std::shared_ptr<Device>>(device));
    pointers.push_back(made.devices.back().get());
  }
  if (made.devices.empty()) raise_invalid("A group has one device at least.", "collectives");
  GilRelease released;
  made.communicator =
      connect(made.devices.front()->client(), pointers, CollectiveSource{library, prefix});
  return made;
}

}  // namespace

void bind_collectives(nb::module_& module) {
  nb::class_<GroupHandle>(module, "_Group", nb::type_slots(no_new_slots))
      .def_prop_ro("version", [](const GroupHandle& self) { return self.communicator->version(); })
      .def("run", &run, "kind"_a, "arguments"_a, "result"_a, "reduction"_a, "root"_a, "pairs"_a,
           "donate"_a);
  module.def("_connect", &connect_devices, "devices"_a, "library"_a, "prefix"_a);
}

}  // namespace devrt::native
