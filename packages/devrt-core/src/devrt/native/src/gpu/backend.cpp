#include "gpu/backend.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "devrt/memory/limit_allocator.hpp"
#include "devrt/pjrt/engine/streams.hpp"
#include "execution/custom_calls.hpp"
#include "gpu/engine.hpp"
#include "gpu/facts.hpp"
#include "gpu/kernels.hpp"
#include "gpu/other_stream.hpp"

namespace devrt::gpu {

namespace {

constexpr unsigned kCopyThreads = 4;
constexpr std::size_t kSmallestRecycled = std::size_t{64} << 10;
constexpr std::size_t kSmallest = std::size_t{1} << 20;     // that a pool is given
constexpr std::size_t kSmallRegion = std::size_t{8} << 20;  // of the arena in front of a pool
constexpr std::size_t kBfcRegion = std::size_t{64} << 20;   // of memory that is an arena's
constexpr std::size_t kManagedRegion = std::size_t{16} << 20;
constexpr std::size_t kPinnedRegion = std::size_t{16} << 20;
constexpr double kUsualFraction = 0.75;  // XLA's

std::size_t total_of(const GpuDevice& device) {
  std::size_t total = 0;
  device.check(device.driver().call.device_total_memory(&total, device.number()),
               "device_total_memory");
  return total;
}

}  // namespace

GpuBackend::GpuBackend(const Driver& driver, Options options)
    : driver_(driver), options_(std::move(options)), pool_("devrt-gpu:copy", kCopyThreads) {
  driver_.check(driver_.call.init(0), "init");
  int count = 0;
  driver_.check(driver_.call.device_count(&count), "device_count");
  if (count == 0) {
    throw StatusError(Status(StatusCode::kUnavailable,
                             "The driver " + driver_.library() +
                                 " shows no device. Check the variables that hide devices, and "
                                 "what the container was given.")
                          .during("device_count"));
  }
  for (const int ordinal : choose_devices(options_, count)) {
    devices_.push_back(std::make_shared<GpuDevice>(
        driver_, ordinal, native::platform().name + ":" + std::to_string(devices_.size())));
  }
  pinned_ = std::make_shared<PinnedAllocator>(devices_);
  staging_ = std::make_shared<ArenaAllocator>(
      pinned_, ArenaOptions{.region_bytes = kPinnedRegion, .keep_bytes = 4 * kPinnedRegion});
  for (const auto& device : devices_) memories_.push_back(make_allocator(device));
  // A device's is used by all others.
  if (std::ranges::all_of(
          devices_, [](const auto& device) { return ManagedAllocator::is_supported(*device); })) {
    for (const auto& device : devices_) {
      managed_.push_back(std::make_shared<ArenaAllocator>(
          std::make_shared<ManagedAllocator>(device),
          ArenaOptions{.region_bytes = kManagedRegion, .keep_bytes = kManagedRegion}));
    }
  }
  open_peers();
}

GpuBackend::~GpuBackend() {
  if (fork_.is_child()) {
    // The threads of the lanes and of the driver do not exist here, and nobody unlocks what they
    // had locked.
    for (auto& [key, lane] : lanes_) (void)lane.release();
    return;
  }
  drain();
  communicators_.close();
  lanes_.clear();
  for (const auto& device : devices_) device->end_following();
}

void GpuBackend::open_peers() {
  for (const auto& device : devices_) {
    const Current current(driver_, device->context());
    std::vector<std::int64_t>& peers = peers_.emplace_back();
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const GpuDevice& peer = *devices_[i];
      int can = 0;
      if (&peer == device.get() ||
          driver_.call.device_can_access_peer(&can, device->number(), peer.number()) != kSuccess ||
          !can)
        continue;
      const Result result = driver_.enable_peer(peer.number(), peer.context());
      if (result != kSuccess && result != kPeerAccessAlreadyEnabled) continue;
      // The engine allocates from the pool even where this client does not.
      if (has_pools(peer) && open_pool(peer, *device) != kSuccess) continue;
      peers.push_back(static_cast<std::int64_t>(i));
    }
  }
}

std::shared_ptr<HostAllocator> GpuBackend::limited(const GpuDevice& device,
                                                   std::shared_ptr<HostAllocator> source) {
  std::size_t& limit = limits_.emplace_back(0);
  if (!options_.memory_fraction) return source;
  limit =
      static_cast<std::size_t>(static_cast<double>(total_of(device)) * *options_.memory_fraction);
  return std::make_shared<LimitAllocator>(std::move(source), std::make_shared<ByteBudget>(limit));
}

