// Collectives of simulated devices: what the ranks of a group do together, in the order of their
// streams.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSend, kReceive };

/// One rank's part in a collective, as a function of the library is given it.
struct CollectivePart {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Address from = 0;
  Address to = 0;
  std::size_t count = 0;  ///< of elements; of each rank's block where the two sides differ
  int type = 0;
  int reduction = 0;
  int other = 0;  ///< the root of a broadcast, the peer of a send or receive
  Handle rank = 0;
  Handle stream = 0;
  Call call{};
};

/// What a rank gives a collective.
struct Piece {
  CollectivePart given{};
  std::size_t rank = 0;
  std::vector<std::byte> bytes = {};
};

class RankLink;

/// Ranks that are connected. Guarded by its own lock, under which nothing else is locked.
struct Clique {
  explicit Clique(std::vector<int> given, std::shared_ptr<RankLink> over = nullptr)
      : devices(std::move(given)),
        link(std::move(over)),
        is_aborted(devices.size()),
        running(devices.size()) {}

  const std::vector<int> devices;  ///< by rank
  /// Null where all ranks are of this process; else one is, and this connects it with the others.
  const std::shared_ptr<RankLink> link;
  int failed = 0;  ///< the library's result that a rank's part had
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> is_aborted;  ///< by rank
  std::vector<int> running;      ///< what each rank was given and has not ended
};

/// A communicator of the library: one rank of a clique.
struct CliqueRank {
  std::shared_ptr<Clique> clique;
  std::size_t number = 0;
};

/// The calls that a group collects, which begin together.
using CollectiveParts = std::vector<CollectivePart>;

/// Whether a kind of part is a send or a receive.
inline bool is_between_two(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kReceive;
}
/// Returns the bytes of an element. Throws for a type that the library does not have.
std::size_t collective_itemsize(int type);
/// Combines elements of a type into those that are there. Throws for an unknown reduction.
void combine(int type, int reduction, std::span<std::byte> into, std::span<const std::byte> from);
/// Divides the sum of so many ranks, as the library does after a reduction to the average.
void divide(int type, std::span<std::byte> sum, std::size_t ranks);

}  // namespace devrt::gpu_simulator
