// The end of a program, as an output of it knows it: a stream can wait for it in place of the host.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

#include "devrt/async/ready_event.hpp"
#include "devrt/pjrt/engine/streams.hpp"

namespace devrt::native {

class EngineEvent final : public EventSource {
 public:
  EngineEvent(ReadyEvent done, Ref<pjrt::Buffer> output, std::size_t device) noexcept
      : done_(std::move(done)), output_(std::move(output)), device_(device) {}

  /// Returns the client's number of the device that runs the program.
  std::size_t device() const noexcept { return device_; }

  std::optional<Status> query() noexcept override {
    if (!done_.is_ready()) return std::nullopt;
    return done_.error();
  }
  std::optional<Status> wait_for(std::chrono::nanoseconds timeout) noexcept override {
    return done_.wait_for(timeout);
  }
  void notify(UniqueFunction<void(const Status&)> ended) override {
    done_.on_ready(std::move(ended));
  }

  /// Has a stream wait for the output. Returns whether it does; not where the program has ended.
  bool order(std::intptr_t stream) noexcept {
    const Ref<pjrt::Buffer> output = share();
    return output && pjrt::wait_on_stream(*output, stream);
  }
  /// Gives up the output, before the event is ready.
  void end() noexcept {
    Ref<pjrt::Buffer> output;  // released without the lock
    std::lock_guard lock(mutex_);
    output.swap(output_);
  }

 private:
  Ref<pjrt::Buffer> share() noexcept {
    std::lock_guard lock(mutex_);
    return output_.share();
  }

  const ReadyEvent done_;
  std::mutex mutex_;
  Ref<pjrt::Buffer> output_;
  const std::size_t device_;
};

}  // namespace devrt::native
