#include "gpu/facts.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace devrt::gpu {

namespace {

std::string name_of(const GpuDevice& device) {
  char name[256] = {};
  device.check(device.driver().call.device_name(name, sizeof name - 1, device.number()),
               "device_name");
  return name;
}

std::string pci_of(const GpuDevice& device) {
  char id[64] = {};
  if (device.driver().call.device_pci_bus_id(id, sizeof id - 1, device.number()) != kSuccess) {
    return {};
  }
  std::string lower(id);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::string uuid_of(const GpuDevice& device) {
  Uuid uuid{};
  if (device.driver().call.device_uuid(&uuid, device.number()) != kSuccess) return {};
  return device.driver().uuid_text(uuid);
}

std::int64_t numa_of(const GpuDevice& device, const std::string& pci) {
  const int node = device.attribute(device.driver().attributes.numa_node);
  if (node >= 0) return node;
  std::int64_t found = -1;
  std::ifstream("/sys/bus/pci/devices/" + pci + "/numa_node") >> found;
  return found;
}

}  // namespace

native::DeviceFacts facts_of(const GpuDevice& device, const std::vector<std::int64_t>& peers) {
  const Driver& driver = device.driver();
  const AttributeNumbers& numbers = driver.attributes;
  native::DeviceFacts facts;
  facts.local_hardware_id = device.ordinal();
  facts.kind = name_of(device);
  const auto add = [&](const char* name, std::int64_t value) {
    if (value >= 0) facts.attributes.emplace_back(name, value);
  };
  const auto add_text = [&](const char* name, std::string value) {
    if (!value.empty()) facts.attributes.emplace_back(name, std::move(value));
  };
  const int major = device.attribute(numbers.major);
  const int minor = device.attribute(numbers.minor);
  const std::string pci = pci_of(device);
  const std::string architecture = driver.architecture(device.number(), major, minor, pci);
  add_text("device_vendor", std::string(driver.vendor));
  add_text("compute_capability", driver.compute_capability(major, minor, architecture));
  add_text("architecture", architecture);
  add("memory_bytes", static_cast<std::int64_t>(device.total_memory()));
  add("core_count", device.attribute(numbers.multiprocessors));
  add("clock_khz", device.attribute(numbers.clock_khz));
  add("memory_clock_khz", device.attribute(numbers.memory_clock_khz));
  add("memory_bus_bits", device.attribute(numbers.memory_bus_bits));
  add("l2_cache_bytes", device.attribute(numbers.l2_bytes));
  add("warp_size", device.attribute(numbers.warp_size));
  add_text("pci_bus_id", pci);
  add_text("uuid", uuid_of(device));
  add("numa_node", numa_of(device, pci));
  facts.attributes.emplace_back("peers", peers);
  facts.attributes.emplace_back("memory_pools", device.attribute(numbers.memory_pools) > 0);
  add_text("driver_version", driver.version_text());
  return facts;
}

}  // namespace devrt::gpu
