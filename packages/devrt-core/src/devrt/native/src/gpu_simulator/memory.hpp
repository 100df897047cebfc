// Addresses, and the allocations at them.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "gpu_simulator/allocation.hpp"
#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

/// A range of addresses that allocations are laid into, one after the other, with gaps between:
/// an address is not used again before the end of the window was met. The simulator reads and
/// writes at another place of the process; at the addresses themselves nobody can, if they are a
/// device's.
class Window {
 public:
  /// Reserves addresses. Throws std::bad_alloc where the kernel does not give them.
  Window(std::size_t bytes, bool host_can_read);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window();

  Address begin() const noexcept { return begin_; }
  Address end() const noexcept { return begin_ + bytes_; }
  std::byte* data(Address address) const noexcept { return data_ + (address - begin_); }
  /// Gives the pages of an allocation back to the system.
  void release(Address begin, std::size_t bytes) const noexcept;

  Address next = 0;  ///< where the next allocation is looked for

 private:
  std::size_t bytes_;
  Address begin_ = 0;
  std::byte* data_ = nullptr;
  void* shield_ = nullptr;  // what the host cannot read; null where it may
};

/// All allocations, and of those that were freed the last thousands, unless their addresses are
/// used again. Guarded by the machine's lock.
class Memory {
 public:
  explicit Memory(int devices);

  /// Makes an allocation in a device's memory, or for -1 in the host's. Throws std::bad_alloc.
  AllocationRef make(Space space, int device, std::size_t bytes, MomentRef moment);
  /// Takes memory of the client's own.
  AllocationRef take(Address begin, std::size_t bytes, MomentRef moment);
  /// Forgets what `take` took.
  void forget(const Allocation& allocation) { allocations_.erase(allocation.begin); }

  /// Returns the allocation that an address is in, alive or not; null if there is none.
  AllocationRef find(Address address) const;
  /// Returns whether an address could be a device's: the host can neither read nor write there.
  bool is_device_address(Address address) const noexcept;
  /// Returns whether memory of a range is known already, and not freed.
  bool overlaps(Address begin, std::size_t bytes) const;

  /// Poisons an allocation whose free has run; its pages go when others have come after it.
  void retire(const AllocationRef& allocation);

  std::size_t count(Space space) const;
  /// Returns what is in a device's memory and not freed.
  std::vector<AllocationRef> alive(int device) const;

 private:
  const Window& window_of(const Allocation& allocation) const;
  Address find_gap(Window& window, std::size_t bytes);
  /// Returns whether an allocation is still the one at its address.
  bool is_known(const Allocation& allocation) const;

  std::vector<std::unique_ptr<Window>> windows_;  // of each device, and at the end of the host
  std::map<Address, AllocationRef> allocations_;
  std::deque<AllocationRef> poisoned_;  // freed, and their bytes still there
  std::size_t poisoned_bytes_ = 0;
  std::deque<AllocationRef> retired_;  // freed, and still known
  std::uint64_t last_id_ = 0;
};

}  // namespace devrt::gpu_simulator
