// Devices whose memory the host cannot reach: a read or write at one of their addresses faults.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "client/client.hpp"
#include "devrt/memory/arena_allocator.hpp"
#include "fixtures.hpp"

namespace harness {

/// Memory mapped twice: without access where the device's addresses are, and for the copies.
class UnreachableMemory final : public devrt::HostAllocator {
 public:
  explicit UnreachableMemory(std::size_t bytes) : bytes_(bytes) {
    const int file = memfd_create("fake-device", 0);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
    address_ = map(file, PROT_NONE);
    shadow_ = map(file, PROT_READ | PROT_WRITE);
    ::close(file);
  }
  ~UnreachableMemory() override {
    munmap(address_, bytes_);
    munmap(shadow_, bytes_);
  }

  /// Hands out one region: what an arena asks for first.
  void* allocate(std::size_t bytes, std::size_t) override {
    return bytes <= bytes_ && !is_out_.exchange(true) ? address_ : nullptr;
  }
  void deallocate(void*, std::size_t) noexcept override { is_out_ = false; }

  std::byte* reachable(const std::byte* at) const { return shadow_ + (at - address_); }

 private:
  std::byte* map(int file, int access) const {
    void* at = mmap(nullptr, bytes_, access, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(at);
  }

  const std::size_t bytes_;
  std::byte* address_ = nullptr;
  std::byte* shadow_ = nullptr;
  std::atomic<bool> is_out_{false};
};

/// The end of work on a fake device.
class FakeEvent : public devrt::EventSource {
 public:
  std::optional<devrt::Status> query() noexcept override {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  std::optional<devrt::Status> wait_for(std::chrono::nanoseconds timeout) noexcept override {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock,
                        std::chrono::system_clock::now() +
                            std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(1)),
                        [this] { return ended_.has_value(); });
    return ended_;
  }
  void notify(devrt::UniqueFunction<void(const devrt::Status&)> ended) override {
    {
      std::lock_guard lock(mutex_);
      ++notified;
      if (!ended_) {
        callback_ = std::move(ended);
        return;
      }
    }
    ended(*ended_);
  }
  void end(devrt::Status status = {}) {
    devrt::UniqueFunction<void(const devrt::Status&)> callback;
    {
      std::lock_guard lock(mutex_);
      ended_ = std::move(status);
      callback = std::move(callback_);
      changed_.notify_all();
    }
    if (callback) callback(*ended_);
  }

  int notified = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<devrt::Status> ended_;
  devrt::UniqueFunction<void(const devrt::Status&)> callback_;
};

/// Devices with memory of their own, "device", and the host's, "pinned_host". Copies are made by a
/// thread for each device and direction, while the gate is open.
class FakeBackend final : public devrt::native::DeviceBackend {
 public:
  explicit FakeBackend(int devices, std::size_t bytes = std::size_t{64} << 20,
                       std::size_t small = 0)
      : at_once(small), bytes_(static_cast<std::int64_t>(bytes)) {
    for (int i = 0; i < devices; ++i) devices_.push_back(std::make_unique<OneDevice>(bytes));
  }
  ~FakeBackend() override { open(); }

  std::vector<devrt::native::DeviceFacts> devices() override {
    std::vector<devrt::native::DeviceFacts> found;
    const auto host = std::make_shared<devrt::AlignedAllocator>();
    for (int i = 0; i < static_cast<int>(devices_.size()); ++i) {
      const OneDevice& device = *devices_[static_cast<std::size_t>(i)];
      found.push_back({10 + i,
                       "fake",
                       {{"device", i, device.arena, false, 1, {2, i}},
                        {"pinned_host", kPinned, host, true, 1 << 16}},
                       {{"cores", std::int64_t{7}}}});
    }
    return found;
  }

