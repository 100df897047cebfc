#include "kfd.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>

namespace devrt::gpu {

namespace {

using KernelProperties = std::map<std::string, std::uint64_t>;

KernelProperties read_properties(std::ifstream& file) {
  KernelProperties found;
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) found[name] = value;
  return found;
}

/// Returns the name of a version: 90010 is 9.0.10, gfx90a.
std::string name_of(std::uint64_t version) {
  if (version == 0) return {};  // a kernel that does not say
  const auto part = [version](unsigned divisor) {
    return static_cast<unsigned>(version / divisor % 100);
  };
  char name[32];
  (void)std::snprintf(name, sizeof name, "gfx%u%x%x", part(10000), part(100), part(1));
  return name;
}

}  // namespace

std::string kfd_architecture(const std::filesystem::path& nodes, const std::string& pci) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(pci.c_str(), "%x:%x:%x", &domain, &bus, &slot) != 3) return {};
  for (int node = 0;; ++node) {
    std::ifstream file(nodes / std::to_string(node) / "properties");
    if (!file) return {};
    KernelProperties properties = read_properties(file);
    if (properties["location_id"] == (bus << 8 | slot << 3) && properties["domain"] == domain &&
        properties["simd_count"] > 0) {
      return name_of(properties["gfx_target_version"]);
    }
  }
}

}  // namespace devrt::gpu
