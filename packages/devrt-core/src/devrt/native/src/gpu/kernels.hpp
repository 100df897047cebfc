// Kernels of a GPU: modules that its driver has loaded, and launches on its streams.
#pragma once

#include <memory>
#include <string>

#include "client/kernels.hpp"
#include "gpu/device.hpp"

namespace devrt::gpu {

/// Loads an image. Throws what the driver says of it, with its log where it writes one.
std::shared_ptr<native::KernelModule> load_module(std::shared_ptr<GpuDevice> device,
                                                  const std::string& image);

}  // namespace devrt::gpu
