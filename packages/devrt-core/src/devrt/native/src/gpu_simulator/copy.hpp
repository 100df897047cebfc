// What a copy is from and to.
#pragma once

#include <cstddef>

#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

struct CopySide {
  Address address = 0;
  bool is_device = true;  ///< the caller names it so; else it is the host's
  std::size_t pitch = 0;  ///< between rows
  std::size_t slice = 0;  ///< between planes
  int device = -1;        ///< that the caller names: then no access is needed; -1: none
};

struct Copy {
  CopySide to;
  CopySide from;
  std::size_t width = 0;  ///< in bytes
  std::size_t height = 1;
  std::size_t depth = 1;

  /// Returns how far behind its address the last byte of a side ends.
  std::size_t span(const CopySide& side) const noexcept {
    return (depth - 1) * side.slice + (height - 1) * side.pitch + width;
  }
};

}  // namespace devrt::gpu_simulator