std::shared_ptr<HostAllocator> GpuBackend::make_allocator(
    const std::shared_ptr<GpuDevice>& device) {
  AllocatorKind kind = options_.allocator;
  if (kind == AllocatorKind::kPool && !has_pools(*device)) {
    throw StatusError(Status(StatusCode::kUnimplemented,
                             device->name() + " has no memory pools. Use allocator='bfc'.")
                          .during("make_gpu_client")
                          .on(device->name()));
  }
  if (kind == AllocatorKind::kDefault)
    kind = has_pools(*device) ? AllocatorKind::kPool : AllocatorKind::kBfc;
  std::shared_ptr<HostAllocator> made;
  if (kind == AllocatorKind::kPool) {
    pool_settings_.push_back(std::make_unique<PoolSettings>(device));
    made = std::make_shared<ArenaInFront>(
        limited(*device, std::make_shared<PoolAllocator>(device)),
        ArenaOptions{.region_bytes = kSmallRegion, .keep_bytes = 2 * kSmallRegion}, kSmallest);
  } else if (kind == AllocatorKind::kBfc) {
    made = std::make_shared<ArenaInFront>(
        limited(*device, std::make_shared<PlatformAllocator>(device)),
        ArenaOptions{.region_bytes = kBfcRegion}, std::numeric_limits<std::size_t>::max());
  } else {
    made = limited(*device, std::make_shared<PlatformAllocator>(device));
  }
  if (options_.preallocate && kind != AllocatorKind::kPlatform) preallocate(*device, *made);
  return made;
}

void GpuBackend::preallocate(const GpuDevice& device, HostAllocator& allocator) const {
  // Taken once and given back: the pool, or the arena, keeps it.
  const double fraction = options_.memory_fraction.value_or(kUsualFraction);
  const std::size_t granule = ArenaOptions{}.granule;  // an arena takes whole ones
  const auto bytes =
      static_cast<std::size_t>(static_cast<double>(total_of(device)) * std::min(fraction, 1.0)) /
      granule * granule;
  // Of a driver's allocation every alignment is met, and more bytes would be beyond the limit.
  void* data = allocator.allocate(bytes, 1);
  if (!data) {
    throw StatusError(Status(StatusCode::kResourceExhausted,
                             std::to_string(bytes) + " bytes cannot be taken in advance on " +
                                 device.name() +
                                 ". Ask for a smaller memory_fraction, or leave preallocate out.")
                          .during("make_gpu_client")
                          .on(device.name()));
  }
  allocator.deallocate(data, bytes);
}

std::vector<native::DeviceFacts> GpuBackend::devices() {
  const auto heap = std::make_shared<AlignedAllocator>();
  const dlpack::Device host{dlpack::kCpu, 0};
  std::vector<native::DeviceFacts> found;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    native::DeviceFacts facts = facts_of(*devices_[i], peers_[i]);
    const auto local = static_cast<int>(i);
    facts.memories = {
        {.kind = "device",
         .space = kFirstSpace + local,
         .allocator = memories_[i],
         .is_host_visible = false,
         .dlpack = {driver_.dlpack.device, devices_[i]->ordinal()}},
        {.kind = "pinned_host",
         .space = kPinnedSpace,
         .allocator = staging_,
         .dlpack = {driver_.dlpack.pinned, 0}},
        {.kind = "unpinned_host",
         .space = kHeapSpace,
         .allocator = heap,
         .smallest_recycled = kSmallestRecycled,
         .dlpack = host},
    };
    if (!managed_.empty()) {
      facts.memories.push_back({.kind = "managed",
                                .space = kFirstSpace + static_cast<int>(devices_.size()) + local,
                                .allocator = managed_[i],
                                .dlpack = {driver_.dlpack.managed, devices_[i]->ordinal()},
                                .is_for_kernels = true});
    }
    found.push_back(std::move(facts));
  }
  return found;
}

bool GpuBackend::wait(const native::Queue& queue, const ReadyEvent& event) {
  if (!event.source()) return false;
  Lane& lane = lane_of(queue);
  // What its thread has still to give to the stream comes before.
  if (!lane.thread().is_idle()) return false;
  const auto order = [&](Current::When when) {
    const Current current(driver_, devices_[queue.device]->context(), when);
    return order_stream(driver_, lane.stream().handle(), event);
  };
  // The first may have failed for another context that somebody has made current.
  if (!order(Current::kUnlessKnown) && !order(Current::kAlways)) return false;
  lane.stream().follow(event);
  return true;
}

bool GpuBackend::is_behind(const native::Queue& queue, const ReadyEvent& event) const {
  return devices_[queue.device]->stream(queue.lane, queue.stream).is_of(event);
}

