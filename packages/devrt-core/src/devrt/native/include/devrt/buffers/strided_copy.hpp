// Copies an array of any strides into dense row-major memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "devrt/async/thread_pool.hpp"
#include "devrt/base/dims.hpp"

namespace devrt {

/// A view of an array in host memory; strides are in bytes and may be zero or negative.
struct StridedView {
  const std::byte* data = nullptr;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;
  std::size_t itemsize = 1;
  std::size_t swap = 1;  ///< bytes that reverse together; 1 leaves the byte order alone
};

/// Returns whether the elements lie without gaps in row-major order.
inline bool is_dense(const StridedView& view) noexcept {
  auto step = static_cast<std::int64_t>(view.itemsize);
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] == 0) return true;
    if (view.shape[i] == 1) continue;
    if (view.strides[i] != step) return false;
    step *= view.shape[i];
  }
  return true;
}

/// Copies at least this large are shared among threads.
inline constexpr std::size_t kParallelCopyBytes = std::size_t{1} << 20;

namespace detail {

/// Loop extents and source strides after the copy is reduced to as few loops as it needs.
struct CopyLoops {
  std::int64_t extent[kMaxDims];
  std::int64_t stride[kMaxDims];
  std::size_t depth = 0;
};

/// Drops extents of one and joins neighbours that are contiguous with each other.
inline CopyLoops collapse(const StridedView& view) noexcept {
  CopyLoops loops;
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 1) continue;
    if (loops.depth > 0 && loops.stride[loops.depth - 1] == view.strides[i] * view.shape[i]) {
      loops.extent[loops.depth - 1] *= view.shape[i];
      loops.stride[loops.depth - 1] = view.strides[i];
    } else {
      loops.extent[loops.depth] = view.shape[i];
      loops.stride[loops.depth] = view.strides[i];
      ++loops.depth;
    }
  }
  return loops;
}

template <std::size_t kSize>
void copy_items(const std::byte* from, std::byte* to, std::int64_t count, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kSize);
    from += stride;
    to += kSize;
  }
}

inline void copy_row(const std::byte* from, std::byte* to, std::int64_t count, std::int64_t stride,
                     std::size_t size) {
  if (stride == static_cast<std::int64_t>(size)) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size);
    return;
  }
  switch (size) {
    case 1:
      return copy_items<1>(from, to, count, stride);
    case 2:
      return copy_items<2>(from, to, count, stride);
    case 4:
      return copy_items<4>(from, to, count, stride);
    case 8:
      return copy_items<8>(from, to, count, stride);
    default:
      return copy_items<16>(from, to, count, stride);
  }
}

/// Copies a two-dimensional piece in tiles, so that a transposed source is read by cache lines.
inline void copy_tiled(const std::byte* from, std::byte* to, const std::int64_t* extent,
                       const std::int64_t* stride, std::size_t size) {
  constexpr std::int64_t kTile = 64;
  const std::int64_t row = extent[1] * static_cast<std::int64_t>(size);
  for (std::int64_t i = 0; i < extent[0]; i += kTile) {
    const std::int64_t rows = std::min(kTile, extent[0] - i);
    for (std::int64_t j = 0; j < extent[1]; j += kTile) {
      const std::int64_t columns = std::min(kTile, extent[1] - j);
      for (std::int64_t k = i; k < i + rows; ++k) {
        copy_row(from + k * stride[0] + j * stride[1],
                 to + k * row + j * static_cast<std::int64_t>(size), columns, stride[1], size);
      }
    }
  }
}

inline std::byte* copy_level(const CopyLoops& loops, std::size_t level, const std::byte* from,
                             std::byte* to, std::size_t size) {
  const std::int64_t count = loops.extent[level];
  const std::int64_t stride = loops.stride[level];
  if (level + 1 == loops.depth) {
    copy_row(from, to, count, stride, size);
    return to + count * static_cast<std::int64_t>(size);
  }
  if (level + 2 == loops.depth && loops.stride[level + 1] != static_cast<std::int64_t>(size)) {
    copy_tiled(from, to, &loops.extent[level], &loops.stride[level], size);
    return to + count * loops.extent[level + 1] * static_cast<std::int64_t>(size);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to = copy_level(loops, level + 1, from, to, size);
    from += stride;
  }
  return to;
}

inline void reverse_units(std::byte* data, std::size_t bytes, std::size_t unit) noexcept {
  for (std::size_t i = 0; i < bytes; i += unit) std::reverse(data + i, data + i + unit);
}

/// Copies the range [first, last) of the outermost loop.
inline void copy_range(const CopyLoops& loops, const StridedView& view, std::byte* to,
                       std::int64_t first, std::int64_t last) {
  CopyLoops part = loops;
  part.extent[0] = last - first;
  std::size_t row = view.itemsize;
  for (std::size_t i = 1; i < loops.depth; ++i) row *= static_cast<std::size_t>(loops.extent[i]);
  std::byte* start = to + static_cast<std::size_t>(first) * row;
  const std::byte* end =
      copy_level(part, 0, view.data + first * loops.stride[0], start, view.itemsize);
  if (view.swap > 1) reverse_units(start, static_cast<std::size_t>(end - start), view.swap);
}

}  // namespace detail

/// Copies `view` to `to`, dense and row-major; with the help of a pool when it is large. Must not
/// overlap.
inline void copy_to_dense(const StridedView& view, std::byte* to, ThreadPool* pool = nullptr) {
  std::size_t bytes = view.itemsize;
  for (const std::int64_t extent : view.shape) bytes *= static_cast<std::size_t>(extent);
  if (bytes == 0) return;
  detail::CopyLoops loops = detail::collapse(view);
  if (loops.depth == 0) {
    loops.depth = 1;
    loops.extent[0] = 1;
    loops.stride[0] = static_cast<std::int64_t>(view.itemsize);
  }
  const std::int64_t rows = loops.extent[0];
  if (!pool || bytes < kParallelCopyBytes || rows < pool->width()) {
    return detail::copy_range(loops, view, to, 0, rows);
  }
  // A few pieces for each thread, so that one that comes late leaves little to wait for.
  const auto parts = std::min<std::int64_t>(rows, 4 * pool->width());
  pool->run(static_cast<std::size_t>(parts), [&](std::size_t part) {
    const auto i = static_cast<std::int64_t>(part);
    detail::copy_range(loops, view, to, rows * i / parts, rows * (i + 1) / parts);
  });
}

}  // namespace devrt
