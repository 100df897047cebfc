// Kernels: shared objects of the host, whose functions are called for each block.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "gpu_simulator/kernel.h"
#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

/// A loaded module. Launches that wait keep it.
class Module {
 public:
  /// Loads an image, whose size its header tells. Throws Failure where it is none.
  Module(const void* image, Handle context);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  void* symbol(const char* name) const;
  const Handle context;

 private:
  void* library_ = nullptr;
};

struct Kernel {
  std::shared_ptr<Module> module;
  devrt_simulator_kernel run = nullptr;
  std::vector<std::size_t> parameters;  ///< their sizes
};

struct Launch {
  std::array<unsigned, 3> grid{};
  std::array<unsigned, 3> block{};
  std::size_t shared_bytes = 0;
  void** parameters = nullptr;   ///< where each lies, or null
  const void* packed = nullptr;  ///< all of them, each aligned to its size
  std::size_t packed_bytes = 0;
};

}  // namespace devrt::gpu_simulator
