// Devices, contexts, and the machine's end.
#include "gpu_simulator/machine.hpp"

#include <algorithm>
#include <utility>

namespace devrt::gpu_simulator {
namespace {

thread_local Handle current_context = 0;

}  // namespace

Machine::Machine(Settings settings, const Model& model)
    : settings_(std::move(settings)),
      model_(model),
      devices_(static_cast<std::size_t>(settings_.devices)),
      memory_(settings_.devices),
      reports_(settings_.print) {
  for (int i = 0; i < settings_.devices; ++i) {
    const Handle pool = new_handle();
    pools_.emplace(pool, std::make_unique<Pool>(i, true));
    devices_[static_cast<std::size_t>(i)].default_pool = pool;
  }
}

void Machine::stop() {
  const Lock lock(state_);
  is_stopped_ = true;
  const auto wake = [](const StreamRef& stream) {
    stream->work.notify_all();
    stream->progress.notify_all();
  };
  for (const auto& [handle, stream] : streams_) wake(stream);
  for (const auto& [handle, stream] : default_streams_) wake(stream);
  for (const StreamRef& stream : destroyed_streams_) wake(stream);
  end_ranks();
}

void Machine::check_device(int device) const {
  if (device < 0 || device >= settings_.devices) throw Failure{Code::kInvalidDevice};
}

bool Machine::are_linked(int device, int peer) const {
  check_device(device);
  check_device(peer);
  if (!settings_.links || device == peer) return false;
  return settings_.group == 0 || device / settings_.group == peer / settings_.group;
}

Handle Machine::retain(int number) {
  check_device(number);
  const Lock lock(state_);
  Device& device = devices_[static_cast<std::size_t>(number)];
  if (device.retained++ == 0) {
    device.context = new_handle();
    default_streams_[device.context] = new_stream(number, true, 0);
  }
  return device.context;
}

void Machine::release(const Call& call, int number) {
  check_device(number);
  std::vector<AllocationRef> left;
  {
    Lock lock(state_);
    Device& device = devices_[static_cast<std::size_t>(number)];
    if (device.retained == 0) throw Failure{Code::kInvalidContext};
    if (--device.retained > 0) return;
    wait_for_device(lock, number);
    const Handle ended = std::exchange(device.context, 0);
    const auto is_of_it = [&](const auto& each) { return each.second->context == ended; };
    for (const auto& streams : {&streams_, &default_streams_}) {
      for (const auto& [handle, stream] : *streams) {
        if (stream->context != ended) continue;
        stream->is_closing = true;
        stream->work.notify_all();
      }
      std::erase_if(*streams, is_of_it);
    }
    std::erase_if(events_, [&](const auto& each) { return each.second.context == ended; });
    std::erase_if(modules_, is_of_it);
    std::erase_if(kernels_, [&](const auto& each) { return each.second.module->context == ended; });
    device.peers.clear();
    device.allocated = 0;
    left = memory_.alive(number);
    const MomentRef moment = host_moment(call);
    for (const AllocationRef& each : left) {
      note_free(*each, moment, reports_);
      if (each->pool) pools_.at(each->pool)->give_back(each->bytes, moment)->has_run = true;
    }
    for (const auto& [handle, pool] : pools_) {
      if (pool->device == number) pool->trim(0);
    }
  }
  for (const AllocationRef& each : left) retire(each);
}

void Machine::set_current(Handle context) {
  if (context) device_of(context);
  current_context = context;
}

void Machine::use(int number) {
  check_device(number);
  {
    const Lock lock(state_);
    current_context = devices_[static_cast<std::size_t>(number)].context;
  }
  if (!current_context) current_context = retain(number);
}

Handle Machine::current() const noexcept { return current_context; }

int Machine::device_of(Handle context) {
  const Lock lock(state_);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (context && devices_[i].context == context) return static_cast<int>(i);
  }
  if (context > 0x51000000 && context <= last_handle_) throw Failure{Code::kContextDestroyed};
  throw Failure{Code::kInvalidContext};
}

