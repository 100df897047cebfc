// Copies between a device and memory of the host that the device cannot read by itself.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "devrt/async/thread_pool.hpp"
#include "devrt/async/work_queue.hpp"
#include "devrt/memory/allocator.hpp"
#include "gpu/box.hpp"
#include "gpu/device.hpp"

namespace devrt::gpu {

/// Has a device copy what it can reach by itself.
void copy_box(const GpuDevice& device, const Box& box, StreamHandle* stream);

/// What is given to one queue: a stream, and for pageable memory a thread that moves it through
/// page-locked chunks, several at once: the host copies one while the device copies others.
class Lane {
 public:
  static constexpr std::size_t kChunk = std::size_t{4} << 20;
  static constexpr std::size_t kChunks = 4;

  Lane(std::shared_ptr<GpuDevice> device, Stream& stream, std::shared_ptr<HostAllocator> pinned,
       ThreadPool& pool);
  ~Lane();

  Stream& stream() const noexcept { return stream_; }
  /// Runs what must not overtake copies through chunks, and those.
  WorkQueue& thread() noexcept { return thread_; }

  // In the lane's thread. Throw what the driver says.
  void to_device(const Box& box);
  void from_device(const Box& box);
  /// Waits for chunks that the host has to read yet.
  void finish();
  /// Leaves out what the host has to read yet: its target may be gone after an error.
  void forget() noexcept;
  /// Gives the chunks back.
  void release() noexcept;

 private:
  struct Chunk {
    std::byte* data = nullptr;
    ReadyEvent used;            ///< by the device
    std::optional<Box> unread;  ///< what the host copies out of it, once that is there
  };

  Chunk& next();
  void empty(Chunk& chunk);

  const std::shared_ptr<GpuDevice> device_;
  Stream& stream_;
  const std::shared_ptr<HostAllocator> pinned_;
  ThreadPool& pool_;
  std::array<Chunk, kChunks> chunks_;
  std::size_t next_ = 0;
  WorkQueue thread_;
};

}  // namespace devrt::gpu
