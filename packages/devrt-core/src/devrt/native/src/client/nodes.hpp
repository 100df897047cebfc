// What the processes of a job tell each other of their devices, while a client is made.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/device_backend.hpp"

namespace devrt::native {

/// What a node tells the others of one of its devices.
struct NodeDevice {
  int local_hardware_id = 0;
  std::string kind;
};

/// What all nodes know of one.
struct NodeFacts {
  std::vector<NodeDevice> devices;
  int partition = 0;  ///< within which devices are connected better than by a network
};

/// Returns the facts of all nodes, by node, given the devices of this one.
using NodesExchange = std::function<std::vector<NodeFacts>(std::span<const DeviceFacts>)>;

}  // namespace devrt::native
