// A call of a kernel by a program. Programs of simulated devices run on the processor, so the
// arrays of the call are the host's, and the kernel runs while the program waits for it.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

/// What a program's calls have for a stream. No stream that is made has this handle.
inline constexpr Handle kProgramStream = 0x50fffff0;

/// While it lives, what this thread launches on `kProgramStream` runs at once, on these arrays.
class ProgramCall {
 public:
  struct Array {
    Address begin;
    std::size_t bytes;
    bool is_result;
  };

  ProgramCall(int device, std::vector<Array> arrays) noexcept
      : device_(device), arrays_(std::move(arrays)) {
    current() = this;
  }
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;
  ~ProgramCall() { current() = outer_; }

  /// The one that this thread makes; null for none.
  static const ProgramCall*& current() noexcept {
    thread_local const ProgramCall* now = nullptr;
    return now;
  }

  int device() const noexcept { return device_; }
  /// Returns where the bytes are; null where they are not all of one array, or none to be written.
  std::byte* find(Address address, std::size_t count, bool writes) const noexcept {
    for (const Array& each : arrays_) {
      const bool is_in = address >= each.begin && address - each.begin <= each.bytes &&
                         count <= each.bytes - (address - each.begin);
      if (is_in && (each.is_result || !writes)) return reinterpret_cast<std::byte*>(address);
    }
    return nullptr;
  }

 private:
  const ProgramCall* const outer_ = current();
  const int device_;
  const std::vector<Array> arrays_;
};

}  // namespace devrt::gpu_simulator
