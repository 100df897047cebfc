// Copies that the client has a device make, and what they need.
#pragma once

#include <cstdint>
#include <vector>

#include "client/client.hpp"

namespace devrt::native {

struct DeviceCopies {
  Queue queue;
  std::vector<RegionCopy> copies = {};
  std::vector<Ref<Storage>> storages =
      {};  ///< of both sides; they live until the copies have ended
  std::vector<ReadyEvent> after = {};

  ReadyEvent start(DeviceBackend& backend) const { return backend.copy(queue, copies); }
};

/// Returns which way a copy goes, seen from the device whose memory the host cannot reach.
Queue queue_between(const Memory& from, const Memory& to, std::int64_t stream);

}  // namespace devrt::native
