#include "gpu/device.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "execution/engine_event.hpp"

namespace devrt::gpu {

namespace {

constexpr unsigned kBlockingSync = 1;   // an event: the waiter sleeps
constexpr unsigned kDisableTiming = 2;  // an event
constexpr std::size_t kCallbacks = 1 << 16;
constexpr std::size_t kFreeEvents = 256;

/// Work of another device. A stream that waits for its event goes on, with what is not there, where
/// that device is lost.
class OtherDevice final : public EventDependency {
 public:
  explicit OtherDevice(const std::shared_ptr<DriverEvent>& work)
      : EventDependency(ReadyEvent::of(work)), work_(work) {}

  bool covers(const Dependency& other) const noexcept override {
    const auto* before = dynamic_cast<const OtherDevice*>(&other);
    return before && work_->covers(*before->work_);
  }

 private:
  const std::shared_ptr<DriverEvent> work_;
};

}  // namespace

Stream::Stream(const GpuDevice& device, StreamHandle* handle, const std::string& name)
    : device_(device), handle_(handle), callbacks_(name, kCallbacks) {}

bool Stream::is_idle() const noexcept {
  const Current current(device_.driver(), device_.context());
  // An error is an end too.
  return device_.driver().call.stream_query(handle_) != kNotReady && callbacks_.is_idle();
}

void Stream::drain() noexcept {
  {
    const Current current(device_.driver(), device_.context());
    (void)device_.status(device_.driver().call.stream_synchronize(handle_), "stream_synchronize");
  }
  callbacks_.drain();
}

bool Stream::is_of(const ReadyEvent& event) const noexcept {
  const auto* source = dynamic_cast<const DriverEvent*>(event.source());
  return source && &source->stream() == this && source->is_in_stream();
}

DriverEvent::~DriverEvent() { device_->give_event(handle_); }

std::optional<Status> DriverEvent::query() noexcept {
  // In a forked child the driver may hold locks for ever; what is destroyed there asks nonetheless.
  if (device_->is_forked()) {
    return Status(StatusCode::kFailedPrecondition, "The process was forked.")
        .because(Reason::kForked)
        .during("event_query");
  }
  // Of all that is done with an event, this alone needs no context.
  const Result result = device_->driver().call.event_query(handle_);
  if (result == kNotReady) return std::nullopt;
  return result == kSuccess ? Status() : wait();
}

std::optional<Status> DriverEvent::wait_for(std::chrono::nanoseconds timeout) noexcept {
  // The driver's own wait has no limit, and signals must be handled meanwhile: so the event is
  // queried, the longer it took already the less often.
  using namespace std::chrono_literals;
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    if (std::optional<Status> ended = query()) return ended;
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited >= timeout) return std::nullopt;
    if (waited < 20us) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(waited / 16, 5us, 1ms));
    }
  }
}

Status DriverEvent::wait() noexcept {
  const auto synchronize = [this] {
    return device_->call([this] { return device_->driver().call.event_synchronize(handle_); });
  };
  Result result = synchronize();
  // Others free what the work uses when it has ended, and an error of the question says nothing of
  // that: only an error that comes again is taken for the end.
  if (result != kSuccess) result = synchronize();
  return device_->status(result, "event_synchronize");
}

void DriverEvent::notify(UniqueFunction<void(const Status&)> ended) {
  // `ended` has a share of this event.
  stream_.callbacks().enqueue([this, ended = std::move(ended)]() mutable { ended(wait()); });
}

bool DriverEvent::ends_before(const EventSource& later, bool is_after) const noexcept {
  // Of another device it may fail while this work goes on: that device alone is lost.
  const auto* other = dynamic_cast<const DriverEvent*>(&later);
  if (!other || other->device_ != device_) return false;
  const bool is_one_stream = is_in_stream_ && other->is_in_stream_ && &other->stream_ == &stream_;
  return is_after || (is_one_stream && other->recorded_.since >= recorded_.until);
}

GpuDevice::GpuDevice(const Driver& driver, int ordinal, std::string name)
    : driver_(driver), ordinal_(ordinal), name_(std::move(name)) {
  check(driver_.call.device_get(&number_, ordinal), "device_get");
  check(driver_.retain(number_, &context_), "context_retain");
}

GpuDevice::~GpuDevice() {
  if (is_forked()) {
    for (auto& stream : streams_) (void)stream.release();  // their threads do not exist here
    return;
  }
  for (const auto& stream : streams_) stream->callbacks().close(WorkQueue::OnClose::kDrain);
  {
    const Current current(driver_, context_);
    for (const auto& stream : streams_) (void)driver_.call.stream_destroy(stream->handle());
    for (EventHandle* event : free_events_) (void)driver_.call.event_destroy(event);
  }
  (void)driver_.release(number_);
}

