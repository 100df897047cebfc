#include "gpu/communicator.hpp"

#include <algorithm>

#include "gpu/engine.hpp"

namespace devrt::gpu {

namespace {

using native::Collective;
using native::collective_name;
using native::CollectiveKind;
using native::RankMemory;

constexpr std::size_t kWatched = 1 << 16;  // to start one must not wait for the end of others

/// How the libraries number the types that are reduced.
int type_number(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
      return 0;
    case ElementType::kInt32:
      return 2;
    case ElementType::kUint32:
      return 3;
    case ElementType::kInt64:
      return 4;
    case ElementType::kUint64:
      return 5;
    case ElementType::kFloat16:
      return 6;
    case ElementType::kFloat32:
      return 7;
    case ElementType::kFloat64:
      return 8;
    case ElementType::kBfloat16:
      return 9;
    default:
      return 1;  // bytes
  }
}

}  // namespace

std::optional<std::vector<ReadyEvent>> GpuCommunicator::start(const Collective& collective,
                                                              std::span<const RankMemory> ranks) {
  std::optional<Running> started;
  try {
    std::lock_guard lock(all_.mutex_);
    started = give(collective, ranks);
  } catch (...) {
    drain();  // the memory of a rank that got its part may be freed now
    throw;
  }
  if (!started) return std::nullopt;
  std::vector<ReadyEvent> ends = started->ends;
  all_.watcher_.enqueue(
      [self = shared_from_this(), running = *std::move(started)] { self->watch(running); });
  return ends;
}

std::optional<GpuCommunicator::Running> GpuCommunicator::give(const Collective& what,
                                                              std::span<const RankMemory> ranks) {
  const KeepCurrent keep(devices_.front()->driver());
  connect(collective_name(what.kind));
  const std::optional<Dependencies> dependencies = order(ranks);
  if (!dependencies) return std::nullopt;
  try {
    enqueue(what, ranks);
    return record(*dependencies);
  } catch (const StatusError& error) {
    const Status why = cause_of(error.status());
    abort(why);  // some ranks may have their part, and wait for the others
    throw StatusError(why);
  } catch (...) {
    abort(Status(StatusCode::kInternal, "It could not be started."));
    throw;
  }
}

void GpuCommunicator::connect(const char* operation) {
  raise_if_error(ended_);
  for (const auto& device : devices_) raise_if_error(device->health());
  if (!ranks_.empty()) return;
  if (span_) throw StatusError(Status(StatusCode::kFailedPrecondition, "The group is closed."));
  std::vector<int> numbers;
  for (const auto& device : devices_) numbers.push_back(device->ordinal());
  std::vector<RankHandle*> made(devices_.size());
  const Result result =
      library_.call.connect_all(made.data(), static_cast<int>(made.size()), numbers.data());
  if (result != kSuccess) throw StatusError(cause_of(library_.status(result, operation)));
  ranks_ = std::move(made);
}

void GpuCommunicator::join() {
  constexpr const char* kJoining = "collectives";
  const KeepCurrent keep(devices_.front()->driver());
  GroupId id{};
  if (span_->id.size() != sizeof(id.bytes)) raise_invalid("The group's id is none.", kJoining);
  std::ranges::copy(span_->id, id.bytes);
  std::vector<RankHandle*> made(devices_.size());
  library_.check(library_.call.group_start(), kJoining);
  Result given = kSuccess;
  for (std::size_t i = 0; i < devices_.size() && given == kSuccess; ++i) {
    const Current current(devices_[i]->driver(), devices_[i]->context());
    given = library_.call.connect_rank(&made[i], static_cast<int>(span_->size), id,
                                       static_cast<int>(span_->ranks[i]));
  }
  const Result ended = library_.call.group_end();
  const Result failed = given != kSuccess ? given : ended;
  if (failed != kSuccess) throw StatusError(cause_of(library_.status(failed, kJoining)));
  ranks_ = std::move(made);
}

std::optional<Dependencies> GpuCommunicator::order(std::span<const RankMemory> ranks) const {
  Dependencies found;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const ReadyEvent& event : ranks[i].after) devices_[i]->add_dependencies(event, found);
  }
  if (span_ && may_fail_here(found)) return std::nullopt;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const GpuDevice& device = *devices_[i];
    const Current current(device.driver(), device.context());
    for (const ReadyEvent& event : ranks[i].after) {
      if (event.is_ready() && event.error().ok()) continue;
      const bool waits = !event.is_ready() && event.source() &&
                         order_stream(device.driver(), stream_of(*devices_[i]).handle(), event);
      if (!waits) return std::nullopt;
    }
  }
  return found;
}

bool GpuCommunicator::may_fail_here(const Dependencies& dependencies) const noexcept {
  return !std::ranges::all_of(dependencies, [this](const auto& each) {
    const auto* of_collective = dynamic_cast<const CollectiveOutcome*>(each.get());
    return of_collective && of_collective->is_of(this);
  });
}