std::optional<std::intptr_t> GpuBackend::order_engine(const pjrt::Client& engine,
                                                      PJRT_Device* device,
                                                      const ReadyEvent& event) {
  if (!event.source()) return std::nullopt;
  const auto found = pjrt::stream_of(engine.api(), device);
  if (!found) return std::nullopt;
  return order_stream(driver_, reinterpret_cast<StreamHandle*>(*found), event) ? found
                                                                               : std::nullopt;
}

void GpuBackend::engine_was_made() {
  native::set_custom_call_copy(&copy_on_stream);
  // The plugin has the pools that it shares keep nothing.
  std::lock_guard lock(mutex_);
  for (const auto& settings : pool_settings_) settings->set();
}

std::shared_ptr<native::OtherStream> GpuBackend::other_stream(std::size_t device,
                                                              std::optional<std::intptr_t> number,
                                                              native::StreamProtocol protocol,
                                                              bool is_kept) {
  const auto& owner = devices_[device];
  return std::make_shared<ForeignStream>(owner, handle_of(*owner, number, protocol), is_kept);
}

std::optional<std::intptr_t> GpuBackend::stream_handle(const native::Queue& queue) {
  Stream& stream = devices_[queue.device]->stream(queue.lane, queue.stream);
  return reinterpret_cast<std::intptr_t>(stream.handle());
}

ReadyEvent GpuBackend::end_of(const native::Queue& queue) {
  GpuDevice& device = *devices_[queue.device];
  const Current current(driver_, device.context());
  device.check(current.result(), "set_current");
  return device.record(device.stream(queue.lane, queue.stream));
}

std::optional<std::size_t> GpuBackend::device_at(const void* address) const noexcept {
  const int ordinal = driver_.device_at(address);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i]->ordinal() == ordinal) return i;
  }
  return std::nullopt;
}

std::shared_ptr<native::KernelModule> GpuBackend::load_kernels(std::size_t device,
                                                               const std::string& image) {
  return load_module(devices_[device], image);
}

std::vector<std::shared_ptr<GpuDevice>> GpuBackend::chosen(
    std::span<const std::size_t> devices) const {
  std::vector<std::shared_ptr<GpuDevice>> made;
  for (const std::size_t device : devices) made.push_back(devices_[device]);
  return made;
}

std::shared_ptr<native::Communicator> GpuBackend::connect(std::span<const std::size_t> devices,
                                                          const native::CollectiveSource& source) {
  return communicators_.find(chosen(devices), source);
}

std::shared_ptr<native::Communicator> GpuBackend::connect_across(
    std::span<const std::size_t> devices, const native::CollectiveSource& source,
    const native::GroupSpan& span) {
  return communicators_.join(chosen(devices), source, span);
}

std::string GpuBackend::new_group_id(const native::CollectiveSource& source) {
  return collective_library(source).new_id();
}

bool GpuBackend::is_idle() const noexcept {
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, lane] : lanes_) {
      if (!lane->thread().is_idle()) return false;
    }
  }
  return std::ranges::all_of(devices_, [](const auto& device) { return device->is_idle(); });
}

void GpuBackend::drain() noexcept {
  if (fork_.is_child()) return;
  std::vector<Lane*> lanes;  // which stay: they go with the backend
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, lane] : lanes_) lanes.push_back(lane.get());
  }
  for (Lane* lane : lanes) lane->thread().drain();
  for (const auto& device : devices_) device->drain();
  communicators_.drain();
}

void GpuBackend::close() noexcept {
  communicators_.close();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, lane] : lanes_) lane->release();
    pool_settings_.clear();
  }
  for (const auto& memory : memories_) memory->trim();
  for (const auto& memory : managed_) memory->trim();
  staging_->trim();
}

native::MemoryCapacity GpuBackend::capacity(int space) const noexcept {
  if (!is_device(space)) return DeviceBackend::capacity(space);
  const auto number = static_cast<std::size_t>(space - kFirstSpace);
  const Current current(driver_, devices_[number]->context());
  std::size_t free = 0;
  std::size_t total = 0;
  (void)driver_.call.memory_info(&free, &total);
  if (limits_[number] > 0) total = std::min(total, limits_[number]);
  return {static_cast<std::int64_t>(total),
          static_cast<std::int64_t>(std::min(free, memories_[number]->free_bytes()))};
}

std::shared_ptr<native::DeviceBackend> make_gpu_backend(const native::ClientOptions& options) {
  Options own = Options::of(options);
  const Driver& driver = driver_in(own.library);
  return std::make_shared<GpuBackend>(driver, std::move(own));
}

}  // namespace devrt::gpu
