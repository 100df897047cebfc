// A memory pool's bookkeeping: what it holds of a device's memory, and what of it may be used
// again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "gpu_simulator/clock.hpp"
#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {

/// Bytes of a pool that were freed. Another allocation may have them if it comes after the free in
/// stream order, or if the free has run.
struct FreedBytes {
  std::size_t bytes = 0;
  MomentRef freed;
  bool has_run = false;
};

class Pool {
 public:
  Pool(int device, bool is_default) : device(device), is_default(is_default) {}

  /// Takes bytes for an allocation; returns how many more the pool must get from the device first.
  std::size_t lacks(std::size_t bytes, const Moment& moment) const {
    std::size_t found = 0;
    for (const auto& each : freed_) found += is_usable(*each, moment) ? each->bytes : 0;
    return found >= bytes ? 0 : round_up(bytes - found);
  }

  void take(std::size_t bytes, std::size_t grown, const Moment& moment) {
    reserved += grown;
    reserved_high = std::max(reserved_high, reserved);
    used += bytes;
    used_high = std::max(used_high, used);
    if (grown) freed_.push_back(std::make_shared<FreedBytes>(FreedBytes{grown, nullptr, true}));
    for (const auto& each : freed_) {
      if (!is_usable(*each, moment)) continue;
      const std::size_t part = std::min(each->bytes, bytes);
      each->bytes -= part;
      bytes -= part;
    }
    std::erase_if(freed_, [](const auto& each) { return each->bytes == 0; });
  }

  /// Notes a free; what it returns is to be marked when the free has run.
  std::shared_ptr<FreedBytes> give_back(std::size_t bytes, MomentRef moment) {
    used -= bytes;
    return freed_.emplace_back(
        std::make_shared<FreedBytes>(FreedBytes{bytes, std::move(moment), false}));
  }

  /// Returns to the device what nothing uses, down to `keep` bytes that the pool may hold.
  void trim(std::size_t keep) {
    for (const auto& each : freed_) {
      if (!each->has_run || reserved <= keep) continue;
      const std::size_t part = std::min(each->bytes, reserved - keep);
      each->bytes -= part;
      reserved -= part;
    }
    std::erase_if(freed_, [](const auto& each) { return each->bytes == 0; });
  }

  const int device;
  const bool is_default;
  std::uint64_t threshold = 0;
  std::size_t reserved = 0;
  std::size_t reserved_high = 0;
  std::size_t used = 0;
  std::size_t used_high = 0;
  std::set<int> readers;                  ///< devices that were given access, beside its own
  std::uint64_t reuse[4] = {0, 1, 1, 1};  ///< three switches, by number; they change nothing here

 private:
  static constexpr std::size_t kGranule = std::size_t{2} << 20;

  static std::size_t round_up(std::size_t bytes) {
    return (bytes + kGranule - 1) / kGranule * kGranule;
  }
  static bool is_usable(const FreedBytes& freed, const Moment& moment) {
    return freed.has_run || freed.freed->is_before(moment);
  }

  std::vector<std::shared_ptr<FreedBytes>> freed_;
};

}  // namespace devrt::gpu_simulator
