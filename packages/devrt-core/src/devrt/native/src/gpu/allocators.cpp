#include "gpu/allocators.hpp"

#include <algorithm>
#include <utility>

#include "gpu/default_pool.hpp"

namespace devrt::gpu {

namespace {

constexpr unsigned kForAllContexts = 3;  // page-locked memory: portable, and mapped
constexpr unsigned kForAllStreams = 1;   // managed memory: of any device
/// What every allocation of a driver is aligned to.
constexpr std::size_t kDriverAlignment = 256;
/// What pools take from a device at a time.
constexpr std::int64_t kPoolGranule = std::int64_t{2} << 20;

std::int64_t free_on(const GpuDevice& device) noexcept {
  const Current current(device.driver(), device.context());
  std::size_t free = 0;
  std::size_t total = 0;
  (void)device.driver().call.memory_info(&free, &total);
  return static_cast<std::int64_t>(free);
}

/// Returns the address; null when out of memory; throws any other error.
void* result_of(const GpuDevice& device, Result result, void* data, const char* operation) {
  if (result == kOutOfMemory) return nullptr;
  device.check(result, operation);
  return data;
}

/// Gives memory back that is of no pool: the driver waits for the whole device.
void free_now(const GpuDevice& device, void* data) noexcept {
  if (device.is_forked()) return;
  const Current current(device.driver(), device.context());
  (void)device.status(device.driver().call.free(data), "free");
}

const DriverEvent* driver_event(const ReadyEvent& event) noexcept {
  return dynamic_cast<const DriverEvent*>(event.source());
}

}  // namespace

PoolAllocator::PoolAllocator(std::shared_ptr<GpuDevice> device) : device_(std::move(device)) {
  const Driver& driver = device_->driver();
  const Current current(driver, device_->context());
  device_->check(current.result(), "set_current");
  pool_ = default_pool(*device_);
  device_->check(driver.call.stream_create(&stream_, kNonBlocking, 0), "stream_create");
}

PoolAllocator::~PoolAllocator() {
  if (device_->is_forked()) return;
  trim();
  const Current current(device_->driver(), device_->context());
  (void)device_->driver().call.stream_destroy(stream_);
}

void* PoolAllocator::allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment > kDriverAlignment) return nullptr;
  const Functions& driver = device_->driver().call;
  void* data = nullptr;
  const Result result =
      device_->call([&] { return driver.allocate_from_pool(&data, bytes, pool_, stream_); });
  if (!result_of(*device_, result, data, "allocate")) return nullptr;
  // Other streams may use it once this one, which only allocates, has come here: it has already.
  const Result ordered = device_->call([&] { return driver.stream_synchronize(stream_); });
  if (ordered != kSuccess) {
    (void)device_->call([&] { return driver.free_async(data, stream_); });
    device_->check(ordered, "allocate");
  }
  return data;
}

void PoolAllocator::deallocate(void* data, std::size_t) noexcept {
  if (device_->is_forked()) return;
  (void)device_->status(free_behind(data, {}), "free");
}

bool PoolAllocator::deallocate_after(void* data, std::size_t,
                                     std::span<const ReadyEvent> uses) noexcept {
  if (device_->is_forked()) return true;
  for (const ReadyEvent& use : uses) {
    if (!driver_event(use)) return false;
  }
  return free_behind(data, uses) == kSuccess;
}

Result PoolAllocator::free_behind(void* data, std::span<const ReadyEvent> uses) noexcept {
  const Functions& driver = device_->driver().call;
  const auto free_in = [&](StreamHandle* stream) {
    return device_->call([&] { return driver.free_async(data, stream); });
  };
  // One that has ended already is not freed in its stream, where other work may be by now.
  if (uses.size() == 1 && uses[0].is_ready()) uses = {};
  if (uses.size() == 1 && driver_event(uses[0])->is_in_stream() &&
      &driver_event(uses[0])->device() == device_.get()) {
    // In the stream of the use itself, which need not wait for its own event.
    return free_in(driver_event(uses[0])->stream().handle());
  }
  try {
    StreamHandle* stream = device_->release_stream().handle();
    for (const ReadyEvent& use : uses) {
      EventHandle* event = driver_event(use)->handle();
      const Result result =
          device_->call([&] { return driver.stream_wait_event(stream, event, 0); });
      if (result != kSuccess) return result;
    }
    return free_in(stream);
  } catch (const StatusError&) {
    return kOutOfMemory;  // there is no such stream and none can be made
  }
}

void PoolAllocator::trim() noexcept {
  if (device_->is_forked()) return;
  const Current current(device_->driver(), device_->context());
  (void)device_->driver().call.pool_trim(pool_, preallocated_in_pool(*device_));
}

std::uint64_t PoolAllocator::attribute(PoolAttribute attribute) const noexcept {
  std::uint64_t value = 0;
  const Current current(device_->driver(), device_->context());
  (void)device_->driver().call.pool_get_attribute(pool_, attribute, &value);
  return value;
}

