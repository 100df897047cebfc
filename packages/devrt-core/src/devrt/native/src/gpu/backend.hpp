// The GPUs of a process as devices of the native client.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "client/client.hpp"
#include "devrt/async/thread_pool.hpp"
#include "devrt/base/fork_guard.hpp"
#include "gpu/allocators.hpp"
#include "gpu/communicator.hpp"
#include "gpu/device_memory.hpp"
#include "gpu/options.hpp"
#include "gpu/staging.hpp"

namespace devrt::gpu {

class GpuBackend final : public native::DeviceBackend {
 public:
  /// Opens the devices that the options choose. Throws what the driver says.
  GpuBackend(const Driver& driver, Options options);
  ~GpuBackend() override;

  std::vector<native::DeviceFacts> devices() override;
  void set_first_id(int id) override;
  bool has_partitions() const noexcept override { return true; }
  std::size_t alignment() const noexcept override { return kAlignment; }
  std::shared_ptr<HostAllocator> staging() override { return staging_; }
  ReadyEvent copy(const native::Queue& queue, std::span<const native::RegionCopy> copies) override;
  std::size_t calls_of(std::span<const native::RegionCopy> copies) const noexcept override;
  bool wait(const native::Queue& queue, const ReadyEvent& event) override;
  bool is_behind(const native::Queue& queue, const ReadyEvent& event) const override;
  std::shared_ptr<native::OtherStream> other_stream(std::size_t device,
                                                    std::optional<std::intptr_t> number,
                                                    native::StreamProtocol protocol,
                                                    bool is_kept) override;
  std::optional<std::intptr_t> stream_handle(const native::Queue& queue) override;
  ReadyEvent end_of(const native::Queue& queue) override;
  std::optional<std::intptr_t> order_engine(const pjrt::Client& engine, PJRT_Device* device,
                                            const ReadyEvent& event) override;
  void add_dependencies(std::size_t device, const ReadyEvent& event,
                        Dependencies& to) const override {
    devices_[device]->add_dependencies(event, to);
  }
  void engine_was_made() override;
  std::optional<std::size_t> device_at(const void* address) const noexcept override;
  native::AddressRange range_at(const void* address) const noexcept override {
    return driver_.range_at(address);
  }
  std::shared_ptr<native::KernelModule> load_kernels(std::size_t device,
                                                     const std::string& image) override;
  std::shared_ptr<native::Communicator> connect(std::span<const std::size_t> devices,
                                                const native::CollectiveSource& source) override;
  std::shared_ptr<native::Communicator> connect_across(std::span<const std::size_t> devices,
                                                       const native::CollectiveSource& source,
                                                       const native::GroupSpan& span) override;
  std::string new_group_id(const native::CollectiveSource& source) override;
  bool is_idle() const noexcept override;
  void drain() noexcept override;
  void synchronize() noexcept override;
  native::MemoryCapacity capacity(int space) const noexcept override;
  Status health(std::size_t device) const noexcept override { return devices_[device]->health(); }
  Status probe(std::size_t device) const noexcept override { return devices_[device]->probe(); }
  void close() noexcept override;

 private:
  static constexpr std::size_t kAlignment = 256;  // what XLA's GPUs ask of memory
  static constexpr int kPinnedSpace = 0;
  static constexpr int kHeapSpace = 1;
  // Of the devices, each apart from the others; then of their managed memories.
  static constexpr int kFirstSpace = 2;

  Lane& lane_of(const native::Queue& queue);
  void open_peers();
  bool is_pageable(const native::RegionCopy& copy) const noexcept;
  bool is_device(int space) const noexcept;
  bool is_managed(int space) const noexcept;
  /// Gives copies to a lane's stream; returns the event of their end. `is_direct` where the device
  /// reaches both sides of all.
  ReadyEvent start(const native::Queue& queue, Lane& lane,
                   std::span<const native::RegionCopy> copies, bool is_direct);
  void copy_boxes(const native::Queue& queue, Lane& lane, const native::RegionCopy& copy,
                  bool in_chunks) const;
  void copy_to_peer(const GpuDevice& device, Lane& lane, const native::RegionCopy& copy,
                    const Box& box) const;
  std::vector<std::shared_ptr<GpuDevice>> chosen(std::span<const std::size_t> devices) const;
  /// Whether a device may use another's memory.
  bool can_reach(std::size_t device, int space) const noexcept;
  ReadyEvent start_in_thread(const native::Queue& queue, Lane& lane,
                             std::span<const native::RegionCopy> copies);

  const Driver& driver_;
  const Options options_;
  std::vector<std::shared_ptr<GpuDevice>> devices_;
  std::vector<std::vector<std::int64_t>> peers_;
  std::vector<DeviceMemory> memories_;  // of each device
  std::shared_ptr<PinnedAllocator> pinned_;
  std::shared_ptr<HostAllocator> staging_;
  ThreadPool pool_;
  Communicators communicators_;
  ForkGuard fork_;
  mutable std::mutex mutex_;
  std::map<std::tuple<std::size_t, native::Lane, const Stream*>, std::unique_ptr<Lane>> lanes_;
};

/// Makes the backend of a client: the driver is loaded with the first.
std::shared_ptr<native::DeviceBackend> make_gpu_backend(const native::ClientOptions& options);

}  // namespace devrt::gpu
