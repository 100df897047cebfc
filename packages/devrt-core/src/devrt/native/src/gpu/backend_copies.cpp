// How the backend of GPUs makes copies: directly, in chunks, or from a peer.
#include <algorithm>
#include <utility>

#include "gpu/backend.hpp"

namespace devrt::gpu {

using native::RegionCopy;

bool GpuBackend::is_device(int space) const noexcept {
  return space >= kFirstSpace && space < kFirstSpace + static_cast<int>(devices_.size());
}

bool GpuBackend::is_managed(int space) const noexcept {
  return space >= kFirstSpace + static_cast<int>(devices_.size());
}

bool GpuBackend::is_pageable(const RegionCopy& copy) const noexcept {
  const bool is_read = !is_device(copy.from_space);
  if (!is_read && is_device(copy.to_space)) return false;
  const int space = is_read ? copy.from_space : copy.to_space;
  if (space == kPinnedSpace || is_managed(space)) return false;
  const std::byte* address = is_read ? copy.from : copy.to;
  return !pinned_->owns(address) && !driver_.is_page_locked(address);
}

Lane& GpuBackend::lane_of(const native::Queue& queue) {
  const auto& device = devices_[queue.device];
  Stream& stream = device->stream(queue.lane, queue.stream);
  std::lock_guard lock(mutex_);
  std::unique_ptr<Lane>& lane = lanes_[{queue.device, queue.lane, &stream}];
  if (!lane) lane = std::make_unique<Lane>(device, stream, staging_, pool_);
  return *lane;
}

ReadyEvent GpuBackend::copy(const native::Queue& queue, std::span<const RegionCopy> copies) {
  Lane& lane = lane_of(queue);
  const bool is_direct =
      lane.thread().is_idle() &&
      std::ranges::none_of(copies, [this](const RegionCopy& copy) { return is_pageable(copy); });
  return is_direct ? start(queue, lane, copies, true) : start_in_thread(queue, lane, copies);
}

ReadyEvent GpuBackend::start_in_thread(const native::Queue& queue, Lane& lane,
                                       std::span<const RegionCopy> copies) {
  ReadyPromise promise;
  ReadyEvent ended = promise.event();
  lane.thread().enqueue([this, &lane, queue, promise = std::move(promise),
                         work = std::vector(copies.begin(), copies.end())]() mutable {
    try {
      ReadyEvent last = start(queue, lane, work, false);
      lane.finish();
      last.on_ready(
          [promise = std::move(promise)](const Status& status) mutable { promise.set(status); });
    } catch (const StatusError& error) {
      devices_[queue.device]->finish(lane.stream());
      lane.forget();
      promise.set(error.status());
    }
  });
  return ended;
}

ReadyEvent GpuBackend::start(const native::Queue& queue, Lane& lane,
                             std::span<const RegionCopy> copies, bool is_direct) {
  return devices_[queue.device]->start(lane.stream(), [&] {
    for (const RegionCopy& copy : copies) {
      copy_boxes(queue, lane, copy, !is_direct && is_pageable(copy));
    }
  });
}

std::size_t GpuBackend::calls_of(std::span<const RegionCopy> copies) const noexcept {
  std::size_t calls = 0;
  for (const RegionCopy& copy : copies) calls += boxes_of(copy);
  return calls;
}

void GpuBackend::copy_boxes(const native::Queue& queue, Lane& lane, const RegionCopy& copy,
                            bool in_chunks) const {
  const GpuDevice& device = *devices_[queue.device];
  const bool from_host = !is_device(copy.from_space) && !is_managed(copy.from_space);
  const bool to_host = !is_device(copy.to_space) && !is_managed(copy.to_space);
  const bool between =
      is_device(copy.from_space) && is_device(copy.to_space) && copy.from_space != copy.to_space;
  const int other = copy.from_space - kFirstSpace == static_cast<int>(queue.device)
                        ? copy.to_space
                        : copy.from_space;
  const bool reaches = !between || can_reach(queue.device, other);
  for_each_box(copy, from_host, to_host, [&](const Box& box) {
    if (in_chunks) return from_host ? lane.to_device(box) : lane.from_device(box);
    if (!between || (reaches && !box.is_run())) {
      return copy_box(device, box, lane.stream().handle());
    }
    for_each_part(box, box.width, [&](const Box& run) { copy_to_peer(device, lane, copy, run); });
  });
}

void GpuBackend::copy_to_peer(const GpuDevice& device, Lane& lane, const RegionCopy& copy,
                              const Box& box) const {
  const auto context_of = [this](int space) {
    return devices_[static_cast<std::size_t>(space - kFirstSpace)]->context();
  };
  const auto copy_now = [&] {
    return driver_.copy_peer(box.to.data, context_of(copy.to_space), box.from.data,
                             context_of(copy.from_space), box.width, lane.stream().handle());
  };
  device.check(device.call(copy_now), "copy");
}

bool GpuBackend::can_reach(std::size_t device, int space) const noexcept {
  return std::ranges::find(peers_[device], space - kFirstSpace) != peers_[device].end();
}

}  // namespace devrt::gpu