Stream& GpuDevice::stream(native::Lane lane, std::int64_t id) {
  const std::size_t within =
      id == 0 ? 0 : 1 + static_cast<std::uint64_t>(id) % (kStreamsPerLane - 1);
  return made(lanes_[static_cast<std::size_t>(lane) * kStreamsPerLane + within]);
}

Stream& GpuDevice::made(Slot& slot) {
  if (Stream* found = slot.load(std::memory_order_acquire)) return *found;
  std::lock_guard lock(mutex_);
  if (Stream* found = slot.load(std::memory_order_acquire)) return *found;
  const Current current(driver_, context_);
  check(current.result(), "set_current");
  StreamHandle* handle = nullptr;
  check(driver_.call.stream_create(&handle, kNonBlocking, 0), "stream_create");
  streams_.push_back(std::make_unique<Stream>(*this, handle, "devrt-" + name_));
  slot.store(streams_.back().get(), std::memory_order_release);
  return *streams_.back();
}

int GpuDevice::attribute(int number) const noexcept {
  int value = -1;
  const bool is_there =
      number >= 0 && driver_.call.device_attribute(&value, number, number_) == kSuccess;
  return is_there ? value : -1;
}

std::size_t GpuDevice::total_memory() const {
  std::size_t bytes = 0;
  check(driver_.call.device_total_memory(&bytes, number_), "device_total_memory");
  return bytes;
}

void GpuDevice::finish(Stream& stream) const noexcept {
  const Current current(driver_, context_);
  // Twice: an error of the wait itself says nothing of the work.
  if (driver_.call.stream_synchronize(stream.handle()) == kSuccess) return;
  (void)driver_.call.stream_synchronize(stream.handle());
}

EventHandle* GpuDevice::take_event() {
  {
    std::lock_guard lock(mutex_);
    if (!free_events_.empty()) {
      EventHandle* event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
    free_events_.reserve(kFreeEvents);  // so that none is lost when it comes back
  }
  EventHandle* event = nullptr;
  const Current current(driver_, context_);  // which an event belongs to for ever
  check(current.result(), "set_current");
  check(driver_.call.event_create(&event, kBlockingSync | kDisableTiming), "event_create");
  return event;
}

void GpuDevice::give_event(EventHandle* event) noexcept {
  if (is_forked()) return;
  {
    std::lock_guard lock(mutex_);
    if (free_events_.size() < kFreeEvents) {
      free_events_.push_back(event);
      return;
    }
  }
  const Current current(driver_, context_);
  (void)driver_.call.event_destroy(event);
}

ReadyEvent GpuDevice::record(StreamHandle* recorded, Stream& stream, bool is_in_stream) {
  EventHandle* handle = take_event();
  DriverEvent::Recorded when{stream.recorded(), 0};
  const Result result = call([&] { return driver_.call.event_record(handle, recorded); });
  if (result != kSuccess) {
    give_event(handle);
    raise_if_error(status(result, "event_record"));
  }
  when.until = stream.note_recorded();
  return ReadyEvent::of(
      std::make_shared<DriverEvent>(shared_from_this(), stream, handle, is_in_stream, when));
}

bool GpuDevice::is_idle() const noexcept {
  std::lock_guard lock(mutex_);
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->is_idle(); });
}

void GpuDevice::drain() noexcept {
  const auto stream_at = [this](std::size_t i) {
    std::lock_guard lock(mutex_);
    return i < streams_.size() ? streams_[i].get() : nullptr;
  };
  // Without the lock: events that end meanwhile take it.
  for (std::size_t i = 0; Stream* const stream = stream_at(i); ++i) stream->drain();
}

void GpuDevice::add_dependencies(const ReadyEvent& event, Dependencies& to) const {
  if (!event.source() || (event.is_known() && event.error().ok())) return;
  const auto* output = dynamic_cast<const native::EngineEvent*>(event.source());
  if (output && output->program_end()) return add_dependency(output->program_end(), to);
  devrt::add_dependencies(event.dependencies(), to);
  const auto work = std::dynamic_pointer_cast<DriverEvent>(event.shared_source());
  if (work && &work->device() != this) add_dependency(std::make_shared<OtherDevice>(work), to);
}

Status GpuDevice::status(Result result, const char* operation) const noexcept {
  if (result == kSuccess) return {};
  Result none = kSuccess;
  if (is_lost(result)) lost_.compare_exchange_strong(none, result);
  try {
    return driver_.status(result, operation, name_);
  } catch (...) {
    return Status(code_of(result), operation);
  }
}

Status GpuDevice::probe() noexcept {
  try {
    StreamHandle* handle = release_stream().handle();
    const Result result = call([&] { return driver_.call.stream_query(handle); });
    if (result != kNotReady) (void)status(result, "stream_query");
  } catch (const StatusError&) {
    // The driver makes no stream, and has reported why.
  }
  return health();
}

Status GpuDevice::health() const noexcept {
  const Result lost = lost_.load(std::memory_order_relaxed);
  return lost == kSuccess ? Status() : status(lost, "use");
}

}  // namespace devrt::gpu
