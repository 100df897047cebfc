// Streams of other libraries: what the client waits for on them, and what it has them wait for.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "client/device_backend.hpp"
#include "gpu/device.hpp"

namespace devrt::gpu {

class ForeignStream final : public native::OtherStream {
 public:
  ForeignStream(std::shared_ptr<GpuDevice> device, StreamHandle* handle, bool is_kept) noexcept
      : device_(std::move(device)), handle_(handle), is_kept_(is_kept) {}

  bool wait(const ReadyEvent& event) override;
  ReadyEvent record() override;
  ReadyEvent record_if_there() noexcept override;

 private:
  bool is_capturing() const noexcept;
  /// Throws INVALID_ARGUMENT for a number that is no stream's.
  void check_handle(const char* remedy) const;
  bool is_there() const noexcept;

  const std::shared_ptr<GpuDevice> device_;
  StreamHandle* const handle_;
  const bool is_kept_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

/// Returns the handle that a protocol's number stands for. Throws INVALID_ARGUMENT for the numbers
/// that it does not allow.
StreamHandle* handle_of(const GpuDevice& device, std::optional<std::intptr_t> number,
                        native::StreamProtocol protocol);

}  // namespace devrt::gpu
