// What becomes of collectives that were started: their ends, and the failures that break them off.
#include <algorithm>
#include <chrono>
#include <thread>

#include "gpu/communicator.hpp"
#include "gpu/engine.hpp"

namespace devrt::gpu {

namespace {

/// How long what waits for other processes goes on after one is gone, for a word of which it is.
constexpr std::chrono::seconds kForNames{20};

/// Returns how work ended on its own device, or nothing while it goes on.
std::optional<Status> ended_here(const ReadyEvent& event) { return event.source()->query(); }

bool has_ended_well(const std::vector<ReadyEvent>& ends) {
  return std::ranges::all_of(ends, [](const ReadyEvent& event) {
    const std::optional<Status> ended = ended_here(event);
    return ended && ended->ok();
  });
}

std::string names_of(const std::vector<std::shared_ptr<GpuDevice>>& devices) {
  std::string text;
  for (const auto& device : devices) text += (text.empty() ? "" : ", ") + device->name();
  return text;
}

}  // namespace

Status GpuCommunicator::cause_of(const Status& failed) const {
  // The library may be the first that meets a loss, and says only that the driver failed.
  for (const auto& device : devices_) {
    try {
      const Current current(device->driver(), device->context());
      const Result result = device->driver().call.stream_query(stream_of(*device).handle());
      if (result != kNotReady) device->check(result, "stream_query");
    } catch (const StatusError& error) {
      if (error.status().code() == StatusCode::kDataLoss) return error.status();
    }
  }
  return failed;
}

void GpuCommunicator::abort(const Status& why) noexcept {
  // The outcomes first: the ranks that are broken off end as if all were well.
  for (const Running& each : running_) {
    if (has_ended_well(each.ends)) {
      each.outcome->settle();
    } else if (each.outcome->is_open()) {
      each.outcome->fail(Status(why.code(), "A collective of " + names_of(devices_) +
                                                " was broken off: " + why.message())
                             .because(why.reason())
                             .during(why.operation())
                             .on(why.device()));
    }
  }
  running_.clear();
  ++connection_;
  if (span_ && ended_.ok()) {
    ended_ = Status(why.code(),
                    "The group of " + names_of(devices_) +
                        " and others was broken off, and is of no more use: " + why.message())
                 .because(why.reason())
                 .during(why.operation())
                 .on(why.device());
  }
  for (RankHandle* rank : std::exchange(ranks_, {})) (void)library_.call.abort(rank);
}

std::optional<std::chrono::steady_clock::time_point> GpuCommunicator::busy_since() const {
  const std::lock_guard lock(all_.mutex_);
  if (running_.empty()) return std::nullopt;
  return running_.front().since;
}

void GpuCommunicator::break_off(const Status& why) {
  const std::lock_guard lock(all_.mutex_);
  const KeepCurrent keep(devices_.front()->driver());
  abort(why);
}

void GpuCommunicator::drain() const noexcept {
  for (const auto& device : devices_) {
    try {
      const Current current(device->driver(), device->context());
      (void)device->driver().call.stream_synchronize(stream_of(*device).handle());
    } catch (...) {
      // A lost device makes no stream, and what has none has no part to wait for.
    }
  }
}

void GpuCommunicator::watch(const Running& running) {
  using namespace std::chrono_literals;
  for (std::chrono::microseconds delay = 5us;;
       delay = std::min<std::chrono::microseconds>(delay * 2, 1ms)) {
    bool is_over = true;
    Status failed = async_error();
    for (const ReadyEvent& end : running.ends) {
      const std::optional<Status> ended = ended_here(end);
      is_over = is_over && ended;
      if (ended && !ended->ok()) failed = *ended;
    }
    if (!failed.ok() && !waits_for_names(failed)) {
      const std::lock_guard lock(all_.mutex_);
      const KeepCurrent keep(devices_.front()->driver());
      if (running.outcome->is_open()) abort(cause_of(failed));
      return;
    }
    if (is_over) return settle(running);
    std::this_thread::sleep_for(delay);
  }
}

bool GpuCommunicator::waits_for_names(const Status& failed) {
  if (!span_ || failed.reason() != Reason::kPeer) return false;
  const std::lock_guard lock(all_.mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (!failed_at_) failed_at_ = now;
  return ended_.ok() && now - *failed_at_ < kForNames;
}

Status GpuCommunicator::async_error() const {
  const std::lock_guard lock(all_.mutex_);
  for (RankHandle* rank : ranks_) {
    Result error = kSuccess;
    const Result got = library_.call.async_error(rank, &error);
    if (Status status = library_.status(got ? got : error, "collective"); !status.ok()) {
      return status;
    }
  }
  return {};
}

void GpuCommunicator::settle(const Running& running) {
  const std::lock_guard lock(all_.mutex_);
  if (running.outcome->is_open()) running.outcome->settle();
  std::erase_if(running_, [&](const Running& each) { return each.outcome == running.outcome; });
}

}  // namespace devrt::gpu
