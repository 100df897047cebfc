// What the simulator found wrong with its client.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu_simulator/clock.hpp"

namespace devrt::gpu_simulator {

std::string hex(std::uint64_t value);

/// Findings, each as one line: what kind it is, a colon, what happened. Not thread-safe.
class Reports {
 public:
  explicit Reports(bool print) : print_(print) {}

  void add(std::string_view kind, std::string text);
  const std::vector<std::string>& all() const noexcept { return all_; }
  void clear() { all_.clear(); }

 private:
  static constexpr std::size_t kMost = 200;  // one fault may be met by every operation that follows

  std::vector<std::string> all_;
  const bool print_;
};

}  // namespace devrt::gpu_simulator
