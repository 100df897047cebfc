#include "gpu/backend.hpp"

#include <algorithm>
#include <utility>

#include "devrt/pjrt/engine/streams.hpp"
#include "execution/custom_calls.hpp"
#include "execution/engine_event.hpp"
#include "gpu/engine.hpp"
#include "gpu/facts.hpp"
#include "gpu/kernels.hpp"
#include "gpu/other_stream.hpp"

namespace devrt::gpu {

namespace {

constexpr unsigned kCopyThreads = 4;
constexpr std::size_t kSmallestRecycled = std::size_t{64} << 10;
constexpr std::size_t kPinnedRegion = std::size_t{16} << 20;

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
  memories_ = make_memories(devices_, options_);
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
         .allocator = memories_[i].allocator,
         .is_host_visible = false,
         .dlpack = {driver_.dlpack.device, devices_[i]->ordinal()},
         .budget = memories_[i].budget,
         .limited_by = "memory_fraction"},
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
    if (memories_[i].managed) {
      facts.memories.push_back({.kind = "managed",
                                .space = kFirstSpace + static_cast<int>(devices_.size()) + local,
                                .allocator = memories_[i].managed,
                                .dlpack = {driver_.dlpack.managed, devices_[i]->ordinal()},
                                .is_for_kernels = true});
    }
    found.push_back(std::move(facts));
  }
  return found;
}

void GpuBackend::set_first_id(int id) {
  for (const auto& device : devices_) {
    device->set_name(native::platform().name + ":" + std::to_string(id++));
  }
}

bool GpuBackend::wait(const native::Queue& queue, const ReadyEvent& event) {
  if (!event.source()) return false;
  // Of a program on another device, the plugin alone says how it ended.
  const auto* output = dynamic_cast<const native::EngineEvent*>(event.source());
  if (output && output->device() != queue.device) return false;
  Lane& lane = lane_of(queue);
  // What its thread has still to give to the stream comes before.
  if (!lane.thread().is_idle()) return false;
  const auto order = [&](Current::When when) {
    const Current current(driver_, devices_[queue.device]->context(), when);
    return order_stream(driver_, lane.stream().handle(), event);
  };
  // The first may have failed for another context that somebody has made current.
  return order(Current::kUnlessKnown) || order(Current::kAlways);
}

bool GpuBackend::is_behind(const native::Queue& queue, const ReadyEvent& event) const {
  return event.dependencies().empty() &&
         devices_[queue.device]->stream(queue.lane, queue.stream).is_of(event);
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
  for (const DeviceMemory& memory : memories_) {
    if (memory.pool_settings) memory.pool_settings->set();
  }
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
  std::vector<Lane*> lanes;  // which stay: they are destroyed with the backend
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, lane] : lanes_) lanes.push_back(lane.get());
  }
  for (Lane* lane : lanes) lane->thread().drain();
  for (const auto& device : devices_) device->drain();
  communicators_.drain();
}

void GpuBackend::synchronize() noexcept {
  for (const auto& device : devices_) {
    const Current current(driver_, device->context());
    if (current.result() == kSuccess) (void)driver_.call.synchronize();
  }
}

void GpuBackend::close() noexcept {
  communicators_.close();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, lane] : lanes_) lane->release();
    for (DeviceMemory& memory : memories_) {
      memory.pool_settings.reset();
      if (memory.arena) memory.arena->keep(0);
    }
  }
  // A pool gives back what is freed once the streams have come to the frees: first those of
  // buffers, then those of the arenas.
  for (int i = 0; i < 2; ++i) {
    for (const auto& device : devices_) device->drain();
    for (const DeviceMemory& memory : memories_) {
      memory.allocator->trim();
      if (memory.managed) memory.managed->trim();
    }
  }
  staging_->trim();
}

native::MemoryCapacity GpuBackend::capacity(int space) const noexcept {
  if (!is_device(space)) return DeviceBackend::capacity(space);
  const auto number = static_cast<std::size_t>(space - kFirstSpace);
  const DeviceMemory& memory = memories_[number];
  const Current current(driver_, devices_[number]->context());
  std::size_t free = 0;
  std::size_t total = 0;
  (void)driver_.call.memory_info(&free, &total);
  if (memory.budget) total = std::min(total, memory.budget->limit());
  const MemoryNow now = memory.allocator->now();
  return {static_cast<std::int64_t>(total), now.largest_free, now.held};
}

std::shared_ptr<native::DeviceBackend> make_gpu_backend(const native::ClientOptions& options) {
  Options own = Options::of(options);
  const Driver& driver = driver_in(own.library);
  return std::make_shared<GpuBackend>(driver, std::move(own));
}

}  // namespace devrt::gpu
