// All that a vendor writes in C++: which devices there are, and how bytes come and go.
//
// These are simulated: memory of the host stands for that of the devices, which only copy()
// touches. A driver of real ones puts copies on the device's streams, and makes a ReadyEvent of an
// event of the device's own by devrt::EventSource.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.hpp"
#include "devrt/memory/limit_allocator.hpp"

namespace devrt_acme_native {

using namespace devrt;
using namespace devrt::native;

constexpr int kPinnedSpace = 0;  // the devices have the spaces from 1 on: theirs are apart
constexpr dlpack::Device kExtension{12, 0};
constexpr std::size_t kSmallestRecycled = std::size_t{64} << 10;
/// So few bytes are copied sooner than handed on.
constexpr std::size_t kAtOnce = std::size_t{64} << 10;
constexpr std::int64_t kDeviceBytes = std::int64_t{1} << 30;

class Backend final : public DeviceBackend {
 public:
  Backend(int num_devices, std::chrono::microseconds delay) : delay_(delay) {
    for (int i = 0; i < num_devices; ++i) {
      memories_.push_back(std::make_shared<LimitAllocator>(
          std::make_shared<AlignedAllocator>(), std::make_shared<ByteBudget>(kDeviceBytes)));
      queues_.push_back(std::make_unique<StreamQueues>("acme:" + std::to_string(i), 64));
    }
  }
  ~Backend() override {
    for (const auto& queues : queues_) queues->close(StreamQueues::OnClose::kDrain);
  }

  std::vector<DeviceFacts> devices() override {
    const auto pinned = std::make_shared<AlignedAllocator>();
    std::vector<DeviceFacts> found;
    for (int i = 0; i < static_cast<int>(queues_.size()); ++i) {
      const auto& own = memories_[static_cast<std::size_t>(i)];
      found.push_back({.local_hardware_id = i,
                       .kind = "Acme Simulator 2",
                       .memories = {{.kind = "device",
                                     .space = kPinnedSpace + 1 + i,
                                     .allocator = own,
                                     .is_host_visible = false,
                                     .dlpack = kExtension},
                                    {.kind = "pinned_host",
                                     .space = kPinnedSpace,
                                     .allocator = pinned,
                                     .smallest_recycled = kSmallestRecycled}},
                       .attributes = {{"cores", std::int64_t{8}}}});
    }
    return found;
  }

  std::size_t read_at_once() const noexcept override { return delay_.count() == 0 ? kAtOnce : 0; }
  ReadyEvent copy(const Queue& queue, std::span<const RegionCopy> copies) override {
    std::size_t bytes = 0;
    for (const RegionCopy& copy : copies) bytes += copy.bytes();
    if (bytes <= read_at_once()) {
      for (const RegionCopy& copy : copies) run_region_copy(copy);
      return {};
    }
    ReadyPromise promise;
    ReadyEvent ended = promise.event();
    queues_[queue.device]->enqueue(queue.stream,
                                   [delay = delay_, promise = std::move(promise),
                                    work = std::vector(copies.begin(), copies.end())]() mutable {
                                     std::this_thread::sleep_for(delay);
                                     for (const RegionCopy& copy : work) run_region_copy(copy);
                                     promise.set();
                                   });
    return ended;
  }

  bool is_idle() const noexcept override {
    for (const auto& queues : queues_) {
      if (!queues->is_idle()) return false;
    }
    return true;
  }
  void drain() noexcept override {
    for (const auto& queues : queues_) queues->drain();
  }

  MemoryCapacity capacity(int space) const noexcept override {
    const auto device = static_cast<std::size_t>(space - kPinnedSpace - 1);
    if (device >= memories_.size()) return DeviceBackend::capacity(space);
    return {kDeviceBytes, static_cast<std::int64_t>(memories_[device]->free_bytes())};
  }

 private:
  const std::chrono::microseconds delay_;
  std::vector<std::shared_ptr<HostAllocator>> memories_;
  std::vector<std::unique_ptr<StreamQueues>> queues_;
};

}  // namespace devrt_acme_native

namespace devrt::native {

const Platform& platform() {
  static const Platform acme{.name = "acme_native", .engine = {}};  // it compiles nothing
  return acme;
}

std::shared_ptr<DeviceBackend> make_backend(const ClientOptions& options) {
  const std::int64_t delay = options.backend_option<std::int64_t>("delay").value_or(0);
  return std::make_shared<devrt_acme_native::Backend>(options.num_devices,
                                                      std::chrono::microseconds(delay));
}

}  // namespace devrt::native
