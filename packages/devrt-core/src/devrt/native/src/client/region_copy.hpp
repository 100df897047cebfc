// Copies a box of elements from one dense array into another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "devrt/async/thread_pool.hpp"
#include "devrt/base/dims.hpp"
#include "devrt/buffers/storage_order.hpp"

namespace devrt::native {

/// Loops that one copy has at most; a box that needs more is several copies.
inline constexpr std::size_t kMaxLoops = 4;

/// The address space of host memory that belongs to no memory kind.
inline constexpr int kHostSpace = -1;

/// One box to copy: first elements, and loops over runs of bytes, the outermost first.
struct RegionCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t run = 0;  ///< bytes that are contiguous on both sides
  std::size_t depth = 0;
  std::int64_t extent[kMaxLoops];
  std::int64_t from_step[kMaxLoops];
  std::int64_t to_step[kMaxLoops];
  int from_space = kHostSpace;
  int to_space = kHostSpace;

  std::size_t bytes() const noexcept {
    std::size_t total = run;
    for (std::size_t i = 0; i < depth; ++i) total *= static_cast<std::size_t>(extent[i]);
    return total;
  }
};

/// A box of a dense array: where the array begins, its shape, the box's first element, and the
/// order in which the dimensions lie.
template <class Byte>
struct Corner {
  Byte* data;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> start;
  std::span<const std::int64_t> order = {};
  int space = kHostSpace;
};

namespace detail {

/// Any number of loops, the innermost first, before they become copies.
struct DeepCopy {
  const std::byte* from;
  std::byte* to;
  std::size_t run;
  std::size_t depth = 0;
  std::int64_t extent[kMaxDims];
  std::int64_t from_step[kMaxDims];
  std::int64_t to_step[kMaxDims];
  int from_space = kHostSpace;
  int to_space = kHostSpace;
};

inline void emit(const DeepCopy& deep, std::size_t depth, const std::byte* from, std::byte* to,
                 std::vector<RegionCopy>& copies) {
  if (depth > kMaxLoops) {
    const std::size_t outer = depth - 1;
    for (std::int64_t i = 0; i < deep.extent[outer]; ++i) {
      emit(deep, outer, from + i * deep.from_step[outer], to + i * deep.to_step[outer], copies);
    }
    return;
  }
  RegionCopy copy;
  copy.from = from;
  copy.to = to;
  copy.run = deep.run;
  copy.depth = depth;
  std::reverse_copy(deep.extent, deep.extent + depth, copy.extent);
  std::reverse_copy(deep.from_step, deep.from_step + depth, copy.from_step);
  std::reverse_copy(deep.to_step, deep.to_step + depth, copy.to_step);
  copy.from_space = deep.from_space;
  copy.to_space = deep.to_space;
  copies.push_back(copy);
}

}  // namespace detail

/// Appends the copy of a box that lies within both arrays, in as few loops as it needs.
inline void add_region_copy(Corner<const std::byte> from, Corner<std::byte> to,
                            std::span<const std::int64_t> extent, std::size_t itemsize,
                            std::vector<RegionCopy>& copies) {
  detail::DeepCopy deep{from.data, to.data, itemsize, 0, {}, {}, {}, from.space, to.space};
  const Dims from_steps = ordered_strides(from.shape, itemsize, from.order);
  const Dims to_steps = ordered_strides(to.shape, itemsize, to.order);
  for (std::size_t i = extent.size(); i-- > 0;) {
    if (extent[i] == 0) return;
    deep.from += from.start[i] * from_steps[i];
    deep.to += to.start[i] * to_steps[i];
    if (extent[i] == 1) continue;
    const auto run = static_cast<std::int64_t>(deep.run);
    if (from_steps[i] == run && to_steps[i] == run) {
      deep.run *= static_cast<std::size_t>(extent[i]);
    } else {
      deep.extent[deep.depth] = extent[i];
      deep.from_step[deep.depth] = from_steps[i];
      deep.to_step[deep.depth++] = to_steps[i];
    }
  }
  detail::emit(deep, deep.depth, deep.from, deep.to, copies);
}

namespace detail {

inline void copy_runs(const RegionCopy& copy, std::size_t level, const std::byte* from,
                      std::byte* to) noexcept {
  if (level == copy.depth) {
    std::memcpy(to, from, copy.run);
    return;
  }
  for (std::int64_t i = 0; i < copy.extent[level]; ++i) {
    copy_runs(copy, level + 1, from, to);
    from += copy.from_step[level];
    to += copy.to_step[level];
  }
}

}  // namespace detail

/// Makes the copy on this thread.
inline void run_region_copy(const RegionCopy& copy) noexcept {
  detail::copy_runs(copy, 0, copy.from, copy.to);
}

/// Appends the copy in up to `parts` pieces, along its outermost loop or its one run.
inline void split_region_copy(const RegionCopy& copy, std::int64_t parts,
                              std::vector<RegionCopy>& pieces) {
  const bool is_run = copy.depth == 0;
  const std::int64_t rows = is_run ? static_cast<std::int64_t>(copy.run) : copy.extent[0];
  parts = std::clamp<std::int64_t>(parts, 1, std::max<std::int64_t>(rows, 1));
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = rows * part / parts;
    const std::int64_t count = rows * (part + 1) / parts - first;
    RegionCopy piece = copy;
    piece.from += first * (is_run ? 1 : copy.from_step[0]);
    piece.to += first * (is_run ? 1 : copy.to_step[0]);
    if (is_run) {
      piece.run = static_cast<std::size_t>(count);
    } else {
      piece.extent[0] = count;
    }
    pieces.push_back(piece);
  }
}

/// Makes all copies, sharing them among the pool's threads where there is enough to share.
inline void run_region_copies(std::span<const RegionCopy> copies, ThreadPool& pool) {
  constexpr std::size_t kWorthSharing = std::size_t{1} << 20;
  std::size_t total = 0;
  for (const RegionCopy& copy : copies) total += copy.bytes();
  if (total < kWorthSharing || pool.width() == 1) {
    for (const RegionCopy& copy : copies) run_region_copy(copy);
    return;
  }
  const std::size_t grain = std::max<std::size_t>(total / (4 * pool.width()), kWorthSharing / 4);
  std::vector<RegionCopy> pieces;
  for (const RegionCopy& copy : copies) {
    split_region_copy(copy, static_cast<std::int64_t>(copy.bytes() / grain), pieces);
  }
  pool.run(pieces.size(), [&](std::size_t i) { run_region_copy(pieces[i]); });
}

}  // namespace devrt::native
