#include "gpu_simulator/rank_link.hpp"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

namespace devrt::gpu_simulator {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{60};  // for the other ranks, to connect
constexpr int kGlanceMs = 10;                  // how late an abort is seen

[[noreturn]] void fail() { throw Failure{Code::kUnknown}; }

/// The address of a rank: there for as long as its socket.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name, std::size_t rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string whole = name + "-" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, whole.data(), whole.size());  // a zero first: no file
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + whole.size())};
}

int new_socket() {
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) fail();
  return made;
}

}  // namespace

/// What comes before the bytes of a piece.
struct RankLink::Header {
  int kind;
  int type;
  int reduction;
  int other;
  std::uint64_t count;
  std::uint64_t bytes;
};

/// What goes to another rank, and what has come from it.
struct RankLink::Peer {
  int socket = -1;
  std::size_t rank = 0;
  std::vector<std::byte> unsent = {};
  std::size_t sent = 0;
  std::size_t missing = 0;  // pieces
  Header header{};
  std::size_t got = 0;  // of the header and then of the bytes
  std::vector<std::byte> bytes = {};
  std::vector<Piece> pieces = {};

  short events() const {
    return static_cast<short>((sent < unsent.size() ? POLLOUT : 0) | (missing > 0 ? POLLIN : 0));
  }
  /// Both return false if the other is gone.
  bool send_more();
  bool receive_more();

 private:
  std::span<std::byte> wanted();
  void take_piece();
};

bool RankLink::Peer::send_more() {
  const ssize_t count =
      ::send(socket, unsent.data() + sent, unsent.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  sent += static_cast<std::size_t>(count);
  return true;
}

std::span<std::byte> RankLink::Peer::wanted() {
  if (got < sizeof(Header)) {
    return std::as_writable_bytes(std::span(&header, 1)).subspan(got);
  }
  return std::span(bytes).subspan(got - sizeof(Header));
}

bool RankLink::Peer::receive_more() {
  const std::span<std::byte> into = wanted();
  const ssize_t count = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  got += static_cast<std::size_t>(count);
  if (got == sizeof(Header)) bytes.resize(header.bytes);
  if (got >= sizeof(Header) && got == sizeof(Header) + bytes.size()) take_piece();
  return true;
}

void RankLink::Peer::take_piece() {
  Piece piece{.rank = rank, .bytes = std::exchange(bytes, {})};
  piece.given.kind = static_cast<CollectiveKind>(header.kind);
  piece.given.type = header.type;
  piece.given.reduction = header.reduction;
  piece.given.other = header.other;
  piece.given.count = header.count;
  pieces.push_back(std::move(piece));
  got = 0;
  --missing;
}

GroupId new_group_id() {
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != ssize_t{random.size()}) fail();
  GroupId id{};
  std::size_t at = 0;
  for (const unsigned char byte : random) {
    id.bytes[at++] = static_cast<char>('a' + byte / 16);
    id.bytes[at++] = static_cast<char>('a' + byte % 16);
  }
  return id;
}

RankLink::RankLink(const GroupId& id, std::size_t size, std::size_t rank)
    : name_("devrt-simulator-" + std::string(id.bytes, strnlen(id.bytes, 32))),
      rank_(rank),
      listener_(new_socket()),
      sockets_(size, -1) {
  const auto [address, length] = address_of(name_, rank_);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  if (bind(listener_, where, length) == 0 && listen(listener_, static_cast<int>(size)) == 0) return;
  close(listener_);  // the rank is taken
  fail();
}

RankLink::~RankLink() {
  if (listener_ >= 0) close(listener_);
  for (const int socket : sockets_) {
    if (socket >= 0) close(socket);
  }
}

void RankLink::connect() {
  const auto deadline = SteadyClock::now() + kPatience;
  for (std::size_t other = 0; other < rank_; ++other) {
    sockets_[other] = new_socket();
    const auto [address, length] = address_of(name_, other);
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    while (::connect(sockets_[other], where, length) != 0) {
      if (SteadyClock::now() > deadline) fail();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it does not listen yet
    }
    const std::uint64_t own = rank_;
    if (::send(sockets_[other], &own, sizeof(own), MSG_NOSIGNAL) != sizeof(own)) fail();
  }
}

void RankLink::accept() {
  for (std::size_t left = sockets_.size() - rank_ - 1; left > 0; --left) {
    pollfd waiting{listener_, POLLIN, 0};
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
    if (poll(&waiting, 1, static_cast<int>(patience)) != 1) fail();
    const int made = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    std::uint64_t other = 0;
    const bool is_named =
        made >= 0 && recv(made, &other, sizeof(other), MSG_WAITALL) == sizeof(other);
    if (!is_named || other >= sockets_.size() || sockets_[other] >= 0) {
      if (made >= 0) close(made);
      fail();
    }
    sockets_[other] = made;
  }
  close(std::exchange(listener_, -1));
}

void RankLink::push(std::vector<std::byte>& bytes, const Piece& piece) {
  const CollectivePart& what = piece.given;
  const Header header{
      static_cast<int>(what.kind), what.type, what.reduction, what.other, what.count,
      piece.bytes.size()};
  const auto head = std::as_bytes(std::span(&header, 1));
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
}

std::vector<RankLink::Peer> RankLink::peers_of(const std::vector<Piece>& mine) const {
  std::vector<Peer> peers;
  for (std::size_t rank = 0; rank < sockets_.size(); ++rank) {
    if (rank == rank_) continue;
    Peer peer{.socket = sockets_[rank], .rank = rank};
    for (const Piece& piece : mine) {
      const bool is_for = static_cast<std::size_t>(piece.given.other) == rank;
      const bool is_between_two = gpu_simulator::is_between_two(piece.given.kind);
      const bool receives = piece.given.kind == CollectiveKind::kReceive;
      if (is_between_two && !is_for) continue;
      if (!receives) push(peer.unsent, piece);
      if (!is_between_two || receives) ++peer.missing;
    }
    peers.push_back(std::move(peer));
  }
  return peers;
}

Exchanged RankLink::exchange(std::vector<Piece>& pieces, const std::function<bool()>& is_aborted) {
  std::vector<Peer> peers = peers_of(pieces);
  while (true) {
    std::vector<pollfd> waiting;
    std::vector<Peer*> of;
    for (Peer& peer : peers) {
      if (peer.events() == 0) continue;
      waiting.push_back({peer.socket, peer.events(), 0});
      of.push_back(&peer);
    }
    if (waiting.empty()) break;
    if (is_aborted()) return Exchanged::kAborted;
    (void)poll(waiting.data(), waiting.size(), kGlanceMs);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      const short came = waiting[i].revents;
      const bool has_ended = (came & (POLLERR | POLLHUP)) != 0;
      if ((came & POLLOUT) && !of[i]->send_more()) return Exchanged::kPeerGone;
      if ((came & POLLIN) && !of[i]->receive_more()) return Exchanged::kPeerGone;
      if (has_ended && !(came & POLLIN)) return Exchanged::kPeerGone;
    }
  }
  for (Peer& peer : peers) std::ranges::move(peer.pieces, std::back_inserter(pieces));
  std::ranges::stable_sort(pieces, {}, &Piece::rank);
  return Exchanged::kDone;
}

}  // namespace devrt::gpu_simulator
