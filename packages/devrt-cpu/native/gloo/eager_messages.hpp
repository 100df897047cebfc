// Messages that every rank sends to every other one at once.
#pragma once

#include <gloo/common/error.h>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace devrt::gloo_library {

/// Exchanges short messages with all ranks. Each rank is ready for the next ones of all others
/// before it waits for these, so that a message goes at once into memory that waits for it. In
/// Gloo's own operations the receiver is ready when it has come, and a message takes two steps.
class EagerMessages {
 public:
  EagerMessages(gloo::Context& context, std::chrono::milliseconds timeout)
      : me_(context.rank), count_(context.size), timeout_(timeout) {
    for (Step& step : steps_) {
      step.received = std::make_unique_for_overwrite<std::byte[]>(bytes());
      step.sent = std::make_unique_for_overwrite<std::byte[]>(bytes());
      step.receiver = context.createUnboundBuffer(step.received.get(), bytes());
      step.sender = context.createUnboundBuffer(step.sent.get(), bytes());
    }
    expect(steps_[0]);
  }

  /// How many bytes a message has at most.
  std::size_t longest() const noexcept { return stride() - kHeader; }

  /// Sends each rank `size` bytes, those at `piece(rank)`; returns when theirs are here. What the
  /// pieces were may then be written over.
  template <class Piece>
  void exchange(std::size_t size, Piece piece) {
    Step& step = steps_[step_];
    for (int rank = 0; rank < count_; ++rank) {
      std::byte* message = (rank == me_ ? step.received : step.sent).get() + start(rank);
      std::memcpy(message, &size, sizeof(size));
      if (size > 0) std::memcpy(message + kHeader, piece(rank), size);
      if (rank != me_) step.sender->send(rank, kSlot, start(rank), kHeader + size);
    }
    step_ = 1 - step_;
    expect(steps_[step_]);
    for (int rank = 0; rank < count_; ++rank) {
      if (rank != me_) check(step.receiver->waitRecv(timeout_));
    }
    for (int rank = 0; rank < count_; ++rank) {
      if (rank != me_) check(step.sender->waitSend(timeout_));
      check_size(rank, size);
    }
  }

  /// Returns what a rank sent to this one; valid until the next exchange.
  const std::byte* from(int rank) const noexcept {
    return steps_[1 - step_].received.get() + start(rank) + kHeader;
  }

 private:
  /// Memory for a message from and to each rank. There are two: the next messages may come before
  /// the last one of these.
  struct Step {
    std::unique_ptr<std::byte[]> received, sent;
    std::unique_ptr<gloo::transport::UnboundBuffer> receiver, sender;
  };

  static constexpr std::uint64_t kSlot = std::uint64_t{0x7c} << 56;
  static constexpr std::size_t kHeader = 16;  // a size; what follows stays aligned
  static constexpr std::size_t kLongest = 1 << 20;
  static constexpr std::size_t kMemory = 4 << 20;  // for one message of each rank; taken when used

  std::size_t stride() const noexcept {
    return kHeader + std::min(kLongest, kMemory / static_cast<std::size_t>(count_));
  }
  std::size_t start(int rank) const noexcept { return stride() * static_cast<std::size_t>(rank); }
  std::size_t bytes() const noexcept { return start(count_); }
  void expect(Step& step) const {
    for (int rank = 0; rank < count_; ++rank) {
      if (rank != me_) step.receiver->recv(rank, kSlot, start(rank), stride());
    }
  }
  static void check(bool is_done) {
    if (!is_done) throw gloo::IoException("the exchange was ended");
  }
  void check_size(int rank, std::size_t size) const {
    std::size_t theirs = 0;
    std::memcpy(&theirs, from(rank) - kHeader, sizeof(theirs));
    if (theirs != size) throw std::runtime_error("the ranks give arrays of different sizes");
  }

  int me_;
  int count_;
  std::chrono::milliseconds timeout_;
  Step steps_[2];
  int step_ = 0;
};

}  // namespace devrt::gloo_library
