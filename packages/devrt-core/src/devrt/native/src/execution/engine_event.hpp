// The end of a program, as an output of it knows it: a stream can wait for it in place of the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "devrt/async/ready_event.hpp"
#include "devrt/pjrt/engine/streams.hpp"

namespace devrt::native {

/// A call of a program, and who learns how it fails.
struct ProgramCall {
  std::uint64_t number = 0;  ///< of all calls of the process, in the order of their starts
  bool is_of_job = false;    ///< all processes of the job learn it: they take part
  /// The engine starts nothing with the outputs of one that failed.
  bool is_known_to_engine = false;
};

/// Returns the number of a call that is about to start.
inline std::uint64_t next_call_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// The end of a program whose device's streams do not learn all its errors.
class ProgramEnd final : public AwaitedEnd {
 public:
  ProgramEnd(ReadyEvent event, ProgramCall call) noexcept
      : AwaitedEnd(std::move(event)), call_(call) {}

  const ProgramCall& call() const noexcept { return call_; }

 private:
  const ProgramCall call_;
};

class EngineEvent final : public EventSource {
 public:
  /// `end` is the program's where streams do not learn all its errors; null elsewhere.
  EngineEvent(ReadyEvent done, Ref<pjrt::Buffer> output, std::size_t device, ProgramCall call,
              std::shared_ptr<const ProgramEnd> end) noexcept
      : done_(std::move(done)),
        output_(std::move(output)),
        device_(device),
        call_(call),
        end_(std::move(end)) {}

  /// Returns the client's number of the device that runs the program.
  std::size_t device() const noexcept { return device_; }
  const ProgramCall& call() const noexcept { return call_; }
  /// Returns what depends on the program depends on; null where streams learn all its errors.
  const std::shared_ptr<const ProgramEnd>& program_end() const noexcept { return end_; }

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
  void release_output() noexcept {
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
  const ProgramCall call_;
  const std::shared_ptr<const ProgramEnd> end_;
};

}  // namespace devrt::native
