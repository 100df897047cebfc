// The free chunks of an arena, found by size: the smallest that is large enough comes out.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace devrt::detail {

struct ArenaRegion;

/// A stretch of a region, in use or free; linked to its neighbours in memory.
struct ArenaChunk {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  ArenaRegion* region = nullptr;
  ArenaChunk* before = nullptr;
  ArenaChunk* after = nullptr;
  ArenaChunk* bin_before = nullptr;  // while it is free
  ArenaChunk* bin_after = nullptr;
  bool is_free = false;

  /// Returns how many bytes lie before the first multiple of an alignment.
  std::size_t bytes_before(std::size_t alignment) const noexcept {
    return static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(data)) & (alignment - 1);
  }
};

/// Lists of free chunks by size, eight to an octave, and a bit for each that is not empty.
class ArenaBins {
 public:
  static constexpr std::size_t kUnit = 64;  // every chunk is a multiple

  void insert(ArenaChunk& chunk) noexcept {
    const std::size_t bin = bin_of(chunk.bytes);
    chunk.is_free = true;
    chunk.bin_before = nullptr;
    chunk.bin_after = heads_[bin];
    if (heads_[bin]) heads_[bin]->bin_before = &chunk;
    heads_[bin] = &chunk;
    filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  }

  void remove(ArenaChunk& chunk) noexcept {
    const std::size_t bin = bin_of(chunk.bytes);
    chunk.is_free = false;
    (chunk.bin_before ? chunk.bin_before->bin_after : heads_[bin]) = chunk.bin_after;
    if (chunk.bin_after) chunk.bin_after->bin_before = chunk.bin_before;
    if (!heads_[bin]) filled_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  }

  /// Returns the smallest free chunk that has `bytes` from a multiple of `alignment` on, or null.
  ArenaChunk* best_fit(std::size_t bytes, std::size_t alignment = kUnit) const noexcept {
    // Only the first bin can hold chunks that are too small; a later bin's are all larger.
    for (std::size_t bin = next_filled(bin_of(bytes)); bin < kBins; bin = next_filled(bin + 1)) {
      if (ArenaChunk* found = smallest_in(bin, bytes, alignment)) return found;
    }
    return nullptr;
  }

  /// Returns the size of the largest free chunk; 0 if there is none.
  std::size_t largest() const noexcept {
    for (std::size_t word = filled_.size(); word-- > 0;) {
      if (filled_[word] == 0) continue;
      const auto bit = static_cast<std::size_t>(std::bit_width(filled_[word])) - 1;
      std::size_t most = 0;
      for (const ArenaChunk* chunk = heads_[word * 64 + bit]; chunk; chunk = chunk->bin_after) {
        most = chunk->bytes > most ? chunk->bytes : most;
      }
      return most;
    }
    return 0;
  }

 private:
  static constexpr std::size_t kLinear = 16;  // bins of exactly one size
  static constexpr std::size_t kBins = 512;

  static std::size_t bin_of(std::size_t bytes) noexcept {
    const std::size_t units = bytes / kUnit;
    if (units < kLinear) return units;
    const auto octave = static_cast<std::size_t>(std::bit_width(units)) - 1;  // at least 4
    return kLinear + 8 * (octave - 4) + ((units >> (octave - 3)) & 7);
  }

  std::size_t next_filled(std::size_t bin) const noexcept {
    while (bin < kBins) {
      const std::uint64_t bits = filled_[bin / 64] >> (bin % 64);
      if (bits != 0) return bin + static_cast<std::size_t>(std::countr_zero(bits));
      bin = (bin / 64 + 1) * 64;
    }
    return kBins;
  }

  ArenaChunk* smallest_in(std::size_t bin, std::size_t bytes,
                          std::size_t alignment) const noexcept {
    ArenaChunk* best = nullptr;
    for (ArenaChunk* chunk = heads_[bin]; chunk; chunk = chunk->bin_after) {
      if (chunk->bytes < bytes + chunk->bytes_before(alignment)) continue;
      if (chunk->bytes == bytes) return chunk;
      if (!best || chunk->bytes < best->bytes) best = chunk;
    }
    return best;
  }

  std::array<ArenaChunk*, kBins> heads_{};
  std::array<std::uint64_t, kBins / 64> filled_{};
};

}  // namespace devrt::detail
