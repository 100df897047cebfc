// A rank of a group that spans processes: its connections with the other ranks, each of which gets
// what this one gives. Real libraries have their devices' links and the network for that; here it
// is a socket between two processes of one machine.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu_simulator/collectives.hpp"

namespace devrt::gpu_simulator {

/// What tells a group from all others, as long as the libraries' own.
struct GroupId {
  char bytes[128];
};
GroupId new_group_id();

/// A rank that joins a group by its id.
struct RankJoin {
  GroupId id;
  std::size_t size;
  std::size_t number;
  int device;
  Handle* rank;  ///< is set to the communicator
};

/// How an exchange ended.
enum class Exchanged { kDone, kAborted, kPeerGone };

/// Used by one thread at a time.
class RankLink {
 public:
  /// The others can connect from now on.
  RankLink(const GroupId& id, std::size_t size, std::size_t rank);
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;
  ~RankLink();

  /// Connects with the ranks before this one. A process that has several ranks does this for all of
  /// them before `accept` for any. Both throw if a rank does not come.
  void connect();
  /// Connects with the ranks behind it.
  void accept();

  /// Gives the others this rank's pieces, and adds to these what the others give it.
  Exchanged exchange(std::vector<Piece>& pieces, const std::function<bool()>& is_aborted);

 private:
  struct Header;
  struct Peer;

  static void push(std::vector<std::byte>& bytes, const Piece& piece);
  std::vector<Peer> peers_of(const std::vector<Piece>& mine) const;

  std::string name_;
  std::size_t rank_;
  int listener_ = -1;
  std::vector<int> sockets_;  // by rank; -1 for this one
};

}  // namespace devrt::gpu_simulator
