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

/// Ranks that are connected. Guarded by its own lock, under which nothing else is locked.
struct Clique {
  explicit Clique(std::vector<int> given)
      : devices(std::move(given)), is_aborted(devices.size()), running(devices.size()) {}

  const std::vector<int> devices;  ///< by rank
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

/// Returns the bytes of an element. Throws for a type that the library does not have.
std::size_t collective_itemsize(int type);
/// Combines elements of a type into those that are there. Throws for an unknown reduction.
void combine(int type, int reduction, std::span<std::byte> into, std::span<const std::byte> from);
/// Divides the sum of so many ranks, as the library does after a reduction to the average.
void divide(int type, std::span<std::byte> sum, std::size_t ranks);

}  // namespace devrt::gpu_simulator
