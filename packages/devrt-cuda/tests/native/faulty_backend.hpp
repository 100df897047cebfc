// The backend of GPUs with one fault planted in it: what tests of the client must not miss.
#pragma once

#include "gpu_client.hpp"

namespace devrt::gpu {

enum class Fault {
  kNone,
  kNoWait,         ///< work begins without a wait for what fills its arrays
  kEndsAtOnce,     ///< a launch is taken for ended when it has been started
  kOtherDevice,    ///< kernels are loaded on the device beside
  kConsumerFirst,  ///< another library's stream does not wait for an array that it gets
  kProducerLast,   ///< an array of another library is taken before its stream has filled it
  kUnseenUse,      ///< the use by another library's stream is not waited for before a free
};

class FaultyFunction final : public KernelFunction {
 public:
  explicit FaultyFunction(std::shared_ptr<KernelFunction> function)
      : function_(std::move(function)) {}
  void check(const LaunchShape& shape, std::span<const std::size_t> sizes) const override {
    function_->check(shape, sizes);
  }
  ReadyEvent launch(const Queue& queue, const LaunchShape& shape,
                    std::span<void*> parameters) override {
    (void)function_->launch(queue, shape, parameters);
    return {};
  }
  void launch_in(void* stream, const LaunchShape& shape, std::span<void*> parameters) override {
    function_->launch_in(stream, shape, parameters);
  }
  bool is_current() const noexcept override { return function_->is_current(); }
  std::vector<std::pair<std::string, std::int64_t>> attributes() const override {
    return function_->attributes();
  }
  std::pair<int, int> suggest_block(std::size_t shared_bytes) const override {
    return function_->suggest_block(shared_bytes);
  }

 private:
  const std::shared_ptr<KernelFunction> function_;
};

class FaultyModule final : public KernelModule {
 public:
  explicit FaultyModule(std::shared_ptr<KernelModule> module) : module_(std::move(module)) {}
  std::shared_ptr<KernelFunction> function(const std::string& name) override {
    return std::make_shared<FaultyFunction>(module_->function(name));
  }

 private:
  const std::shared_ptr<KernelModule> module_;
};

class FaultyStream final : public OtherStream {
 public:
  FaultyStream(std::shared_ptr<OtherStream> stream, Fault fault)
      : stream_(std::move(stream)), fault_(fault) {}
  bool wait(const ReadyEvent& event) override {
    return fault_ == Fault::kConsumerFirst || stream_->wait(event);
  }
  ReadyEvent record() override {
    return fault_ == Fault::kProducerLast ? ReadyEvent() : stream_->record();
  }
  ReadyEvent record_if_there() noexcept override {
    return fault_ == Fault::kUnseenUse ? ReadyEvent() : stream_->record_if_there();
  }

 private:
  const std::shared_ptr<OtherStream> stream_;
  const Fault fault_;
};

class FaultyBackend final : public DeviceBackend {
 public:
  FaultyBackend(std::shared_ptr<DeviceBackend> backend, Fault fault)
      : backend_(std::move(backend)), fault_(fault) {}

  std::vector<DeviceFacts> devices() override { return backend_->devices(); }
  std::size_t alignment() const noexcept override { return backend_->alignment(); }
  std::shared_ptr<HostAllocator> staging() override { return backend_->staging(); }
  ReadyEvent copy(const Queue& queue, std::span<const RegionCopy> copies) override {
    return backend_->copy(queue, copies);
  }
  bool wait(const Queue& queue, const ReadyEvent& event) override {
    return fault_ == Fault::kNoWait || backend_->wait(queue, event);
  }
  bool is_behind(const Queue& queue, const ReadyEvent& event) const override {
    return backend_->is_behind(queue, event);
  }
  std::shared_ptr<KernelModule> load_kernels(std::size_t device,
                                             const std::string& image) override {
    if (fault_ == Fault::kOtherDevice) device = 1 - device;
    std::shared_ptr<KernelModule> module = backend_->load_kernels(device, image);
    if (fault_ != Fault::kEndsAtOnce) return module;
    return std::make_shared<FaultyModule>(std::move(module));
  }
  bool is_idle() const noexcept override { return backend_->is_idle(); }
  void drain() noexcept override { backend_->drain(); }
  void close() noexcept override { backend_->close(); }
  MemoryCapacity capacity(int space) const noexcept override { return backend_->capacity(space); }
  Status health(std::size_t device) const noexcept override { return backend_->health(device); }
  std::shared_ptr<OtherStream> other_stream(std::size_t device, std::optional<std::intptr_t> number,
                                            StreamProtocol protocol, bool is_kept) override {
    return std::make_shared<FaultyStream>(backend_->other_stream(device, number, protocol, is_kept),
                                          fault_);
  }
  std::optional<std::intptr_t> stream_handle(const Queue& queue) override {
    return backend_->stream_handle(queue);
  }
  std::optional<std::size_t> device_at(const void* address) const noexcept override {
    return backend_->device_at(address);
  }
  AddressRange range_at(const void* address) const noexcept override {
    return backend_->range_at(address);
  }

 private:
  const std::shared_ptr<DeviceBackend> backend_;
  const Fault fault_;
};

}  // namespace devrt::gpu
