// One GPU as the client uses it: its context, the streams that work is given to, and their events.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/device_backend.hpp"
#include "devrt/async/ready_event.hpp"
#include "devrt/async/work_queue.hpp"
#include "devrt/base/fork_guard.hpp"
#include "gpu/driver.hpp"

namespace devrt::gpu {

class GpuDevice;

/// What a stream is made with: its work does not wait for that of the default stream.
inline constexpr unsigned kNonBlocking = 1;

/// A stream of the driver, and a thread for those who want to be called when its work has ended.
class Stream {
 public:
  Stream(const GpuDevice& device, StreamHandle* handle, const std::string& name);

  StreamHandle* handle() const noexcept { return handle_; }
  /// Runs tasks in order, each of which waits for an event of this stream: none waits for longer
  /// than it must. Deep, since to give a buffer up leaves a task here and must not wait.
  WorkQueue& callbacks() noexcept { return callbacks_; }
  bool is_idle() const noexcept;
  void drain() noexcept;
  /// Returns whether an event is of the stream's own work.
  bool is_of(const ReadyEvent& event) const noexcept;
  /// Returns how many events of the stream have been recorded at least. What is recorded from now
  /// on comes after those.
  std::uint64_t recorded() const noexcept { return recorded_.load(std::memory_order_acquire); }
  /// Counts an event once its record was called; returns its number.
  std::uint64_t note_recorded() noexcept {
    return recorded_.fetch_add(1, std::memory_order_acq_rel) + 1;
  }

 private:
  const GpuDevice& device_;
  StreamHandle* const handle_;
  WorkQueue callbacks_;
  std::atomic<std::uint64_t> recorded_{0};
};

/// The end of what was given to a stream before it was recorded.
class DriverEvent final : public EventSource {
 public:
  /// When an event was recorded, in numbers of its stream's events.
  struct Recorded {
    std::uint64_t since;  ///< so many surely came before
    std::uint64_t until;  ///< its own number: what is recorded at so many comes after
  };
  /// `stream` calls back; `is_in_stream` where the event is of its work, not of another library's.
  DriverEvent(std::shared_ptr<GpuDevice> device, Stream& stream, EventHandle* handle,
              bool is_in_stream, Recorded recorded) noexcept
      : device_(std::move(device)),
        stream_(stream),
        handle_(handle),
        is_in_stream_(is_in_stream),
        recorded_(recorded) {}
  ~DriverEvent() override;

  std::optional<Status> query() noexcept override;
  std::optional<Status> wait_for(std::chrono::nanoseconds timeout) noexcept override;
  void notify(UniqueFunction<void(const Status&)> ended) override;
  bool waits_in_notify() const noexcept override { return true; }
  bool ends_before(const EventSource& later, bool is_after) const noexcept override;

  const GpuDevice& device() const noexcept { return *device_; }
  Stream& stream() const noexcept { return stream_; }
  bool is_in_stream() const noexcept { return is_in_stream_; }
  EventHandle* handle() const noexcept { return handle_; }
  /// Returns whether it ends well only if another does: one before it in its stream.
  bool covers(const DriverEvent& other) const noexcept {
    return &other.stream_ == &stream_ && is_in_stream_ && other.is_in_stream_ &&
           recorded_.since >= other.recorded_.until;
  }

 private:
  Status wait() noexcept;

  const std::shared_ptr<GpuDevice> device_;
  Stream& stream_;
  EventHandle* const handle_;
  const bool is_in_stream_;
  const Recorded recorded_;
};

/// A device and its context. Whatever uses the device has a share; the last gives the context back.
class GpuDevice : public std::enable_shared_from_this<GpuDevice> {
 public:
  /// Streams of one direction: execution streams beyond share them.
  static constexpr std::size_t kStreamsPerLane = 4;

  GpuDevice(const Driver& driver, int ordinal, std::string name);
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;
  ~GpuDevice();

  const Driver& driver() const noexcept { return driver_; }
  int ordinal() const noexcept { return ordinal_; }
  DeviceNumber number() const noexcept { return number_; }
  Context context() const noexcept { return context_; }
  const std::string& name() const noexcept { return name_; }
  /// Gives it the client's name, before others use it.
  void set_name(std::string name) noexcept { name_ = std::move(name); }
  /// Returns an attribute by the driver's number; -1 where it has none, which is no error.
  int attribute(int number) const noexcept;
  std::size_t total_memory() const;

  /// Returns the stream of a queue, made at the first call.
  Stream& stream(native::Lane lane, std::int64_t id);
  /// Returns the stream that memory is given back on, behind what still uses it.
  Stream& release_stream() { return made(release_); }
  /// Returns an event of what was given to a stream until now. The device must be current.
  ReadyEvent record(Stream& stream) { return record(stream.handle(), stream, true); }
  /// Makes a call that names a stream, an event or a kernel of this device. Where the thread had
  /// the device's context last it is made at once; if somebody has made another one current since,
  /// the driver refuses it, and it is made again.
  template <class Call>
  Result call(const Call& make) const {
    const auto make_in = [&](Current::When when) {
      const Current current(driver_, context_, when);
      return current.result() == kSuccess ? make() : current.result();
    };
    const Result result = make_in(Current::kUnlessKnown);
    const bool is_refused = driver_.names_contexts && is_of_other_context(result);
    if (!is_refused) [[likely]]
      return result;
    driver_.forget_refusal();
    return make_in(Current::kAlways);
  }
  /// Calls what gives work to a stream by `call`, and returns the event of its end. Throws only
  /// once the stream is done with it: nobody keeps memory for work that has no event.
  template <class Give>
  ReadyEvent start(Stream& stream, const Give& give) {
    const Current current(driver_, context_, Current::kUnlessKnown);
    check(current.result(), "set_current");
    try {
      give();
      return record(stream);
    } catch (...) {
      finish(stream);
      throw;
    }
  }
  /// The same of a stream of another library's.
  ReadyEvent record_other(StreamHandle* stream) { return record(stream, release_stream(), false); }
  /// Waits for what was given to a stream, as far as its driver can.
  void finish(Stream& stream) const noexcept;
  bool is_idle() const noexcept;
  void drain() noexcept;

  /// Adds what work depends on that this device begins behind an event.
  void add_dependencies(const ReadyEvent& event, Dependencies& to) const;

  /// Returns the error of a call, and remembers one after which the device takes no more work.
  Status status(Result result, const char* operation) const noexcept;
  void check(Result result, const char* operation) const {
    if (result != kSuccess) [[unlikely]]
      raise_if_error(status(result, operation));
  }
  /// Returns why the device takes no more work.
  Status health() const noexcept;
  /// Returns the same once the driver was queried for an error of work that nobody waited for.
  Status probe() noexcept;
  bool is_forked() const noexcept { return fork_.is_child(); }

 private:
  friend class DriverEvent;
  using Slot = std::atomic<Stream*>;

  Stream& made(Slot& slot);
  ReadyEvent record(StreamHandle* recorded, Stream& stream, bool is_in_stream);
  EventHandle* take_event();
  void give_event(EventHandle* event) noexcept;

  const Driver& driver_;
  const int ordinal_;
  std::string name_;
  DeviceNumber number_ = 0;
  Context context_ = 0;
  mutable std::atomic<Result> lost_{kSuccess};
  ForkGuard fork_;
  mutable std::mutex mutex_;
  std::vector<EventHandle*> free_events_;
  std::array<Slot, native::kLanes * kStreamsPerLane> lanes_{};
  Slot release_{nullptr};
  std::vector<std::unique_ptr<Stream>> streams_;  // under the lock; only added to
};

}  // namespace devrt::gpu
