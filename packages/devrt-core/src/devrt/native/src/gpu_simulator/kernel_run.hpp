// What work of a device does with memory, by its addresses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "gpu_simulator/machine.hpp"

namespace devrt::gpu_simulator {

/// A launch or a program while it runs: finds the bytes of the addresses that it uses. They are to
/// be read and written under the machine's `bytes_`.
class KernelRun {
 public:
  KernelRun(Machine& machine, int device, MomentRef moment)
      : machine_(machine), device_(device), moment_(std::move(moment)) {}

  std::byte* bytes(Address address, std::size_t count, bool writes) {
    const Machine::Lock state(machine_.state_);
    if (machine_.devices_[static_cast<std::size_t>(device_)].error != Code::kSuccess) {
      if (writes)
        note_written(address, count);  // who reads it on a device that goes on is not to blame
      return nowhere_.emplace_back(count).data();
    }
    const AllocationRef found = machine_.memory_.find(address);
    const bool fits = found && !found->is_retired && address + count <= found->end();
    if (!fits || !machine_.can_reach(device_, *found)) return fault(address, count, found, writes);
    const std::size_t begin = address - found->begin;
    machine_.note(*found, {begin, begin + count, writes, moment_});
    if (writes) {
      found->written.add(begin, begin + count);
    } else {
      machine_.note_read(*found, begin, begin + count, *moment_);
    }
    return found->at(address);
  }

  /// Copies bytes out of a device's memory.
  void read(Address address, void* to, std::size_t count) {
    const Machine::Lock memory(machine_.bytes_);
    std::memcpy(to, bytes(address, count, false), count);
  }
  /// Copies bytes into a device's memory.
  void write(Address address, const void* from, std::size_t count) {
    const Machine::Lock memory(machine_.bytes_);
    std::memcpy(bytes(address, count, true), from, count);
  }

  /// Says that the work ends without having written what it was to write.
  void leave(Address address, std::size_t count) {
    const Machine::Lock state(machine_.state_);
    note_written(address, count);
  }

 private:
  /// Under the lock of the machine's state.
  void note_written(Address address, std::size_t count) {
    const AllocationRef found = machine_.memory_.find(address);
    if (!found || found->is_retired) return;
    found->written.add(address - found->begin,
                       std::min(address + count, found->end()) - found->begin);
  }

  /// The device goes on for nobody: its context is lost. The kernel gets bytes that are nobody's.
  std::byte* fault(Address address, std::size_t count, const AllocationRef& found, bool writes) {
    std::string why = " at " + hex(address) + ", where no allocation is";
    if (found && found->is_retired) {
      why = " " + found->text() + ", which " + found->freed->text() + " has freed";
    } else if (found) {
      why = " at " + hex(address) +
            (address + count > found->end() ? ", beyond the end of "
                                            : ", and its device has no access to ") +
            found->text();
    }
    machine_.reports_.add(found && found->is_retired ? "use after free" : "illegal address",
                          moment_->text() + (writes ? " writes " : " reads ") +
                              std::to_string(count) + " bytes" + why);
    machine_.devices_[static_cast<std::size_t>(device_)].error = Code::kIllegalAddress;
    return nowhere_.emplace_back(count).data();
  }

  Machine& machine_;
  const int device_;
  const MomentRef moment_;
  std::deque<std::vector<std::byte>> nowhere_;
};

}  // namespace devrt::gpu_simulator
