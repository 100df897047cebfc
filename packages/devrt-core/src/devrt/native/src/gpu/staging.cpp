#include "gpu/staging.hpp"

#include <utility>

namespace devrt::gpu {

namespace {

constexpr std::size_t kJobs = 64;

void copy_by_host(const Box& box, ThreadPool& pool) {
  const native::RegionCopy copy = on_host(box);
  native::run_region_copies({&copy, 1}, pool);
}

/// Returns the side of a copy whose rows lie without gaps in a chunk.
template <class Byte>
BoxSide<Byte> in_chunk(Byte* data, const Box& box) {
  return {data, box.width, box.height, true};
}

}  // namespace

void copy_box(const GpuDevice& device, const Box& box, StreamHandle* stream) {
  const Driver& driver = device.driver();
  const bool is_to_device = box.from.is_host, is_from_device = box.to.is_host;
  const auto copy_now = [&] {
    if (!box.is_run()) return driver.copy_box(box, stream);
    const auto copy = is_to_device     ? driver.call.copy_to_device
                      : is_from_device ? driver.call.copy_from_device
                                       : driver.call.copy_within;
    return copy(box.to.data, box.from.data, box.width, stream);
  };
  device.check(device.call(copy_now), is_to_device     ? "copy_to_device"
                                      : is_from_device ? "copy_from_device"
                                                       : "copy");
}

Lane::Lane(std::shared_ptr<GpuDevice> device, Stream& stream, std::shared_ptr<HostAllocator> pinned,
           ThreadPool& pool)
    : device_(std::move(device)),
      stream_(stream),
      pinned_(std::move(pinned)),
      pool_(pool),
      thread_("devrt-" + device_->name() + ":copy", kJobs) {}

Lane::~Lane() {
  thread_.close(WorkQueue::OnClose::kDrain);
  release();
}

void Lane::release() noexcept {
  for (Chunk& chunk : chunks_) {
    if (!chunk.data) continue;
    (void)chunk.used.wait();
    pinned_->deallocate(chunk.data, kChunk);
    chunk = {};
  }
}

void Lane::forget() noexcept {
  for (Chunk& chunk : chunks_) chunk.unread.reset();
}

Lane::Chunk& Lane::next() {
  Chunk& chunk = chunks_[next_++ % kChunks];
  if (!chunk.data) {
    chunk.data = static_cast<std::byte*>(pinned_->allocate(kChunk, kAlignment));
    if (!chunk.data) {
      throw StatusError(Status(StatusCode::kResourceExhausted,
                               "No page-locked memory can be had to copy through. Raise the "
                               "container's or the user's limit on locked memory.")
                            .during("copy")
                            .on(device_->name()));
    }
  }
  empty(chunk);
  return chunk;
}

void Lane::empty(Chunk& chunk) {
  raise_if_error(chunk.used.wait());
  if (const auto unread = std::exchange(chunk.unread, {})) copy_by_host(*unread, pool_);
}

void Lane::to_device(const Box& box) {
  for_each_part(box, kChunk, [&](const Box& part) {
    Chunk& chunk = next();
    Box packed = part;
    packed.to = in_chunk(chunk.data, part);
    copy_by_host(packed, pool_);
    packed.to = part.to;
    packed.from = in_chunk<const std::byte>(chunk.data, part);
    const Current current(device_->driver(), device_->context());
    device_->check(current.result(), "set_current");
    copy_box(*device_, packed, stream_.handle());
    chunk.used = device_->record(stream_);
  });
}

void Lane::from_device(const Box& box) {
  for_each_part(box, kChunk, [&](const Box& part) {
    Chunk& chunk = next();
    Box packed = part;
    packed.to = in_chunk(chunk.data, part);
    const Current current(device_->driver(), device_->context());
    device_->check(current.result(), "set_current");
    copy_box(*device_, packed, stream_.handle());
    chunk.used = device_->record(stream_);
    packed.from = in_chunk<const std::byte>(chunk.data, part);
    packed.to = part.to;
    chunk.unread = packed;
  });
}

void Lane::finish() {
  for (std::size_t i = 0; i < kChunks; ++i) empty(chunks_[(next_ + i) % kChunks]);
}

}  // namespace devrt::gpu
