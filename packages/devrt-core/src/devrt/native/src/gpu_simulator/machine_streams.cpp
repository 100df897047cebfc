// Streams, and the threads that run their work.
#include <chrono>
#include <thread>

#include "gpu_simulator/machine.hpp"

namespace devrt::gpu_simulator {
namespace {

/// Mixes numbers to one that looks like chance.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// Waits as long as the seed says: a third of all operations not at all.
void delay(const Settings& settings, const Moment& moment) {
  const std::uint64_t chance = mix(mix(settings.seed) ^ mix(moment.actor << 32 ^ moment.time));
  if (settings.delay_us == 0 || chance % 3 == 0) return;
  if (chance % 3 == 1) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds((chance >> 8) % settings.delay_us));
}

}  // namespace

StreamRef Machine::new_stream(int device, bool is_blocking, Handle handle) {
  auto stream = std::make_shared<Stream>();
  stream->handle = handle;
  stream->device = device;
  stream->context = devices_[static_cast<std::size_t>(device)].context;
  stream->actor = actors_++;
  stream->is_blocking = is_blocking;
  return stream;
}

StreamRef Machine::stream_of(const Call& call, Handle handle, bool of_current) {
  if (handle <= 2) {  // the default stream, by each of its names
    usable_device();
    return default_streams_.at(current());
  }
  const auto found = streams_.find(handle);
  if (found == streams_.end()) refuse_handle(call, handle, "stream");
  if (of_current && (usable_device(), found->second->context != current())) {
    if (settings_.wrong_contexts) {
      reports_.add("wrong context",
                   std::string(call.function) + " (call " + std::to_string(call.number) +
                       ") is given stream " + hex(handle) + " of device " +
                       std::to_string(found->second->device) + ", and another context is current");
    }
    throw Failure{Code::kInvalidHandle};
  }
  check_health(found->second->device);
  return found->second;
}

MomentRef Machine::moment_on(const Call& call, Stream& stream) {
  auto moment = std::make_shared<Moment>();
  stream.clock.join(host_);
  moment->function = call.function;
  moment->number = call.number;
  moment->device = stream.device;
  moment->stream = stream.handle;
  moment->actor = stream.actor;
  moment->time = stream.clock.at(stream.actor) + 1;
  stream.clock.raise(stream.actor, moment->time);
  devices_[static_cast<std::size_t>(stream.device)].own.raise(stream.actor, moment->time);
  moment->clock = stream.clock;
  return moment;
}

std::vector<Point> Machine::join_default(Stream& stream) {
  std::vector<Point> points;
  const auto join = [&](const StreamRef& other) {
    if (other->submitted == other->completed && other->submitted == 0) return;
    points.push_back({other, other->submitted});
    stream.clock.join(other->clock);
  };
  if (!stream.is_blocking) return points;
  const StreamRef& by_default = default_streams_.at(stream.context);
  if (by_default.get() != &stream) {
    join(by_default);
    return points;
  }
  for (const auto& [handle, other] : streams_) {
    if (other->context == stream.context && other->is_blocking) join(other);
  }
  for (const StreamRef& other : destroyed_streams_) {
    if (other->context == stream.context && other->is_blocking) join(other);
  }
  stream.clock.join(devices_[static_cast<std::size_t>(stream.device)].past);
  return points;
}

void Machine::enqueue(const StreamRef& stream, MomentRef moment, std::vector<Point> waits,
                      std::function<void(Code)> run, bool even_if_failed) {
  ++stream->submitted;
  stream->queue.push_back({std::move(moment), std::move(waits), std::move(run), even_if_failed});
  if (!stream->has_thread) {
    stream->has_thread = true;
    std::thread(&Machine::work, shared_from_this(), stream).detach();
  }
  stream->work.notify_one();
}

void Machine::submit(const Call& call, const StreamRef& stream, std::function<void(Code)> run,
                     bool even_if_failed) {
  std::vector<Point> waits = join_default(*stream);
  enqueue(stream, moment_on(call, *stream), std::move(waits), std::move(run), even_if_failed);
}

