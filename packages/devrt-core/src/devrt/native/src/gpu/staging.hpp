// Copies between a device and memory of the host that the device cannot read by itself.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "devrt/async/thread_pool.hpp"
#include "devrt/async/work_queue.hpp"
#include "devrt/memory/allocator.hpp"
#include "gpu/device.hpp"

namespace devrt::gpu {

/// Contiguous bytes to copy.
struct Run {
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;
};

/// Calls `function` with each run of a copy.
template <class Function>
void for_each_run(const native::RegionCopy& copy, Function&& function, std::size_t level = 0,
                  std::ptrdiff_t from = 0, std::ptrdiff_t to = 0) {
  if (level == copy.depth) return function(Run{copy.from + from, copy.to + to, copy.run});
  for (std::int64_t i = 0; i < copy.extent[level]; ++i) {
    for_each_run(copy, function, level + 1, from + i * copy.from_step[level],
                 to + i * copy.to_step[level]);
  }
}

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
  void to_device(const Run& run);
  void from_device(const Run& run);
  /// Waits for chunks that the host has to read yet.
  void finish();
  /// Leaves out what the host has to read yet: its target may be gone after an error.
  void forget() noexcept;
  /// Gives the chunks back.
  void release() noexcept;

 private:
  struct Chunk {
    std::byte* data = nullptr;
    ReadyEvent used;              ///< by the device
    std::byte* target = nullptr;  ///< where the host copies its bytes to, once they are there
    std::size_t bytes = 0;
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