int Machine::usable_device() {
  if (!current_context) throw Failure{Code::kInvalidContext};
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].context != current_context) continue;
    check_health(static_cast<int>(i));
    return static_cast<int>(i);
  }
  throw Failure{Code::kContextDestroyed};
}

int Machine::current_device() {
  const Lock lock(state_);
  return usable_device();
}

void Machine::check_health(int device) {
  const Device& found = devices_[static_cast<std::size_t>(device)];
  // Of its own streams alone: what these waited for on other devices may still be under way.
  if (found.error == Code::kDeviceLost) host_.join(found.own);
  if (found.error != Code::kSuccess) throw Failure{found.error};
}

void Machine::synchronize_device() {
  Lock lock(state_);
  const int device = usable_device();
  wait_for_device(lock, device);
  trim_pools();
  check_health(device);
}

void Machine::enable_peer(int peer) {
  const Lock lock(state_);
  const int device = usable_device();
  if (peer == device) throw Failure{Code::kInvalidDevice};
  if (!are_linked(device, peer)) throw Failure{Code::kPeerAccessUnsupported};
  if (!devices_[static_cast<std::size_t>(device)].peers.insert(peer).second) {
    throw Failure{Code::kPeerAccessAlreadyEnabled};
  }
}

bool Machine::can_reach(int device, const Allocation& allocation) const {
  if (allocation.space != Space::kDevice || allocation.device == device) return true;
  if (const auto pool = pools_.find(allocation.pool); pool != pools_.end()) {
    return pool->second->readers.contains(device);
  }
  return devices_[static_cast<std::size_t>(device)].peers.contains(allocation.device);
}

MomentRef Machine::host_moment(const Call& call) {
  auto moment = std::make_shared<Moment>();
  moment->function = call.function;
  moment->number = call.number;
  moment->time = ++host_time_;
  host_.raise(kHostActor, host_time_);
  moment->clock = host_;
  return moment;
}

void Machine::refuse_handle(const Call& call, Handle handle, const char* what) {
  if (handle > 0x51000000 && handle <= last_handle_) {
    reports_.add("use of a destroyed handle", std::string(call.function) + " (call " +
                                                  std::to_string(call.number) + ") is given " +
                                                  hex(handle) + ", which is no " + what +
                                                  " any more, or of another kind");
  }
  throw Failure{Code::kInvalidHandle};
}

bool& Machine::in_host_function() noexcept {
  thread_local bool is_in = false;
  return is_in;
}

Code Machine::refuse_in_host_function(const Call& call) {
  const Lock lock(state_);
  reports_.add("call in a host function", std::string(call.function) + " (call " +
                                              std::to_string(call.number) +
                                              ") is made by a function that a stream calls");
  return Code::kNotPermitted;
}

void Machine::lose(int device) {
  const Lock memory(bytes_);
  const Lock lock(state_);
  devices_.at(static_cast<std::size_t>(device)).error = Code::kDeviceLost;
}

std::string Machine::reports(bool clear) {
  const Lock lock(state_);
  std::string text;
  for (const std::string& line : reports_.all()) text += line + "\n";
  if (clear) reports_.clear();
  return text;
}

std::string Machine::living() {
  const Lock lock(state_);
  const auto contexts =
      std::ranges::count_if(devices_, [](const Device& device) { return device.context != 0; });
  return "device=" + std::to_string(memory_.count(Space::kDevice)) +
         " managed=" + std::to_string(memory_.count(Space::kManaged)) +
         " pinned=" + std::to_string(memory_.count(Space::kPinned)) +
         " registered=" + std::to_string(memory_.count(Space::kRegistered)) +
         " streams=" + std::to_string(streams_.size()) +
         " events=" + std::to_string(events_.size()) +
         " modules=" + std::to_string(modules_.size()) +
         " communicators=" + std::to_string(ranks_.size()) +
         " contexts=" + std::to_string(contexts);
}

}  // namespace devrt::gpu_simulator
