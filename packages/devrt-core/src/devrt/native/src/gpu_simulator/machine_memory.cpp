// Memory that is allocated and freed by the host at once, and what pointers are.
#include <cstring>
#include <new>

#include "gpu_simulator/machine.hpp"

namespace devrt::gpu_simulator {

std::size_t Machine::free_bytes(int device) const {
  std::size_t taken = devices_[static_cast<std::size_t>(device)].allocated;
  for (const auto& [handle, pool] : pools_) taken += pool->device == device ? pool->reserved : 0;
  return settings_.memory - taken;
}

void Machine::check_size(std::size_t bytes) const {
  if (bytes == 0) throw Failure{Code::kInvalidValue};
  if (settings_.out_of_memory_from && bytes >= settings_.out_of_memory_from) {
    throw Failure{Code::kOutOfMemory};
  }
}

Address Machine::allocate(const Call& call, Space space, std::size_t bytes) {
  const Lock memory(bytes_);
  const Lock lock(state_);
  const int device = usable_device();
  check_size(bytes);
  if (space == Space::kDevice && bytes > free_bytes(device)) throw Failure{Code::kOutOfMemory};
  try {
    const AllocationRef made = memory_.make(space, device, bytes, host_moment(call));
    if (space == Space::kDevice) devices_[static_cast<std::size_t>(device)].allocated += bytes;
    std::memset(made->data, kFreshPoison, bytes);
    return made->begin;
  } catch (const std::bad_alloc&) {
    throw Failure{Code::kOutOfMemory};
  }
}

AllocationRef Machine::owned(const Call& call, Address address, bool of_host) {
  const AllocationRef found = memory_.find(address);
  const bool fits = found && found->begin == address && found->space != Space::kRegistered &&
                    (found->space == Space::kPinned) == of_host;
  const std::string text = std::string(call.function) + " (call " + std::to_string(call.number) +
                           ") is given " + hex(address);
  if (!fits) {
    reports_.add("wrong free", text + ", which no such allocation begins at" +
                                   (found ? "; it is in " + found->text() : std::string()));
    throw Failure{Code::kInvalidValue};
  }
  if (found->freed) {
    reports_.add("double free", text + ", which is " + found->text() + " that " +
                                    found->freed->text() + " has freed");
    throw Failure{Code::kInvalidValue};
  }
  return found;
}

void Machine::retire(const AllocationRef& allocation) {
  const Lock memory(bytes_);
  const Lock lock(state_);
  memory_.retire(allocation);
}

void Machine::free(const Call& call, Address address) {
  AllocationRef freed;
  if (address == 0) return;
  {
    Lock lock(state_);
    usable_device();
    freed = owned(call, address, false);
    if (!freed->pool) wait_for_device(lock, freed->device);  // as the drivers do
    if (freed->freed) freed = owned(call, address, false);   // another thread came first
    const MomentRef moment = host_moment(call);
    note_free(*freed, moment, reports_);
    if (freed->pool) {
      pools_.at(freed->pool)->give_back(freed->bytes, moment)->has_run = true;
    } else if (freed->space == Space::kDevice) {
      devices_[static_cast<std::size_t>(freed->device)].allocated -= freed->bytes;
    }
  }
  retire(freed);
}

void Machine::free_host(const Call& call, Address address) {
  AllocationRef freed;
  if (address == 0) return;
  {
    const Lock lock(state_);
    usable_device();
    freed = owned(call, address, true);
    note_free(*freed, host_moment(call), reports_);
  }
  retire(freed);
}

void Machine::register_host(const Call& call, Address address, std::size_t bytes) {
  const Lock lock(state_);
  usable_device();
  if (address == 0 || bytes == 0) throw Failure{Code::kInvalidValue};
  if (memory_.overlaps(address, bytes)) throw Failure{Code::kHostAlreadyRegistered};
  memory_.take(address, bytes, host_moment(call));
}

void Machine::unregister_host(const Call& call, Address address) {
  const Lock lock(state_);
  usable_device();
  const AllocationRef found = memory_.find(address);
  if (!found || found->begin != address || found->space != Space::kRegistered) {
    throw Failure{Code::kHostNotRegistered};
  }
  note_free(*found, host_moment(call), reports_);
  memory_.forget(*found);
}

void Machine::memory_info(std::size_t* free, std::size_t* total) {
  const Lock lock(state_);
  *free = free_bytes(usable_device());
  *total = settings_.memory;
}

PointerFacts Machine::pointer(Address address) {
  const Lock lock(state_);
  const AllocationRef found = memory_.find(address);
  if (!found || found->freed) return {};
  return {found, devices_[static_cast<std::size_t>(found->device < 0 ? 0 : found->device)].context};
}

}  // namespace devrt::gpu_simulator
