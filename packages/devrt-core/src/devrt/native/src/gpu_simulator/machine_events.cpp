// Events: points in the work of streams, that others wait for.
#include <chrono>

#include "gpu_simulator/machine.hpp"

namespace devrt::gpu_simulator {

Event& Machine::event_of(const Call& call, Handle handle) {
  const auto found = events_.find(handle);
  if (found == events_.end()) refuse_handle(call, handle, "event");
  return found->second;
}

void Machine::wait_event(const Call& call, Handle handle, Handle event_handle) {
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, handle, false);
  const Event& event = event_of(call, event_handle);
  if (!event.point.stream) return;  // never recorded: there is nothing to wait for
  std::vector<Point> waits = join_default(*stream);
  waits.push_back(event.point);
  stream->clock.join(event.clock);
  enqueue(stream, moment_on(call, *stream), std::move(waits), nullptr);
}

Handle Machine::make_event(bool has_time) {
  const Lock lock(state_);
  const int device = usable_device();
  const Handle handle = new_handle();
  events_[handle] = Event{current(), device, has_time, {}, {}, nullptr};
  return handle;
}

void Machine::destroy_event(const Call& call, Handle handle) {
  const Lock lock(state_);
  event_of(call, handle);
  events_.erase(handle);
}

void Machine::record(const Call& call, Handle handle, Handle stream_handle) {
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, stream_handle, false);
  Event& event = event_of(call, handle);
  if (event.context != stream->context) {
    reports_.add("wrong context", std::string(call.function) + " (call " +
                                      std::to_string(call.number) + ") records event " +
                                      hex(handle) + " of device " + std::to_string(event.device) +
                                      " on a stream of device " + std::to_string(stream->device));
    throw Failure{Code::kInvalidHandle};
  }
  auto when = std::make_shared<std::int64_t>(0);
  submit(call, stream, [this, when](Code) {
    const Lock state(state_);
    *when = std::chrono::steady_clock::now().time_since_epoch().count();
  });
  event.point = {stream, stream->submitted};
  event.clock = stream->clock;
  event.nanoseconds = std::move(when);
}

void Machine::query_event(const Call& call, Handle handle) {
  const Lock lock(state_);
  const Event& event = event_of(call, handle);
  check_health(event.device);
  if (!event.point.stream) return;
  if (!event.point.stream->has_met(event.point.number)) throw Failure{Code::kNotReady};
  host_.join(event.clock);
}

void Machine::synchronize_event(const Call& call, Handle handle) {
  Lock lock(state_);
  const Event event = event_of(call, handle);
  // What waits for another device on a lost one may never end, and the driver does not wait for it.
  if (devices_[static_cast<std::size_t>(event.device)].error == Code::kDeviceLost) {
    check_health(event.device);
  }
  if (event.point.stream) {
    wait_for(lock, event.point);
    host_.join(event.clock);
    trim_pools();
  }
  check_health(event.device);
}

float Machine::elapsed_ms(const Call& call, Handle start, Handle end) {
  const Lock lock(state_);
  const Event& first = event_of(call, start);
  const Event& last = event_of(call, end);
  const bool are_recorded = first.point.stream && last.point.stream;
  if (!are_recorded || !first.has_time || !last.has_time || first.context != last.context) {
    throw Failure{Code::kInvalidHandle};
  }
  for (const Event* event : {&first, &last}) {
    check_health(event->device);
    if (!event->point.stream->has_met(event->point.number)) throw Failure{Code::kNotReady};
  }
  return static_cast<float>(*last.nanoseconds - *first.nanoseconds) / 1e6F;
}

}  // namespace devrt::gpu_simulator
