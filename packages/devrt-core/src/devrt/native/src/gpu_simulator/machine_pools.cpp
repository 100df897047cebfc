// Memory pools: allocations and frees in stream order.
#include <cstring>
#include <new>

#include "gpu_simulator/machine.hpp"

namespace devrt::gpu_simulator {

Handle Machine::default_pool(int device) {
  check_device(device);
  if (!settings_.pools) throw Failure{Code::kNotSupported};
  return devices_[static_cast<std::size_t>(device)].default_pool;
}

Handle Machine::make_pool(int device) {
  check_device(device);
  if (!settings_.pools) throw Failure{Code::kNotSupported};
  const Lock lock(state_);
  const Handle handle = new_handle();
  pools_.emplace(handle, std::make_unique<Pool>(device, false));
  return handle;
}

void Machine::destroy_pool(Handle handle) {
  const Lock lock(state_);
  const auto found = pools_.find(handle);
  if (found == pools_.end() || found->second->is_default) throw Failure{Code::kInvalidValue};
  if (found->second->used > 0) throw Failure{Code::kNotSupported};  // see the header
  pools_.erase(found);
}

void Machine::with_pool(Handle handle, const std::function<void(Pool&)>& body) {
  const Lock lock(state_);
  const auto found = pools_.find(handle);
  if (found == pools_.end()) throw Failure{Code::kInvalidValue};
  body(*found->second);
}

Address Machine::allocate_async(const Call& call, Handle handle, std::size_t bytes,
                                Handle stream_handle) {
  const Lock memory(bytes_);
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, stream_handle, true);
  const auto found = pools_.find(
      handle ? handle : devices_[static_cast<std::size_t>(stream->device)].default_pool);
  if (!settings_.pools) throw Failure{Code::kNotSupported};
  if (found == pools_.end()) throw Failure{Code::kInvalidValue};
  Pool& pool = *found->second;
  check_size(bytes);
  std::vector<Point> waits = join_default(*stream);
  const MomentRef moment = moment_on(call, *stream);
  const std::size_t lacks = pool.lacks(bytes, *moment);
  if (lacks > free_bytes(pool.device)) throw Failure{Code::kOutOfMemory};
  AllocationRef made;
  try {
    made = memory_.make(Space::kDevice, pool.device, bytes, moment);
  } catch (const std::bad_alloc&) {
    throw Failure{Code::kOutOfMemory};
  }
  made->pool = found->first;
  pool.take(bytes, lacks, *moment);
  // Bytes of an earlier life at this address are what a use before the allocation reads.
  std::memset(made->data, kFreedPoison, bytes);
  const auto poison = [this, made](Code) {
    const Lock held(bytes_);
    if (!made->is_retired) std::memset(made->data, kFreshPoison, made->bytes);
  };
  enqueue(stream, moment, std::move(waits), poison);
  return made->begin;
}

void Machine::free_async(const Call& call, Address address, Handle stream_handle) {
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, stream_handle, false);
  if (address == 0) throw Failure{Code::kInvalidValue};
  const AllocationRef freed = owned(call, address, false);
  std::vector<Point> waits = join_default(*stream);
  const MomentRef moment = moment_on(call, *stream);
  note_free(*freed, moment, reports_);
  std::shared_ptr<FreedBytes> bytes;
  if (freed->pool) {
    bytes = pools_.at(freed->pool)->give_back(freed->bytes, moment);
  } else if (freed->space == Space::kDevice) {
    devices_[static_cast<std::size_t>(freed->device)].allocated -= freed->bytes;
  }
  const auto run = [this, freed, bytes](Code) {
    retire(freed);
    const Lock state(state_);
    if (bytes) bytes->has_run = true;
  };
  enqueue(stream, moment, std::move(waits), run, true);
}

void Machine::trim_pools() {
  for (const auto& [handle, pool] : pools_) {
    if (pool->reserved > pool->threshold) pool->trim(pool->threshold);
  }
}

}  // namespace devrt::gpu_simulator
