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

/// The devices of all nodes, by node.
using NodesDevices = std::vector<std::vector<NodeDevice>>;

/// Returns the devices of all nodes, given those of this one.
using NodesExchange = std::function<NodesDevices(std::span<const DeviceFacts>)>;

}  // namespace devrt::native
