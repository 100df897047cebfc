// Shapes and strides: short arrays of 64-bit integers that seldom need the heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "devrt/base/status.hpp"

namespace devrt {

/// Greatest number of dimensions, as NumPy 2 and the buffer protocol have it.
inline constexpr std::size_t kMaxDims = 64;

/// A fixed-length array of extents; up to four are stored inside.
class Dims {
 public:
  static constexpr std::size_t kInline = 4;

  Dims() noexcept = default;
  explicit Dims(std::size_t size) : size_(size) {
    if (size > kMaxDims) {
      raise_invalid("An array has at most 64 dimensions, not " + std::to_string(size) + ".");
    }
    if (size > kInline) heap_ = std::make_unique<std::int64_t[]>(size);
  }
  Dims(std::initializer_list<std::int64_t> values) : Dims(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  explicit Dims(std::span<const std::int64_t> values) : Dims(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  Dims(Dims&& other) noexcept
      : size_(std::exchange(other.size_, 0)), heap_(std::move(other.heap_)) {
    std::copy_n(other.inline_, kInline, inline_);
  }
  Dims& operator=(Dims&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    heap_ = std::move(other.heap_);
    std::copy_n(other.inline_, kInline, inline_);
    return *this;
  }
  Dims(const Dims&) = delete;
  Dims& operator=(const Dims&) = delete;

  /// Returns a copy; of more than four extents it is one allocation.
  Dims copy() const { return Dims(span()); }

  std::size_t size() const noexcept { return size_; }
  std::int64_t* data() noexcept { return size_ > kInline ? heap_.get() : inline_; }
  const std::int64_t* data() const noexcept { return size_ > kInline ? heap_.get() : inline_; }
  std::int64_t& operator[](std::size_t i) noexcept { return data()[i]; }
  std::int64_t operator[](std::size_t i) const noexcept { return data()[i]; }
  std::span<const std::int64_t> span() const noexcept { return {data(), size_}; }

 private:
  std::size_t size_ = 0;
  std::int64_t inline_[kInline] = {};
  std::unique_ptr<std::int64_t[]> heap_;
};

/// Returns the bytes of a dense array; throws INVALID_ARGUMENT on a negative extent or an overflow.
inline std::size_t checked_bytes(std::span<const std::int64_t> shape, std::size_t itemsize) {
  std::int64_t bytes = static_cast<std::int64_t>(itemsize);
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) raise_invalid("A shape has a negative extent: " + std::to_string(extent) + ".");
    empty = empty || extent == 0;
  }
  if (empty) return 0;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      raise_invalid("A shape is too large: its size in bytes does not fit 63 bits.");
    }
  }
  return static_cast<std::size_t>(bytes);
}

/// Returns row-major strides in bytes.
inline Dims dense_strides(std::span<const std::int64_t> shape, std::size_t itemsize) {
  Dims strides(shape.size());
  auto step = static_cast<std::int64_t>(itemsize);
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

}  // namespace devrt
