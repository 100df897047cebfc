// Collectives, as the Python half of the client starts them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
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
               nb::handle result, int reduction, std::size_t root, nb::handle pairs,
               nb::handle donate) {
  const DrainScope drain;
  Collective collective{.kind = to_collective(kind),
                        .reduction = static_cast<Reduction>(reduction),
                        .root = root,
                        .pairs = to_pairs(pairs)};
  const std::vector<nb::object> kept = to_items(arguments, "arguments", kind.c_str());
  const std::vector<const Buffer*> buffers = to_group_buffers(kept, kind.c_str());
  CollectiveArguments given{buffers, to_dims(result, "A shape", kind.c_str()),
                            to_bool(donate, "donate", kind.c_str()), execution_stream()};
  std::vector<Ref<Buffer>> results;
  {
    GilRelease released;
    results =
        start_collective(self.devices, self.communicator, std::move(collective), std::move(given));
  }
  return wrap_all(std::move(results));
}

GroupHandle connect_devices(nb::handle devices, const std::string& library,
                            const std::string& prefix, std::optional<GroupSpan> span) {
  drain_release_queue();
  GroupHandle made;
  std::vector<const Device*> pointers;
  for (nb::handle device : devices) {
    made.devices.push_back(nb::cast<std::shared_ptr<Device>>(device));
    pointers.push_back(made.devices.back().get());
  }
  if (made.devices.empty()) raise_invalid("A group has one device at least.", "collectives");
  GilRelease released;
  Client& client = made.devices.front()->client();
  const CollectiveSource source{library, prefix};
  made.communicator =
      span ? connect_across(client, pointers, source, *span) : connect(client, pointers, source);
  return made;
}

GroupHandle connect_with_others(nb::handle devices, const std::string& library,
                                const std::string& prefix, nb::bytes id, std::size_t size,
                                std::vector<std::size_t> ranks) {
  return connect_devices(devices, library, prefix,
                         GroupSpan{{id.c_str(), id.size()}, size, std::move(ranks)});
}

nb::bytes new_group_id(const std::shared_ptr<Device>& device, const std::string& library,
                       const std::string& prefix) {
  const std::string id = device->client().backend().new_group_id({library, prefix});
  return nb::bytes(id.data(), id.size());
}

/// Returns for how many seconds the oldest collective is under way; None where none is.
nb::object busy_seconds(const GroupHandle& self) {
  const auto since = [&] {
    GilRelease released;
    return self.communicator->busy_since();
  }();
  if (!since) return nb::none();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - *since;
  return nb::float_(passed.count());
}

void break_off(const GroupHandle& self, const std::string& why) {
  GilRelease released;
  self.communicator->break_off(
      Status(StatusCode::kUnavailable, why).because(Reason::kPeer).during("collectives"));
}

}  // namespace

void bind_collectives(nb::module_& module) {
  nb::class_<GroupHandle>(module, "_Group", nb::type_slots(no_new_slots))
      .def_prop_ro("version", [](const GroupHandle& self) { return self.communicator->version(); })
      .def("run", &run, "kind"_a, "arguments"_a, "result"_a, "reduction"_a, "root"_a, "pairs"_a,
           "donate"_a.none())
      .def("busy_seconds", &busy_seconds)
      .def("break_off", &break_off, "why"_a);
  module.def(
      "_connect",
      [](nb::handle devices, const std::string& library, const std::string& prefix) {
        return connect_devices(devices, library, prefix, std::nullopt);
      },
      "devices"_a, "library"_a, "prefix"_a);
  module.def("_connect_across", &connect_with_others, "devices"_a, "library"_a, "prefix"_a,
             "group_id"_a, "size"_a, "ranks"_a);
  module.def("_new_group_id", &new_group_id, "device"_a, "library"_a, "prefix"_a);
}

}  // namespace devrt::native
