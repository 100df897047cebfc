// A set of bytes as ranges: which bytes of an allocation were written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace devrt::gpu_simulator {

class RangeSet {
 public:
  void add(std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second >= begin) --at;
    while (at != ranges_.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_.emplace(begin, end);
  }

  void remove(std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin()) --at;
    while (at != ranges_.end() && at->first < end) {
      const auto [first, last] = *at;
      if (last <= begin) {
        ++at;
        continue;
      }
      at = ranges_.erase(at);
      if (first < begin) ranges_.emplace(first, begin);
      if (last > end) ranges_.emplace(end, last);
    }
  }

  /// Returns the first byte of a range that is not in the set.
  std::optional<std::size_t> first_gap(std::size_t begin, std::size_t end) const {
    auto at = ranges_.upper_bound(begin);
    if (at == ranges_.begin()) return begin;
    --at;
    if (at->second <= begin) return begin;
    return at->second < end ? std::optional(at->second) : std::nullopt;
  }

  /// Makes `to` hold what this has in a range, moved by the distance between `begin` and `at`.
  void copy(std::size_t begin, std::size_t end, RangeSet& to, std::size_t at) const {
    std::vector<std::pair<std::size_t, std::size_t>> held;  // first: `to` may be this set
    auto each = ranges_.upper_bound(begin);
    if (each != ranges_.begin()) --each;
    for (; each != ranges_.end() && each->first < end; ++each) {
      const std::size_t first = std::max(each->first, begin);
      const std::size_t last = std::min(each->second, end);
      if (first < last) held.emplace_back(at + (first - begin), at + (last - begin));
    }
    to.remove(at, at + (end - begin));
    for (const auto& [first, last] : held) to.add(first, last);
  }

 private:
  std::map<std::size_t, std::size_t> ranges_;  // end by begin; apart from each other
};

}  // namespace devrt::gpu_simulator
