#include "gpu_simulator/collective_round.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace devrt::gpu_simulator {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kAverage = 4;

/// How many blocks a part reads and writes; each has the bytes of its elements.
std::pair<std::size_t, std::size_t> blocks(const CollectivePart& part, std::size_t rank,
                                           std::size_t ranks) {
  switch (part.kind) {
    case CollectiveKind::kAllGather:
      return {1, ranks};
    case CollectiveKind::kReduceScatter:
      return {ranks, 1};
    case CollectiveKind::kBroadcast:
      return {static_cast<std::size_t>(part.other) == rank ? 1 : 0, 1};
    case CollectiveKind::kSend:
      return {1, 0};
    case CollectiveKind::kReceive:
      return {0, 1};
    case CollectiveKind::kAllReduce:
      break;
  }
  return {1, 1};
}

bool are_alike(const CollectivePart& a, const CollectivePart& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.other == b.other &&
         a.reduction == b.reduction;
}

bool fits(const Piece& sent, const RankPart& received) {
  return sent.given.kind == CollectiveKind::kSend &&
         sent.rank == static_cast<std::size_t>(received.given.other) &&
         received.rank == static_cast<std::size_t>(sent.given.other);
}

Bytes join(const std::vector<Piece>& pieces) {
  Bytes whole;
  for (const Piece& each : pieces) {
    whole.insert(whole.end(), each.bytes.begin(), each.bytes.end());
  }
  return whole;
}

Bytes reduce(const CollectivePart& what, const std::vector<Piece>& pieces) {
  Bytes whole = pieces.front().bytes;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    combine(what.type, what.reduction, whole, pieces[i].bytes);
  }
  if (what.reduction == kAverage) divide(what.type, whole, pieces.size());
  return whole;
}

/// Writes to each rank what it receives: of several from one rank, in the order of the calls.
void deliver(const std::vector<RankPart>& parts, const std::vector<Piece>& pieces) {
  std::vector<bool> is_taken(pieces.size());
  for (const RankPart& part : parts) {
    if (part.given.kind != CollectiveKind::kReceive) continue;
    std::size_t i = 0;
    while (is_taken[i] || !fits(pieces[i], part)) ++i;  // there is one: the round fits
    is_taken[i] = true;
    part.to.write(pieces[i].bytes);
  }
}

}  // namespace

std::vector<std::byte> CollectiveSide::read() const {
  return bytes == 0 ? Bytes() : Bytes(data(), data() + bytes);
}

void CollectiveSide::write(std::span<const std::byte> from) const {
  if (bytes > 0) std::memcpy(data(), from.data(), bytes);
}

bool Round::arrive(std::size_t rank, const std::function<int()>& work) {
  std::unique_lock lock(clique->mutex);
  if (!clique->is_aborted[rank] && ++arrived == ranks) {
    lock.unlock();
    const int failed = work();
    lock.lock();
    is_over = failed == 0;
    if (failed > 0) clique->failed = failed;
    clique->changed.notify_all();
  }
  clique->changed.wait(lock, [&] { return is_over || clique->is_aborted[rank]; });
  --clique->running[rank];
  return is_over;
}

std::string Round::misfit() const {
  const CollectivePart& first = parts.front().given;
  if (!is_between_two(first.kind)) {
    const auto differs = [&](const RankPart& part) { return !are_alike(part.given, first); };
    if (std::ranges::any_of(parts, differs)) return "differs from that of another rank";
    if (clique->link) return "";  // the others' parts are not here
    return parts.size() == clique->devices.size() ? "" : "has no part of some rank";
  }
  using Way = std::tuple<std::size_t, std::size_t, std::size_t>;
  std::multiset<Way> sent;
  std::multiset<Way> received;
  for (const RankPart& part : parts) {
    const auto other = static_cast<std::size_t>(part.given.other);
    if (part.given.kind == CollectiveKind::kSend) sent.insert({part.rank, other, part.from.bytes});
    if (part.given.kind == CollectiveKind::kReceive) {
      received.insert({other, part.rank, part.to.bytes});
    }
  }
  return clique->link || sent == received ? "" : "is a send without its receive, or the reverse";
}

std::string Round::misfit(const std::vector<Piece>& pieces) const {
  const CollectivePart& first = parts.front().given;
  const auto differs = [&](const Piece& piece) {
    if (is_between_two(first.kind) != is_between_two(piece.given.kind)) return true;
    if (!is_between_two(first.kind)) return !are_alike(piece.given, first);
    if (piece.given.kind == CollectiveKind::kReceive) return false;
    return std::ranges::any_of(parts, [&](const RankPart& part) {
      return part.given.kind == CollectiveKind::kReceive && fits(piece, part) &&
             part.to.bytes != piece.bytes.size();
    });
  };
  return std::ranges::any_of(pieces, differs) ? "differs from that of another process" : "";
}

std::vector<Piece> Round::read() const {
  std::vector<Piece> pieces;
  for (const RankPart& part : parts) pieces.push_back({part.given, part.rank, part.from.read()});
  return pieces;
}

void Round::compute(const std::vector<Piece>& pieces) const {
  const CollectivePart& what = parts.front().given;
  if (is_between_two(what.kind)) return deliver(parts, pieces);
  const bool joins =
      what.kind == CollectiveKind::kAllGather || what.kind == CollectiveKind::kBroadcast;
  const Bytes whole = joins ? join(pieces) : reduce(what, pieces);
  for (const RankPart& part : parts) {
    const bool is_scattered = what.kind == CollectiveKind::kReduceScatter;
    part.to.write(std::span(whole).subspan(is_scattered ? part.rank * part.to.bytes : 0));
  }
}

std::pair<std::size_t, std::size_t> collective_bytes(const CollectivePart& part, std::size_t rank,
                                                     std::size_t ranks) {
  const std::size_t bytes = part.count * collective_itemsize(part.type);
  const auto [read, written] = blocks(part, rank, ranks);
  return {read * bytes, written * bytes};
}

std::vector<RoundRef> to_rounds(std::vector<RankPart> parts) {
  using Key = std::pair<const Clique*, std::size_t>;
  std::map<Key, RoundRef> rounds;
  std::map<Key, std::size_t> counts;
  std::vector<RoundRef> in_order;
  for (RankPart& part : parts) {
    const Clique* const clique = part.clique.get();
    const std::size_t number = is_between_two(part.given.kind) ? 0 : ++counts[{clique, part.rank}];
    RoundRef& round = rounds[{clique, number}];
    if (!round) in_order.push_back(round = std::make_shared<Round>());
    round->clique = part.clique;
    round->parts.push_back(std::move(part));
  }
  for (const RoundRef& round : in_order) {
    std::ranges::stable_sort(round->parts, {}, &RankPart::rank);
  }
  return in_order;
}

}  // namespace devrt::gpu_simulator
