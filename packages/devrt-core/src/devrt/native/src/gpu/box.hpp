// What a driver copies in one call: a run of bytes, rows of runs, or planes of rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "client/region_copy.hpp"

namespace devrt::gpu {

/// One side of a copy. What lies between rows, and between planes, counts where there are more.
template <class Byte>
struct BoxSide {
  Byte* data = nullptr;
  std::size_t pitch = 0;  ///< bytes from a row to the next
  std::size_t rows = 1;   ///< rows from a plane to the next
  bool is_host = false;

  Byte* at(std::size_t plane, std::size_t row) const noexcept {
    return data + (plane * rows + row) * pitch;
  }
};

struct Box {
  BoxSide<const std::byte> from;
  BoxSide<std::byte> to;
  std::size_t width = 0;  ///< of a row, in bytes
  std::size_t height = 1;
  std::size_t depth = 1;

  bool is_run() const noexcept { return height == 1 && depth == 1; }
  std::size_t bytes() const noexcept { return width * height * depth; }
  /// Returns a part: whole rows of some planes.
  Box part(std::size_t plane, std::size_t planes, std::size_t row,
           std::size_t rows) const noexcept {
    Box made = *this;
    made.from.data = from.at(plane, row);
    made.to.data = to.at(plane, row);
    made.depth = planes;
    made.height = rows;
    return made;
  }
};

namespace detail {

/// Above it the drivers refuse a pitch.
inline constexpr std::int64_t kLargestPitch = 0x7fffffff;

inline bool are_rows(const native::RegionCopy& copy, const std::int64_t* step) {
  const std::int64_t pitch = step[copy.depth - 1];
  return pitch >= static_cast<std::int64_t>(copy.run) && pitch <= kLargestPitch;
}

/// Whether a plane begins whole rows after the one before, and behind it.
inline bool are_planes(const native::RegionCopy& copy, const std::int64_t* step) {
  const std::int64_t pitch = step[copy.depth - 1], slice = step[copy.depth - 2];
  return slice % pitch == 0 && slice / pitch >= copy.extent[copy.depth - 1];
}

/// Returns how many of the innermost loops a driver makes by itself.
inline std::size_t loops_of_box(const native::RegionCopy& copy) {
  if (copy.depth < 1 || !are_rows(copy, copy.from_step) || !are_rows(copy, copy.to_step)) return 0;
  const bool has_planes =
      copy.depth > 1 && are_planes(copy, copy.from_step) && are_planes(copy, copy.to_step);
  return has_planes ? 2 : 1;
}

template <class Byte>
BoxSide<Byte> side_of(Byte* data, const native::RegionCopy& copy, const std::int64_t* step,
                      std::size_t loops, bool is_host) {
  BoxSide<Byte> side{data, copy.run, 1, is_host};
  if (loops > 0) side.pitch = static_cast<std::size_t>(step[copy.depth - 1]);
  side.rows = loops > 0 ? static_cast<std::size_t>(copy.extent[copy.depth - 1]) : 1;
  if (loops > 1) side.rows = static_cast<std::size_t>(step[copy.depth - 2]) / side.pitch;
  return side;
}

}  // namespace detail

/// Calls back with the boxes of a copy, as few as the drivers' calls can be.
template <class Function>
void for_each_box(const native::RegionCopy& copy, bool from_host, bool to_host,
                  Function&& function) {
  const std::size_t loops = detail::loops_of_box(copy);
  Box box{detail::side_of(copy.from, copy, copy.from_step, loops, from_host),
          detail::side_of(copy.to, copy, copy.to_step, loops, to_host), copy.run};
  if (loops > 0) box.height = static_cast<std::size_t>(copy.extent[copy.depth - 1]);
  if (loops > 1) box.depth = static_cast<std::size_t>(copy.extent[copy.depth - 2]);
  const auto visit = [&](const auto& self, std::size_t level, const Box& at) -> void {
    if (level + loops == copy.depth) return function(at);
    Box next = at;
    for (std::int64_t i = 0; i < copy.extent[level]; ++i) {
      self(self, level + 1, next);
      next.from.data += copy.from_step[level];
      next.to.data += copy.to_step[level];
    }
  };
  visit(visit, 0, box);
}

/// Returns how many boxes `for_each_box` finds.
inline std::size_t boxes_of(const native::RegionCopy& copy) noexcept {
  std::size_t boxes = 1;
  const std::size_t outer = copy.depth - detail::loops_of_box(copy);
  for (std::size_t i = 0; i < outer; ++i) boxes *= static_cast<std::size_t>(copy.extent[i]);
  return boxes;
}

/// Calls back with parts of a box that have at most so many bytes.
template <class Function>
void for_each_part(const Box& box, std::size_t largest, Function&& function) {
  if (box.bytes() <= largest) return function(box);
  const auto recurse = [&](const Box& part) { for_each_part(part, largest, function); };
  if (box.depth > 1) {
    const std::size_t planes = std::max<std::size_t>(1, largest / (box.width * box.height));
    for (std::size_t z = 0; z < box.depth; z += planes) {
      recurse(box.part(z, std::min(planes, box.depth - z), 0, box.height));
    }
  } else if (box.height > 1) {
    const std::size_t rows = std::max<std::size_t>(1, largest / box.width);
    for (std::size_t y = 0; y < box.height; y += rows) {
      recurse(box.part(0, 1, y, std::min(rows, box.height - y)));
    }
  } else {
    for (std::size_t x = 0; x < box.width; x += largest) {
      Box part = box;
      part.from.data += x;
      part.to.data += x;
      part.width = std::min(largest, box.width - x);
      recurse(part);
    }
  }
}

/// Returns the copy that the host makes in place of a driver: in no more loops than it needs, since
/// threads share the outermost.
inline native::RegionCopy on_host(const Box& box) noexcept {
  native::RegionCopy copy;
  copy.from = box.from.data;
  copy.to = box.to.data;
  copy.run = box.width;
  const auto add = [&](std::size_t count, std::size_t from_step, std::size_t to_step) {
    if (count == 1) return;
    copy.extent[copy.depth] = static_cast<std::int64_t>(count);
    copy.from_step[copy.depth] = static_cast<std::int64_t>(from_step);
    copy.to_step[copy.depth++] = static_cast<std::int64_t>(to_step);
  };
  add(box.depth, box.from.pitch * box.from.rows, box.to.pitch * box.to.rows);
  add(box.height, box.from.pitch, box.to.pitch);
  return copy;
}

}  // namespace devrt::gpu
