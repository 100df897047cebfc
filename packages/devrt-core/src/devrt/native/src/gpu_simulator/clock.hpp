// Vector clocks: which of two operations must come first, whatever the streams' speeds are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

/// How far each actor has come, as something knows of it. An actor is a stream, or the host: all
/// threads of the host are one, as the simulator does not see how they wait for each other.
class Clock {
 public:
  std::uint64_t at(std::size_t actor) const noexcept {
    return actor < times_.size() ? times_[actor] : 0;
  }
  void raise(std::size_t actor, std::uint64_t time) {
    if (actor >= times_.size()) times_.resize(actor + 1);
    times_[actor] = std::max(times_[actor], time);
  }
  void join(const Clock& other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
    for (std::size_t i = 0; i < other.times_.size(); ++i) {
      times_[i] = std::max(times_[i], other.times_[i]);
    }
  }

 private:
  std::vector<std::uint64_t> times_;
};

inline constexpr std::size_t kHostActor = 0;

/// Where an operation stands among all others, and what reports call it.
struct Moment {
  const char* function = "";  ///< the driver's function that was called; a literal
  std::uint64_t number = 0;   ///< of the call
  int device = -1;
  Handle stream = 0;
  std::size_t actor = kHostActor;
  std::uint64_t time = 0;
  Clock clock;

  /// Returns whether another comes after this one in every order that the streams may run in.
  bool is_before(const Moment& other) const noexcept {
    return this != &other && other.clock.at(actor) >= time;
  }
  std::string text() const;
};
using MomentRef = std::shared_ptr<const Moment>;

}  // namespace devrt::gpu_simulator
