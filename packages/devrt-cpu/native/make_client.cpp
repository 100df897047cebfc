// How Python makes clients: the options, and the memory kinds that they add.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/make_client.hpp"
#include "module.hpp"

namespace devrt::cpu {

namespace nb = nanobind;
using namespace nanobind::literals;
using namespace native;

namespace {

bool is_builtin_kind(const std::string& kind) {
  return kind == "device" || kind == "pinned_host" || kind == "unpinned_host";
}

constexpr const char* kHugePages = "huge_pages";

std::vector<AddedKind> to_added_kinds(nb::handle memory_kinds) {
  std::vector<AddedKind> added;
  for (nb::handle record : memory_kinds) {
    std::string kind = nb::cast<std::string>(nb::str(record.attr("kind")));
    if (kind.empty() || kind.find('\0') != std::string::npos) {
      raise_invalid("The name of a memory kind must not be empty nor hold a NUL character.",
                    "make_cpu_client");
    }
    nb::object allocator = record.attr("allocator");
    if (is_builtin_kind(kind) && allocator.is_none()) continue;
    bool known = is_builtin_kind(kind);
    for (const AddedKind& other : added) known = known || other.kind == kind;
    const bool is_huge_pages = kind == kHugePages && allocator.is_none();
    if (known || (allocator.is_none() && !is_huge_pages)) {
      raise_invalid("The memory kind '" + kind + "' " +
                        (known ? "is there already and cannot be added again."
                               : "is unknown to the cpu client and brings no allocator: set "
                                 "MemoryKind.allocator to a function that returns a "
                                 "'" DEVRT_HOST_ALLOCATOR_CAPSULE "' capsule."),
                    "make_cpu_client");
    }
    std::shared_ptr<HostAllocator> from =
        is_huge_pages ? huge_page_arena()
                      : foreign_allocator(allocator(), "memory kind '" + kind + "'");
    added.push_back({std::move(kind), std::move(from)});
  }
  return added;
}

std::shared_ptr<Client> make_cpu_client(bool asynchronous, int num_devices, int node_id,
                                        int num_nodes, nb::handle memory_kinds,
                                        std::optional<std::int64_t> recycled_bytes,
                                        std::optional<std::int64_t> memory_limit_bytes,
                                        const std::string& traceback_in_buffers,
                                        nb::handle exchange, nb::object distributed_client,
                                        double execution_timeout) {
  ClientOptions options;
  options.asynchronous = asynchronous;
  options.num_devices = num_devices;
  options.node_id = node_id;
  options.num_nodes = num_nodes;
  options.added_kinds = to_added_kinds(memory_kinds);
  options.recycled_bytes = recycled_bytes.value_or(default_recycled_bytes());
  options.memory_limit = memory_limit_bytes;
  options.traceback = to_traceback_mode(traceback_in_buffers);
  join_python(options);
  options.execution_timeout = to_milliseconds(execution_timeout);
  std::shared_ptr<Client> client = Client::make(std::move(options), to_exchange(exchange));
  if (!distributed_client.is_none()) {
    attach_store(client, std::move(distributed_client));
  }
  return client;
}

}  // namespace

void bind_make_client(nb::module_& module) {
  module.def(
      "make_cpu_client", &make_cpu_client, "asynchronous"_a = true, "num_devices"_a = 1,
      "node_id"_a = 0, "num_nodes"_a = 1, "memory_kinds"_a = nb::tuple(),
      "recycled_bytes"_a = nb::none(), "memory_limit_bytes"_a = nb::none(),
      "traceback_in_buffers"_a = "sampled", "exchange"_a = nb::none(),
      "distributed_client"_a = nb::none(), "execution_timeout"_a = 600.0,
      nb::sig(
          "def make_cpu_client(asynchronous: bool = True, num_devices: int = 1, node_id: "
          "int = 0, num_nodes: int = 1, memory_kinds: "
          "collections.abc.Sequence[typing.Any] = (), recycled_bytes: int | None = None, "
          "memory_limit_bytes: int | None = None, traceback_in_buffers: str = 'sampled', "
          "exchange: collections.abc.Callable[..., typing.Any] | None = None, distributed_client: "
          "typing.Any = None, execution_timeout: float = 600.0) -> CpuClient"),
      "Make a client; see `devrt_cpu.make_cpu_client`.");
}

}  // namespace devrt::cpu
