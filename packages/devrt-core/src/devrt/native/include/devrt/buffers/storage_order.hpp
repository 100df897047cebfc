// The order in which the dimensions of a dense array lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "devrt/base/dims.hpp"
#include "devrt/buffers/strided_copy.hpp"

namespace devrt {

// An order lists the dimensions from minor to major, as XLA's layouts do. An empty one is
// row-major.

/// Returns whether an order is that of a row-major array.
inline bool is_row_major(std::span<const std::int64_t> order) noexcept {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int64_t>(order.size() - 1 - i)) return false;
  }
  return true;
}

/// Returns the strides in bytes of a dense array whose dimensions lie in `order`.
inline Dims ordered_strides(std::span<const std::int64_t> shape, std::size_t itemsize,
                            std::span<const std::int64_t> order) {
  if (order.empty()) return dense_strides(shape, itemsize);
  Dims strides(shape.size());
  auto step = static_cast<std::int64_t>(itemsize);
  for (const std::int64_t dimension : order) {
    const auto i = static_cast<std::size_t>(dimension);
    strides[i] = step;
    step *= shape[i] > 1 ? shape[i] : 1;
  }
  return strides;
}

/// Returns whether strides are those of a dense array, row-major or, for `fortran`, column-major.
inline bool is_contiguous(std::span<const std::int64_t> shape,
                          std::span<const std::int64_t> strides, std::size_t itemsize,
                          bool fortran) noexcept {
  auto step = static_cast<std::int64_t>(itemsize);
  for (const std::int64_t extent : shape) {
    if (extent == 0) return true;
  }
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const std::size_t i = fortran ? k : shape.size() - 1 - k;
    if (shape[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

/// A view whose dimensions are put from major to minor of an order that is not empty: copied
/// densely, it lies in it.
class OrderedView {
 public:
  OrderedView(const StridedView& source, std::span<const std::int64_t> order)
      : shape_(order.size()), strides_(order.size()), view_(source) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto from = static_cast<std::size_t>(order[order.size() - 1 - i]);
      shape_[i] = source.shape[from];
      strides_[i] = source.strides[from];
    }
    view_.shape = shape_.span();
    view_.strides = strides_.span();
  }
  OrderedView(const OrderedView&) = delete;
  OrderedView& operator=(const OrderedView&) = delete;

  const StridedView& view() const noexcept { return view_; }

 private:
  Dims shape_;
  Dims strides_;
  StridedView view_;
};

}  // namespace devrt
