// Parts of collectives that begin together, and what they come to.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu_simulator/allocation.hpp"
#include "gpu_simulator/collectives.hpp"
#include "gpu_simulator/stream.hpp"

namespace devrt::gpu_simulator {

/// One side of a part: bytes that its rank reads or writes.
struct CollectiveSide {
  AllocationRef allocation;
  Address address = 0;
  std::size_t bytes = 0;
  MomentRef moment = nullptr;

  std::byte* data() const { return allocation->at(address); }
  std::size_t begin() const { return address - allocation->begin; }
  std::size_t end() const { return begin() + bytes; }
  std::vector<std::byte> read() const;
  void write(std::span<const std::byte> from) const;
};

struct RankPart {
  CollectivePart given;
  std::shared_ptr<Clique> clique;
  std::size_t rank = 0;
  StreamRef stream;
  CollectiveSide from;
  CollectiveSide to;

  bool is_in_place() const noexcept { return from.address == to.address && from.bytes == to.bytes; }
};

/// Parts that begin together, one or more of each rank that takes part.
struct Round {
  std::shared_ptr<Clique> clique;
  std::vector<RankPart> parts;  ///< in the order of the ranks
  std::size_t ranks = 0;
  std::size_t arrived = 0;  ///< under the clique's lock
  bool is_over = false;     ///< the same

  /// Has a rank wait until all have come; the last one does the work. That returns 0, or the
  /// library's result of a failure, after which the ranks wait until they are aborted. Returns
  /// whether the work was done.
  bool arrive(std::size_t rank, const std::function<int()>& work);
  /// Returns what is wrong with the parts; empty if they fit.
  std::string misfit() const;
  /// Returns what is wrong with the parts beside those of other processes; empty if they fit.
  std::string misfit(const std::vector<Piece>& pieces) const;
  /// Returns what the parts give.
  std::vector<Piece> read() const;
  /// Does what the pieces of all ranks, in their order, come to.
  void compute(const std::vector<Piece>& pieces) const;
};
using RoundRef = std::shared_ptr<Round>;

/// Returns how many bytes a part reads and writes on a rank of so many.
std::pair<std::size_t, std::size_t> collective_bytes(const CollectivePart& part, std::size_t rank,
                                                     std::size_t ranks);
/// Sorts parts into rounds: the first of each rank, the second; all that go between two in one.
std::vector<RoundRef> to_rounds(std::vector<RankPart> parts);

}  // namespace devrt::gpu_simulator
