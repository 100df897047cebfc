// An allocation, what was done with its bytes, and which of it has no order.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gpu_simulator/clock.hpp"
#include "gpu_simulator/ranges.hpp"
#include "gpu_simulator/report.hpp"
#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

enum class Space {
  kDevice,      ///< no host reads it
  kManaged,     ///< the host and all devices do
  kPinned,      ///< of the host; all devices read it
  kRegistered,  ///< pinned, but the client's own
};

inline constexpr int kFreshPoison = 0xa5;
inline constexpr int kFreedPoison = 0xdd;
inline constexpr std::size_t kFewAccesses = 16;  // as many are kept of each allocation

/// Bytes that repeat at distances: rows of a width, and planes of rows.
struct Rows {
  std::size_t width = 0;  ///< 0: no rows, but all bytes
  std::size_t height = 1;
  std::size_t pitch = 0;
  std::size_t depth = 1;
  std::size_t slice = 0;

  bool operator==(const Rows&) const = default;
};

/// A use of bytes by an operation.
struct Access {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool writes = false;
  MomentRef moment;
  Rows rows = {};  ///< of the bytes between; else all of them
};

struct Allocation {
  std::uint64_t id = 0;
  Space space = Space::kDevice;
  int device = -1;  ///< that it was made on
  Address begin = 0;
  std::size_t bytes = 0;
  std::byte* data = nullptr;  ///< where the simulator reads and writes it
  Handle pool = 0;
  MomentRef made;
  MomentRef freed;          ///< null until then
  bool is_retired = false;  ///< the free has run
  std::vector<Access> accesses;
  std::size_t forget_at = kFewAccesses;  ///< at how many to forget those that are over
  RangeSet written;

  Address end() const noexcept { return begin + bytes; }
  std::string text() const;
  std::byte* at(Address address) const noexcept { return data + (address - begin); }
};
using AllocationRef = std::shared_ptr<Allocation>;

/// Notes an access, and reports what is wrong with it: bytes outside, an allocation that is not
/// made yet or freed, another access without an order. `known` is what the host knows to be over.
void note_access(Allocation& allocation, Access access, const Clock* known, Reports& reports);

/// Notes that an allocation is freed, and reports accesses that may come later.
void note_free(Allocation& allocation, MomentRef moment, Reports& reports);

}  // namespace devrt::gpu_simulator
