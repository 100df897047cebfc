// What the callers of a GPU client choose.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/client.hpp"

namespace devrt::gpu {

enum class AllocatorKind { kDefault, kPlatform, kBfc, kPool };

struct Options {
  std::string library;                              ///< the driver's; the vendor's own if empty
  std::optional<std::vector<int>> allowed_devices;  ///< by the driver's numbers
  /// What chose them, as errors name it: an option of a user's, or a variable.
  std::string allowed_from = "allowed_devices";
  AllocatorKind allocator = AllocatorKind::kDefault;
  std::optional<double> memory_fraction;  ///< of a device's memory, at most
  bool preallocate = false;

  /// Reads them; throws INVALID_ARGUMENT that names the wrong one.
  static Options of(const native::ClientOptions& options);
};

/// Returns the numbers of the devices to use, in their order; throws if none are left.
std::vector<int> choose_devices(const Options& options, int count);

}  // namespace devrt::gpu
