// How a client gets its devices: its own of the backend, those of other nodes by the exchange.
#include <algorithm>
#include <map>
#include <utility>

#include "client/client.hpp"

namespace devrt::native {

namespace {

constexpr int kMaxDevicesOfAllNodes = 65536;

/// Blocks of devices whose memories have one allocator, made once.
class Sources {
 public:
  explicit Sources(std::shared_ptr<BlockCache> cache) : cache_(std::move(cache)) {}

  /// Returns what is held for a device and those that it shares the default memory with.
  std::shared_ptr<ReservedBytes> total_of(const DeviceFacts& device) {
    auto& total = totals_[device.memories.front().allocator.get()];
    if (!total) total = std::make_shared<ReservedBytes>();
    return total;
  }
  const MemorySource& of(const MemoryKind& kind, const DeviceFacts& device) {
    MemorySource& source = sources_[kind.allocator.get()];
    if (source.allocator) return source;
    auto held = std::make_shared<ReservedBytes>(total_of(device));
    const std::size_t smallest =
        kind.is_host_visible ? kind.smallest_recycled : RecyclingAllocator::kNever;
    source = {std::make_shared<RecyclingAllocator>(kind.allocator, cache_, held, smallest), held};
    return source;
  }

 private:
  const std::shared_ptr<BlockCache> cache_;
  std::map<const HostAllocator*, std::shared_ptr<ReservedBytes>> totals_;
  std::map<const HostAllocator*, MemorySource> sources_;
};

void check_total(std::int64_t total) {
  if (total <= kMaxDevicesOfAllNodes) return;
  raise_invalid(
      "The devices of all nodes (num_devices * num_nodes, if each has as many) must be at most " +
          std::to_string(kMaxDevicesOfAllNodes) + ", not " + std::to_string(total) + ".",
      make_operation());
}

/// Adds where a device is among all nodes' devices, in the words of XLA's GPU clients.
void add_place(DeviceFacts& facts, int partition, int node_in_partition, int device_of_node) {
  const std::vector<std::int64_t> coords{partition, node_in_partition, device_of_node};
  facts.attributes.emplace_back("coords", coords);
  facts.attributes.emplace_back("slice_index", std::int64_t{partition});  // the older name
  facts.attributes.emplace_back("partition_index", std::int64_t{partition});
}

}  // namespace

std::vector<DeviceFacts> Client::ask_for_devices() const {
  std::vector<DeviceFacts> found = backend_->devices();
  int next_space = 0;
  for (const DeviceFacts& device : found) {
    for (const MemoryKind& kind : device.memories)
      next_space = std::max(next_space, kind.space + 1);
  }
  // Memory of the host, which the devices share. Whether it is worth keeping, only the plugin
  // knows.
  for (const AddedKind& added : options_.added_kinds) {
    for (DeviceFacts& device : found) {
      device.memories.push_back({added.kind, next_space, added.allocator});
    }
    ++next_space;
  }
  return found;
}

/// Returns every node's devices; those of this node say nothing that `local` does not.
std::vector<NodeFacts> Client::ask_other_nodes(std::span<const DeviceFacts> local,
                                               const NodesExchange& exchange) const {
  std::vector<NodeFacts> found;
  if (exchange) {
    found = exchange(local);
  } else {
    check_total(static_cast<std::int64_t>(local.size()) * options_.num_nodes);
    std::vector<NodeDevice> alike(local.size());
    for (std::size_t i = 0; i < alike.size(); ++i) alike[i].local_hardware_id = static_cast<int>(i);
    for (int node = 0; node < options_.num_nodes; ++node) found.push_back({alike, node});
  }
  const auto here = static_cast<std::size_t>(options_.node_id);
  if (found.size() != static_cast<std::size_t>(options_.num_nodes) ||
      found[here].devices.size() != local.size()) {
    raise_invalid("The devices of every node, and of this one all, must be given.",
                  make_operation());
  }
  std::int64_t total = 0;
  for (const NodeFacts& node : found) total += static_cast<std::int64_t>(node.devices.size());
  check_total(total);
  return found;
}

void Client::make_devices(const NodesExchange& exchange) {
  const std::vector<DeviceFacts> local = ask_for_devices();
  const std::vector<NodeFacts> nodes = ask_other_nodes(local, exchange);
  std::map<int, int> nodes_of_partition;
  num_local_ = local.size();
  Sources sources(cache_);
  for (int node = 0; node < options_.num_nodes; ++node) {
    const bool is_here = node == options_.node_id;
    if (is_here) first_local_ = devices_.size();
    const auto& [own, partition] = nodes[static_cast<std::size_t>(node)];
    const int node_in_partition = nodes_of_partition[partition]++;
    for (std::size_t i = 0; i < own.size(); ++i) {
      std::vector<MemorySource> memories;
      if (is_here) {
        for (const MemoryKind& kind : local[i].memories) {
          memories.push_back(sources.of(kind, local[i]));
        }
      }
      DeviceFacts facts =
          is_here ? local[i] : DeviceFacts{own[i].local_hardware_id, own[i].kind, {}, {}};
      if (backend_->has_partitions()) {
        add_place(facts, partition, node_in_partition, static_cast<int>(i));
      }
      devices_.push_back(std::make_unique<Device>(
          *this, static_cast<int>(devices_.size()), static_cast<int>(i), node, std::move(facts),
          memories, is_here ? sources.total_of(local[i]) : nullptr));
    }
  }
  backend_->set_first_id(static_cast<int>(first_local_));
}

}  // namespace devrt::native