MemoryNow PoolAllocator::now() const noexcept {
  if (device_->is_forked()) return {};
  const auto held = static_cast<std::int64_t>(this->held());
  const std::int64_t kept = held - static_cast<std::int64_t>(used());
  return {held, std::max(kept, free_on(*device_) / kPoolGranule * kPoolGranule)};
}

std::vector<AllocatorFact> PoolAllocator::facts() const {
  if (device_->is_forked()) return {};
  return {{"driver_pool_bytes_reserved", static_cast<std::int64_t>(held())},
          {"driver_pool_bytes_in_use", static_cast<std::int64_t>(used())}};
}

void* PlatformAllocator::allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment > kDriverAlignment) return nullptr;
  const Current current(device_->driver(), device_->context());
  device_->check(current.result(), "set_current");
  void* data = nullptr;
  const Result result = device_->driver().call.allocate(&data, bytes);
  return result_of(*device_, result, data, "allocate");
}

void PlatformAllocator::deallocate(void* data, std::size_t) noexcept { free_now(*device_, data); }

MemoryNow PlatformAllocator::now() const noexcept {
  if (device_->is_forked()) return {};
  return {0, free_on(*device_)};
}

bool ManagedAllocator::is_supported(const GpuDevice& device) noexcept {
  const AttributeNumbers& numbers = device.driver().attributes;
  return device.attribute(numbers.managed_memory) > 0 &&
         device.attribute(numbers.concurrent_managed) > 0;
}

void* ManagedAllocator::allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment > kDriverAlignment) return nullptr;
  if (device_->is_forked()) return nullptr;
  const Current current(device_->driver(), device_->context());
  device_->check(current.result(), "set_current");
  void* data = nullptr;
  const Result result = device_->driver().call.allocate_managed(&data, bytes, kForAllStreams);
  return result_of(*device_, result, data, "allocate_managed");
}

void ManagedAllocator::deallocate(void* data, std::size_t) noexcept { free_now(*device_, data); }

template <class Call>
Status PinnedAllocator::call_first_healthy(const Call& call, const char* operation) const {
  Status status;
  for (const auto& device : devices_) {
    status = device->health();
    if (!status.ok()) continue;
    const Current current(device->driver(), device->context());
    status = device->status(call(device->driver(), current.result()), operation);
    if (device->health().ok()) return status;
  }
  return status;
}

void* PinnedAllocator::allocate(std::size_t bytes, std::size_t alignment) {
  if (is_forked()) return nullptr;
  static_assert(kDriverAlignment <= 4096);  // page-locked memory begins at a page
  if (alignment > 4096) return nullptr;
  void* data = nullptr;
  const Status status = call_first_healthy(
      [&](const Driver& driver, Result current) {
        return current == kSuccess ? driver.call.host_allocate(&data, bytes, kForAllContexts)
                                   : current;
      },
      "host_allocate");
  if (status.code() == StatusCode::kResourceExhausted) return nullptr;
  raise_if_error(status);
  std::lock_guard lock(mutex_);
  regions_.emplace(static_cast<const std::byte*>(data), bytes);
  return data;
}

void PinnedAllocator::deallocate(void* data, std::size_t) noexcept {
  if (is_forked()) return;
  {
    std::lock_guard lock(mutex_);
    regions_.erase(static_cast<const std::byte*>(data));
  }
  // Whatever context is current then: the memory is of all of them, and would be lost otherwise.
  (void)call_first_healthy(
      [&](const Driver& driver, Result) { return driver.call.host_free(data); }, "host_free");
}

bool PinnedAllocator::owns(const void* data) const noexcept {
  std::lock_guard lock(mutex_);
  const auto* address = static_cast<const std::byte*>(data);
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return false;
  --after;
  return address < after->first + after->second;
}

bool ArenaInFront::deallocate_after(void* data, std::size_t bytes,
                                    std::span<const ReadyEvent> uses) noexcept {
  if (bytes > largest_) return upstream_->deallocate_after(data, bytes, uses);
  // The bytes count as free from now on; the arena gets them with the last of the events.
  retire(arena_, static_cast<std::byte*>(data), bytes, {}, {uses.begin(), uses.end()});
  return true;
}

MemoryNow ArenaInFront::now() const noexcept {
  MemoryNow now = upstream_->now();
  const ArenaUsage usage = arena_->usage();
  const std::size_t largest = std::min(usage.largest_free_bytes, largest_);
  now.held = std::max(now.held, static_cast<std::int64_t>(usage.held_bytes));
  now.largest_free = std::max(now.largest_free, static_cast<std::int64_t>(largest));
  return now;
}

void* ArenaInFront::allocate(std::size_t bytes, std::size_t alignment) {
  if (void* data = of(bytes).allocate(bytes, alignment)) return data;
  trim();  // regions that nothing is in, and what the driver holds
  return of(bytes).allocate(bytes, alignment);
}

}  // namespace devrt::gpu