void Machine::work(std::shared_ptr<Machine> machine, StreamRef stream) {
  Lock lock(machine->state_);
  while (true) {
    stream->work.wait(
        lock, [&] { return !stream->queue.empty() || stream->is_closing || machine->is_stopped_; });
    if (machine->is_stopped_ || stream->queue.empty()) break;
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    for (const Point& point : operation.waits) machine->wait_for(lock, point);
    if (machine->is_stopped_) break;
    lock.unlock();
    machine->perform(stream, operation);
    operation = {};  // what the work keeps is released before others see its end
    lock.lock();
    ++stream->completed;
    stream->progress.notify_all();
  }
  stream->progress.notify_all();  // nobody waits for what was dropped
}

Code Machine::begin_work(int number) {
  const auto lost = settings_.lost.find(number);
  Lock memory;
  if (lost != settings_.lost.end()) memory = Lock(bytes_);
  const Lock lock(state_);
  Device& device = devices_[static_cast<std::size_t>(number)];
  if (lost != settings_.lost.end() && ++device.operations == lost->second &&
      device.error == Code::kSuccess) {
    device.error = Code::kDeviceLost;
  }
  return device.error;
}

bool Machine::has_failed(int device) {
  const Lock lock(state_);
  return devices_[static_cast<std::size_t>(device)].error != Code::kSuccess;
}

void Machine::perform(const StreamRef& stream, const Operation& operation) {
  delay(settings_, *operation.moment);
  if (!operation.run) return;
  const Code error = begin_work(stream->device);
  if (error == Code::kSuccess || operation.even_if_failed) operation.run(error);
}

void Machine::wait_for(Lock& lock, const Point& point) {
  Stream& stream = *point.stream;
  stream.progress.wait(lock, [&] { return stream.has_met(point.number) || is_stopped_; });
}

void Machine::wait_for_device(Lock& lock, int device) {
  std::vector<Point> points;
  Clock clock = devices_[static_cast<std::size_t>(device)].past;
  const auto add = [&](const StreamRef& stream) {
    if (stream->device != device) return;
    points.push_back({stream, stream->submitted});
    clock.join(stream->clock);
  };
  for (const auto& [handle, stream] : streams_) add(stream);
  for (const auto& [handle, stream] : default_streams_) add(stream);
  for (const StreamRef& stream : destroyed_streams_) add(stream);
  for (const Point& point : points) wait_for(lock, point);
  host_.join(clock);
}

Handle Machine::make_stream(bool is_blocking) {
  const Lock lock(state_);
  const int device = usable_device();
  const Handle handle = new_handle();
  streams_[handle] = new_stream(device, is_blocking, handle);
  return handle;
}

void Machine::destroy_stream(const Call& call, Handle handle) {
  const Lock lock(state_);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) refuse_handle(call, handle, "stream");
  const StreamRef stream = found->second;
  stream->is_closing = true;  // its thread ends after the work that it has
  stream->work.notify_all();
  devices_[static_cast<std::size_t>(stream->device)].past.join(stream->clock);
  streams_.erase(found);
  std::erase_if(destroyed_streams_,
                [](const auto& each) { return each->has_met(each->submitted); });
  destroyed_streams_.push_back(stream);
}

void Machine::synchronize_stream(const Call& call, Handle handle) {
  Lock lock(state_);
  const StreamRef stream = stream_of(call, handle, false);
  const std::vector<Point> others =
      stream->handle == 0 ? join_default(*stream) : std::vector<Point>();
  const Clock clock = stream->clock;
  for (const Point& point : others) wait_for(lock, point);
  wait_for(lock, {stream, stream->submitted});
  host_.join(clock);
  trim_pools();
  check_health(stream->device);
}

void Machine::query_stream(const Call& call, Handle handle) {
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, handle, false);
  if (!stream->has_met(stream->submitted)) throw Failure{Code::kNotReady};
  host_.join(stream->clock);
}

void Machine::check_stream(const Call& call, Handle handle) {
  const Lock lock(state_);
  stream_of(call, handle, false);
}

void Machine::call_host(const Call& call, Handle handle, bool even_if_failed,
                        std::function<void(Code)> function) {
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, handle, false);
  const std::vector<Point> waits = join_default(*stream);
  const MomentRef moment = moment_on(call, *stream);
  const auto run = [this, moment, function = std::move(function)](Code error) {
    {
      const Lock state(state_);
      host_.join(moment->clock);  // the host may now do what has to come after this
    }
    in_host_function() = true;
    function(error);
    in_host_function() = false;
  };
  enqueue(stream, moment, waits, run, even_if_failed);
}

}  // namespace devrt::gpu_simulator