  devrt::ReadyEvent copy(const devrt::native::Queue& queue,
                         std::span<const devrt::native::RegionCopy> copies) override {
    ++num_copies;
    const auto ended = std::make_shared<FakeEvent>();
    std::vector<devrt::native::RegionCopy> reachable;
    for (devrt::native::RegionCopy copy : copies) {
      if (is_own(copy.from_space)) copy.from = memory(copy.from_space).reachable(copy.from);
      if (is_own(copy.to_space)) copy.to = memory(copy.to_space).reachable(copy.to);
      reachable.push_back(copy);
    }
    std::vector<std::byte> taken;  // of the first source, where the caller may change it
    if (!is_own(copies.front().from_space) && copies.front().bytes() <= at_once) {
      taken.assign(copies.front().from, copies.front().from + copies.front().run);
      reachable.front().from = taken.data();
    }
    lane(queue).enqueue([this, ended, reachable = std::move(reachable), taken = std::move(taken)] {
      wait_for_gate();
      const devrt::Status failure =
          failing.load() ? devrt::Status(devrt::StatusCode::kInternal, "bus") : devrt::Status();
      if (failure.ok()) {
        for (const auto& copy : reachable) devrt::native::run_region_copy(copy);
      }
      ended->end(failure);
    });
    return devrt::ReadyEvent::of(ended);
  }

  std::size_t read_at_once() const noexcept override { return at_once; }
  std::shared_ptr<devrt::HostAllocator> staging() override { return staged; }

  bool wait(const devrt::native::Queue& queue, const devrt::ReadyEvent& event) override {
    if (!dynamic_cast<FakeEvent*>(event.source())) return false;
    ++num_waits;
    lane(queue).enqueue([event] { (void)event.wait(); });
    return true;
  }
  bool is_idle() const noexcept override {
    for (const auto& device : devices_) {
      for (const auto& lane : device->lanes) {
        if (!lane->is_idle()) return false;
      }
    }
    return true;
  }
  void drain() noexcept override {
    for (int round = 0; round < 2; ++round) {  // work of one may wait for another's
      for (const auto& device : devices_) {
        for (const auto& lane : device->lanes) lane->drain();
      }
    }
  }
  devrt::native::MemoryCapacity capacity(int space) const noexcept override {
    if (!is_own(space)) return DeviceBackend::capacity(space);
    return {bytes_, bytes_ - static_cast<std::int64_t>(arena(space).usage().in_use_bytes)};
  }
  devrt::Status health(std::size_t device) const noexcept override {
    if (lost != static_cast<int>(device)) return {};
    return devrt::Status(devrt::StatusCode::kUnavailable, "The device fell off the bus.");
  }

  void shut() {
    std::lock_guard lock(mutex_);
    is_open_ = false;
  }
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  devrt::ArenaAllocator& arena(int space) const {
    return *devices_[static_cast<std::size_t>(space)]->arena;
  }

  const std::size_t at_once;
  const std::shared_ptr<CountingAllocator> staged = std::make_shared<CountingAllocator>();
  std::atomic<int> num_copies{0};
  std::atomic<int> num_waits{0};
  std::atomic<bool> failing{false};
  std::atomic<int> lost{-1};

 private:
  static constexpr int kPinned = 100;

  struct OneDevice {
    explicit OneDevice(std::size_t bytes)
        : memory(std::make_shared<UnreachableMemory>(bytes)),
          arena(std::make_shared<devrt::ArenaAllocator>(
              memory, devrt::ArenaOptions{.region_bytes = bytes})) {
      for (auto& lane : lanes) lane = std::make_unique<devrt::WorkQueue>("fake", 1024);
    }
    ~OneDevice() {
      for (auto& lane : lanes) lane->close(devrt::WorkQueue::OnClose::kDrain);
    }

    std::shared_ptr<UnreachableMemory> memory;
    std::shared_ptr<devrt::ArenaAllocator> arena;
    std::array<std::unique_ptr<devrt::WorkQueue>, 3> lanes;
  };

  bool is_own(int space) const noexcept {
    return space >= 0 && space < static_cast<int>(devices_.size());
  }
  UnreachableMemory& memory(int space) const {
    return *devices_[static_cast<std::size_t>(space)]->memory;
  }
  devrt::WorkQueue& lane(const devrt::native::Queue& queue) const {
    return *devices_[queue.device]->lanes[static_cast<std::size_t>(queue.lane)];
  }
  void wait_for_gate() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_open_; });
  }

  const std::int64_t bytes_;
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = true;
  std::vector<std::unique_ptr<OneDevice>> devices_;
};

}  // namespace harness
