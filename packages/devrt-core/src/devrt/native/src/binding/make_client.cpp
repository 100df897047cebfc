// How Python makes the clients of a backend that is a driver alone.
#include "binding/make_client.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace devrt::native {

using namespace nb::literals;

namespace {

/// Returns the kinds that others add; what has no allocator is the driver's own.
std::vector<AddedKind> to_added_kinds(nb::handle memory_kinds) {
  std::vector<AddedKind> added;
  for (nb::handle record : memory_kinds) {
    std::string kind = nb::cast<std::string>(nb::str(record.attr("kind")));
    const nb::object allocator = record.attr("allocator");
    if (allocator.is_none()) continue;
    if (std::ranges::any_of(added, [&](const AddedKind& other) { return other.kind == kind; })) {
      raise_invalid("The memory kind '" + kind + "' is there already and cannot be added again.",
                    make_operation());
    }
    auto from = foreign_allocator(allocator(), "memory kind '" + kind + "'");
    added.push_back({std::move(kind), std::move(from)});
  }
  return added;
}

pjrt::Option to_option(const std::string& name, nb::handle value) {
  if (PyBool_Check(value.ptr())) return {name, value.is(nb::handle(Py_True))};
  std::int64_t number = 0;
  if (nb::try_cast(value, number)) return {name, number};
  float real = 0;
  if (nb::try_cast(value, real)) return {name, real};
  std::string text;
  if (nb::try_cast(value, text)) return {name, text};
  raise_type("The option '" + name + "' must be a bool, an int of 64 bits, a float or a str, not " +
                 "of type " + kind_of(value) + ".",
             "make_client");
}

std::shared_ptr<Client> make_client(nb::dict driver, bool asynchronous, int num_devices,
                                    int node_id, int num_nodes, nb::handle memory_kinds,
                                    std::optional<std::int64_t> recycled_bytes,
                                    std::optional<std::int64_t> memory_limit_bytes,
                                    const std::string& traceback_in_buffers, nb::handle exchange,
                                    nb::object distributed_client, double execution_timeout) {
  ClientOptions options;
  options.asynchronous = asynchronous;
  options.num_devices = num_devices;
  options.node_id = node_id;
  options.num_nodes = num_nodes;
  options.added_kinds = to_added_kinds(memory_kinds);
  options.recycled_bytes = recycled_bytes.value_or(default_recycled_bytes());
  options.memory_limit = memory_limit_bytes;
  options.traceback = to_traceback_mode(traceback_in_buffers);
  options.execution_timeout = to_milliseconds(execution_timeout);
  for (const auto& [name, value] : driver) {
    options.backend_options.push_back(to_option(nb::cast<std::string>(name), value));
  }
  join_python(options);
  std::shared_ptr<Client> client = Client::make(std::move(options), to_exchange(exchange));
  if (!distributed_client.is_none()) attach_store(client, std::move(distributed_client));
  return client;
}

NodeDevice to_node_device(nb::handle pair) {
  const std::string operation = make_operation();
  const std::vector<nb::object> parts = to_items(pair, "a device of a node", operation.c_str());
  std::string kind;
  if (parts.size() != 2 || !nb::try_cast(parts[1], kind)) {
    raise_type("A device of a node is a number and a kind, not " + kind_of(pair) + ".",
               operation.c_str());
  }
  return {to_int(parts[0], "the number of a device", operation.c_str()), std::move(kind)};
}

NodeFacts to_node_facts(nb::handle node) {
  const std::string operation = make_operation();
  NodeFacts facts;
  for (const nb::object& pair :
       to_items(node.attr("devices"), "a node's devices", operation.c_str())) {
    facts.devices.push_back(to_node_device(pair));
  }
  facts.partition = to_int(node.attr("partition"), "a node's partition", operation.c_str());
  return facts;
}

}  // namespace

Traceback to_traceback_mode(const std::string& name) {
  if (name == "off") return Traceback::kOff;
  if (name == "sampled") return Traceback::kSampled;
  if (name == "all") return Traceback::kAll;
  raise_invalid("traceback_in_buffers must be 'off', 'sampled' or 'all', not '" + name + "'.",
                make_operation());
}

std::chrono::milliseconds to_milliseconds(double seconds) {
  constexpr double kMost = 365.0 * 86400.0 * 1e3;
  if (!(seconds > 0)) return {};
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(std::clamp(seconds * 1e3, 1.0, kMost)));
}

void join_python(ClientOptions& options) {
  options.wait_unlocked = &wait_unlocked;
  options.check_signals = &check_signals;
}

NodesExchange to_exchange(nb::handle function) {
  if (function.is_none()) return {};
  return [function](std::span<const DeviceFacts> local) {
    nb::list mine;
    for (const DeviceFacts& device : local) {
      mine.append(nb::make_tuple(device.local_hardware_id, device.kind));
    }
    const nb::object answer = function(mine);
    const std::string operation = make_operation();
    std::vector<NodeFacts> nodes;
    for (const nb::object& node : to_items(answer, "the facts of nodes", operation.c_str())) {
      nodes.push_back(to_node_facts(node));
    }
    return nodes;
  };
}

void bind_make_client(nb::module_& module) {
  module.def(
      "make_client", &make_client, "options"_a = nb::dict(), nb::kw_only(), "asynchronous"_a = true,
      "num_devices"_a = 1, "node_id"_a = 0, "num_nodes"_a = 1, "memory_kinds"_a = nb::tuple(),
      "recycled_bytes"_a = nb::none(), "memory_limit_bytes"_a = nb::none(),
      "traceback_in_buffers"_a = "sampled", "exchange"_a = nb::none(),
      "distributed_client"_a = nb::none(), "execution_timeout"_a = 600.0,
      nb::sig(
          "def make_client(options: collections.abc.Mapping[str, bool | int | float | str] = "
          "{}, *, asynchronous: bool = True, num_devices: int = 1, node_id: "
          "int = 0, num_nodes: int = 1, memory_kinds: "
          "collections.abc.Sequence[typing.Any] = (), recycled_bytes: int | None = None, "
          "memory_limit_bytes: int | None = None, traceback_in_buffers: str = 'sampled', "
          "exchange: collections.abc.Callable[..., typing.Any] | None = None, distributed_client: "
          "typing.Any = None, execution_timeout: float = 600.0) -> " DEVRT_CLASS_PREFIX "Client"),
      "Make a client; `options` are the driver's own.");
}

}  // namespace devrt::native