void GpuCommunicator::enqueue(const Collective& what, std::span<const RankMemory> ranks) {
  const char* const operation = collective_name(what.kind);
  if (what.kind == CollectiveKind::kPermute) clear_unsent(what, ranks);
  library_.check(library_.call.group_start(), operation);
  Result given = kSuccess;
  for (std::size_t i = 0; i < ranks.size() && given == kSuccess; ++i) {
    given = enqueue_rank(what, i, ranks[i]);
  }
  const Result ended = library_.call.group_end();  // also after an error: the thread is in a group
  library_.check(given, operation);
  library_.check(ended, operation);
}

Result GpuCommunicator::enqueue_rank(const Collective& what, std::size_t i,
                                     const RankMemory& memory) const {
  const CollectiveFunctions& call = library_.call;
  const int type = type_number(what.type);
  const auto reduction = static_cast<int>(what.reduction);
  StreamHandle* const stream = stream_of(*devices_[i]).handle();
  RankHandle* const handle = ranks_[i];
  switch (what.kind) {
    case CollectiveKind::kAllReduce:
      return call.all_reduce(memory.from, memory.to, what.count, type, reduction, handle, stream);
    case CollectiveKind::kReduceScatter:
      return call.reduce_scatter(memory.from, memory.to, what.count / size(), type, reduction,
                                 handle, stream);
    case CollectiveKind::kAllGather:
      return call.all_gather(memory.from, memory.to, what.count, type, handle, stream);
    case CollectiveKind::kBroadcast:
      return call.broadcast(memory.from, memory.to, what.count, type, static_cast<int>(what.root),
                            handle, stream);
    default:
      return exchange(what, i, memory);
  }
}

Result GpuCommunicator::exchange(const Collective& what, std::size_t i,
                                 const RankMemory& memory) const {
  const std::size_t rank = rank_of(i);
  const bool is_to_all = what.kind == CollectiveKind::kAllToAll;
  const int type = type_number(what.type);
  const std::size_t bytes = is_to_all ? what.count / size() : what.count;
  StreamHandle* const stream = stream_of(*devices_[i]).handle();
  Result result = kSuccess;
  const auto add = [&](std::size_t from, std::size_t to) {
    const std::size_t sent = is_to_all ? to * bytes : 0;
    const std::size_t received = is_to_all ? from * bytes : 0;
    if (result == kSuccess && from == rank) {
      result = library_.call.send(memory.from + sent, bytes, type, static_cast<int>(to), ranks_[i],
                                  stream);
    }
    if (result == kSuccess && to == rank) {
      result = library_.call.receive(memory.to + received, bytes, type, static_cast<int>(from),
                                     ranks_[i], stream);
    }
  };
  for (const auto& [from, to] : what.pairs) add(from, to);
  for (std::size_t other = 0; is_to_all && other < size(); ++other) {
    add(rank, other);
    if (other != rank) add(other, rank);
  }
  return result;
}

void GpuCommunicator::clear_unsent(const Collective& what,
                                   std::span<const RankMemory> ranks) const {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool receives = std::ranges::any_of(
        what.pairs, [rank = rank_of(i)](const auto& pair) { return pair.second == rank; });
    if (receives) continue;
    GpuDevice& device = *devices_[i];
    const Current current(device.driver(), device.context());
    device.check(
        device.driver().call.set_bytes(ranks[i].to, 0, what.count, stream_of(device).handle()),
        collective_name(what.kind));
  }
}

GpuCommunicator::Running GpuCommunicator::record(const Dependencies& dependencies) {
  Running running{
      std::make_shared<CollectiveOutcome>(CollectiveOutcome::Number{this, connection_, ++started_}),
      {}};
  Dependencies all = dependencies;
  add_dependency(running.outcome, all);
  for (const auto& device : devices_) {
    const Current current(device->driver(), device->context());
    running.ends.push_back(device->record(stream_of(*device)).with(all));
  }
  running_.push_back(running);
  return running;
}

void GpuCommunicator::close() noexcept {
  const KeepCurrent keep(devices_.front()->driver());
  for (RankHandle* rank : std::exchange(ranks_, {})) (void)library_.call.destroy(rank);
}

Communicators::Communicators() : watcher_("devrt-gpu:collectives", kWatched) {}

std::shared_ptr<native::Communicator> Communicators::find(
    std::vector<std::shared_ptr<GpuDevice>> devices, const native::CollectiveSource& source) {
  const CollectiveLibrary& library = collective_library(source);
  std::vector<const GpuDevice*> key;
  for (const auto& device : devices) key.push_back(device.get());
  std::lock_guard lock(mutex_);
  std::shared_ptr<GpuCommunicator>& found = groups_[key];
  if (!found) found = std::make_shared<GpuCommunicator>(*this, library, std::move(devices));
  return found;
}

std::shared_ptr<native::Communicator> Communicators::join(
    std::vector<std::shared_ptr<GpuDevice>> devices, const native::CollectiveSource& source,
    const native::GroupSpan& span) {
  const CollectiveLibrary& library = collective_library(source);
  auto made = std::make_shared<GpuCommunicator>(*this, library, std::move(devices), span);
  made->join();  // not under the lock: it waits for other processes
  std::lock_guard lock(mutex_);
  joined_.push_back(made);
  return made;
}

void Communicators::close() noexcept {
  watcher_.drain();
  std::lock_guard lock(mutex_);
  for (const auto& [key, group] : groups_) group->close();
  for (const auto& group : joined_) group->close();
}

}  // namespace devrt::gpu
