// What the kernel's driver for AMD's GPUs (KFD) says of them in sysfs.
#pragma once

#include <filesystem>
#include <string>

namespace devrt::gpu {

inline constexpr const char* kKfdNodes = "/sys/class/kfd/kfd/topology/nodes";

/// Returns the architecture of the GPU at a PCI address, as in "gfx90a", from the folder of KFD's
/// nodes; empty where they do not show it.
std::string kfd_architecture(const std::filesystem::path& nodes, const std::string& pci);

}  // namespace devrt::gpu
