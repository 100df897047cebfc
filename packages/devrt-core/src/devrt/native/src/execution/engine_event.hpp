// The end of a program, as an output of it knows it: a stream can wait for it in place of the host.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "devrt/async/ready_event.hpp"
#include "devrt/pjrt/engine/streams.hpp"

namespace devrt::native {

class EngineEvent final : public EventSource {
 public:
  /// `end` is the program's, where its device's streams do not learn of all its errors.
  EngineEvent(ReadyEvent done, Ref<pjrt::Buffer> output, std::size_t device,
              std::shared_ptr<const Dependency> end) noexcept
      : done_(std::move(done)), output_(std::move(output)), device_(device), end_(std::move(end)) {}

  /// Returns the client's number of the device that runs the program.
  std::size_t device() const noexcept { return device_; }
  /// Returns what else goes on behind the program depends on; null where streams learn its errors.
  const std::shared_ptr<const Dependency>& end() const noexcept { return end_; }

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
  const std::shared_ptr<const Dependency> end_;
};

}  // namespace devrt::native
