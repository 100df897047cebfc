// Collectives: each rank's part is work of its stream, which waits there for the other ranks'.
#include <algorithm>
#include <utility>

#include "gpu_simulator/collective_round.hpp"
#include "gpu_simulator/machine.hpp"

namespace devrt::gpu_simulator {
namespace {

// How the libraries number failures that are no call's.
constexpr int kInvalidUsage = 5;
constexpr int kRemoteError = 6;
constexpr int kAbortedRank = -1;  // never seen by anyone

}  // namespace

std::vector<Handle> Machine::make_clique(std::vector<int> devices) {
  const Lock lock(state_);
  for (const int device : devices) {
    check_device(device);
    check_health(device);
    if (std::ranges::count(devices, device) != 1) throw Failure{Code::kInvalidValue};
  }
  const auto clique = std::make_shared<Clique>(std::move(devices));
  std::vector<Handle> ranks;
  for (std::size_t i = 0; i < clique->devices.size(); ++i) {
    ranks.push_back(new_handle());
    ranks_[ranks.back()] = {clique, i};
  }
  return ranks;
}

void Machine::join_groups(const std::vector<RankJoin>& joins) {
  std::vector<std::shared_ptr<RankLink>> links;
  for (const RankJoin& each : joins) {
    const Lock lock(state_);
    check_device(each.device);
    check_health(each.device);
    if (each.number >= each.size) throw Failure{Code::kInvalidValue};
    links.push_back(std::make_shared<RankLink>(each.id, each.size, each.number));
  }
  for (const auto& link : links) link->connect();
  for (const auto& link : links) link->accept();
  const Lock lock(state_);
  for (std::size_t i = 0; i < joins.size(); ++i) {
    const RankJoin& each = joins[i];
    std::vector<int> devices(each.size, -1);  // of the others, that is another process's affair
    devices[each.number] = each.device;
    *each.rank = new_handle();
    ranks_[*each.rank] = {std::make_shared<Clique>(std::move(devices), links[i]), each.number};
  }
}

void Machine::end_rank(const Call& call, Handle handle, bool aborts) {
  const Lock lock(state_);
  const auto found = ranks_.find(handle);
  if (found == ranks_.end()) refuse_handle(call, handle, "communicator");
  const CliqueRank rank = found->second;
  ranks_.erase(found);
  const std::lock_guard of_clique(rank.clique->mutex);
  if (!aborts && rank.clique->running[rank.number] > 0) {
    reports_.add("communicator destroyed while in use",
                 std::string(call.function) + " (call " + std::to_string(call.number) +
                     ") destroys that of device " +
                     std::to_string(rank.clique->devices[rank.number]) + ", which has work");
  }
  rank.clique->is_aborted[rank.number] = true;
  rank.clique->changed.notify_all();
}

int Machine::rank_error(const Call& call, Handle handle) {
  const Lock lock(state_);
  const auto found = ranks_.find(handle);
  if (found == ranks_.end()) refuse_handle(call, handle, "communicator");
  const std::lock_guard of_clique(found->second.clique->mutex);
  return found->second.clique->failed;
}

void Machine::end_ranks() {
  for (const auto& [handle, rank] : ranks_) {
    const std::lock_guard of_clique(rank.clique->mutex);
    rank.clique->is_aborted[rank.number] = true;
    rank.clique->changed.notify_all();
  }
}

RankPart Machine::rank_part(const CollectivePart& given) {
  const auto found = ranks_.find(given.rank);
  if (found == ranks_.end()) refuse_handle(given.call, given.rank, "communicator");
  const auto& [clique, number] = found->second;
  const int device = clique->devices[number];
  RankPart part{given, clique, number, stream_of(given.call, given.stream, false), {}, {}};
  if (part.stream->device != device) {
    reports_.add("wrong context", std::string(given.call.function) + " (call " +
                                      std::to_string(given.call.number) + ") gives device " +
                                      std::to_string(device) + " work on a stream of device " +
                                      std::to_string(part.stream->device));
    throw Failure{Code::kInvalidHandle};
  }
  if (given.other < 0 || static_cast<std::size_t>(given.other) >= clique->devices.size()) {
    throw Failure{Code::kInvalidValue};
  }
  const auto [read, written] = collective_bytes(given, number, clique->devices.size());
  part.from = collective_side(given.call, device, given.from, read);
  part.to = collective_side(given.call, device, given.to, written);
  return part;
}

CollectiveSide Machine::collective_side(const Call& call, int device, Address address,
                                        std::size_t bytes) {
  CopySide named{address};
  named.device = device;
  return {bytes > 0 ? operand(call, named, bytes, device) : nullptr, address, bytes};
}

void Machine::start_round(const RoundRef& round) {
  if (const std::string why = round->misfit(); !why.empty()) {
    const Call& call = round->parts.front().given.call;
    reports_.add("collective that hangs",
                 std::string(call.function) + " (call " + std::to_string(call.number) + ") " + why);
    throw Failure{Code::kInvalidValue};
  }
  std::map<std::size_t, StreamRef> streams;  // by rank: its parts are one piece of work
  MomentRef moment;
  for (RankPart& part : round->parts) {
    const bool is_next = streams.try_emplace(part.rank, part.stream).second;
    if (is_next) moment = moment_on(part.given.call, *part.stream);
    part.from.moment = part.to.moment = moment;
    for (const CollectiveSide* side : {&part.from, &part.to}) {
      const bool writes = side == &part.to;
      if (side->bytes == 0 || (part.is_in_place() && !writes)) continue;
      note(*side->allocation, {side->begin(), side->end(), writes, moment});
    }
  }
  round->ranks = streams.size();
  for (const auto& [rank, stream] : streams) {
    const auto part = std::ranges::find(round->parts, rank, &RankPart::rank);
    {
      const std::lock_guard of_clique(round->clique->mutex);
      ++round->clique->running[rank];
    }
    enqueue(stream, part->from.moment, join_default(*stream), [this, round, rank](Code) {
      if (!round->arrive(rank, [&] { return run_round(*round); })) leave_results(*round, rank);
    });
  }
}

std::vector<Piece> Machine::read_pieces(const Round& round) {
  const Lock memory(bytes_);
  const Lock state(state_);
  for (const RankPart& part : round.parts) {
    const CollectiveSide& side = part.from;
    if (side.bytes > 0) note_read(*side.allocation, side.begin(), side.end(), *side.moment);
  }
  return round.read();
}

void Machine::write_results(const Round& round, const std::vector<Piece>& pieces) {
  const Lock memory(bytes_);
  round.compute(pieces);
  const Lock state(state_);
  for (const RankPart& part : round.parts) {
    const CollectiveSide& side = part.to;
    if (side.bytes > 0) side.allocation->written.add(side.begin(), side.end());
  }
}

void Machine::leave_results(const Round& round, std::size_t rank) {
  const Lock state(state_);
  for (const RankPart& part : round.parts) {
    const CollectiveSide& side = part.to;
    if (part.rank == rank && side.bytes > 0) side.allocation->written.add(side.begin(), side.end());
  }
}

int Machine::exchange(const Round& round, std::vector<Piece>& pieces) {
  Clique& clique = *round.clique;
  const std::size_t rank = round.parts.front().rank;
  const auto is_aborted = [&] {
    const std::lock_guard of_clique(clique.mutex);
    return bool{clique.is_aborted[rank]};
  };
  const Exchanged ended = clique.link->exchange(pieces, is_aborted);
  if (ended == Exchanged::kAborted) return kAbortedRank;
  if (ended == Exchanged::kPeerGone) return kRemoteError;
  const std::string why = round.misfit(pieces);
  if (why.empty()) return 0;
  const Lock state(state_);
  const Call& call = round.parts.front().given.call;
  reports_.add("collective that hangs",
               std::string(call.function) + " (call " + std::to_string(call.number) + ") " + why);
  return kInvalidUsage;
}

int Machine::run_round(const Round& round) {
  std::vector<Piece> pieces = read_pieces(round);
  if (round.clique->link) {
    if (const int failed = exchange(round, pieces)) return failed;
  }
  write_results(round, pieces);
  return 0;
}

void Machine::start_collectives(const CollectiveParts& given) {
  const Lock lock(state_);
  std::vector<RankPart> parts;
  for (const CollectivePart& each : given) parts.push_back(rank_part(each));
  for (const RoundRef& round : to_rounds(std::move(parts))) start_round(round);
}

}  // namespace devrt::gpu_simulator
