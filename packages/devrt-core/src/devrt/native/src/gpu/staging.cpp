#include "gpu/staging.hpp"

#include <algorithm>
#include <utility>

#include "devrt/buffers/strided_copy.hpp"

namespace devrt::gpu {

namespace {

constexpr std::size_t kJobs = 64;

void copy_on_host(const std::byte* from, std::byte* to, std::size_t count, ThreadPool& pool) {
  const auto bytes = static_cast<std::int64_t>(count);
  const std::int64_t stride = 1;
  copy_to_dense({from, {&bytes, 1}, {&stride, 1}, 1, 1}, to, &pool);
}

}  // namespace

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
  for (Chunk& chunk : chunks_) chunk.target = nullptr;
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
  if (std::byte* target = std::exchange(chunk.target, nullptr)) {
    copy_on_host(chunk.data, target, chunk.bytes, pool_);
  }
}

void Lane::to_device(const Run& run) {
  for (std::size_t at = 0; at < run.bytes; at += kChunk) {
    const std::size_t bytes = std::min(kChunk, run.bytes - at);
    Chunk& chunk = next();
    copy_on_host(run.from + at, chunk.data, bytes, pool_);
    const Current current(device_->driver(), device_->context());
    device_->check(current.result(), "set_current");
    device_->check(
        device_->driver().call.copy_to_device(run.to + at, chunk.data, bytes, stream_.handle()),
        "copy_to_device");
    chunk.used = device_->record(stream_);
  }
}

void Lane::from_device(const Run& run) {
  for (std::size_t at = 0; at < run.bytes; at += kChunk) {
    const std::size_t bytes = std::min(kChunk, run.bytes - at);
    Chunk& chunk = next();
    const Current current(device_->driver(), device_->context());
    device_->check(current.result(), "set_current");
    device_->check(
        device_->driver().call.copy_from_device(chunk.data, run.from + at, bytes, stream_.handle()),
        "copy_from_device");
    chunk.used = device_->record(stream_);
    chunk.target = run.to + at;
    chunk.bytes = bytes;
  }
}

void Lane::finish() {
  for (std::size_t i = 0; i < kChunks; ++i) empty(chunks_[(next_ + i) % kChunks]);
}

}  // namespace devrt::gpu
