// What the driver knows of a device.
#pragma once

#include <vector>

#include "client/device_backend.hpp"
#include "gpu/device.hpp"

namespace devrt::gpu {

/// Returns a device's facts, without its memories. `peers` are the local numbers of the devices
/// whose memory it reaches.
native::DeviceFacts facts_of(const GpuDevice& device, const std::vector<std::int64_t>& peers);

}  // namespace devrt::gpu
