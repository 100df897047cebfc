// Products of sparse matrices with dense ones, which jax leaves to a custom call.
#pragma once

#include "lapack/lapack_call.hpp"

namespace devrt::cpu::lapack {

template <class T>
void multiply_csr_of(const CallFrame& frame) {
  const Array data = frame.argument(0);
  const Array starts = frame.argument(1);
  const Array columns = frame.argument(2);
  const Array dense = frame.argument(3);
  const Array product = frame.result(0);
  if (dense.dims.empty() || dense.dims.size() > 2 || product.dims.size() != dense.dims.size() ||
      product.dims.back() != (dense.dims.size() == 1 ? product.dims[0] : dense.dims[1])) {
    reject("an operand or a result has the wrong shape.");
  }
  const std::int64_t rows = product.dims[0];
  const std::int64_t width = dense.dims.size() == 1 ? 1 : dense.dims[1];
  const T* values = data_of<T>(data, data.size());
  const int* first = data_of<int>(starts, rows + 1);
  const int* column = data_of<int>(columns, data.size());
  const T* right = data_of<T>(dense, dense.size());
  T* out = data_of<T>(product, rows * width);
  std::fill_n(out, rows * width, T(0));
  for (std::int64_t row = 0; row < rows; ++row, out += width) {
    if (first[row] < 0 || first[row + 1] > data.size()) reject("a row lies outside of the values.");
    for (int k = first[row]; k < first[row + 1]; ++k) {
      if (column[k] < 0 || column[k] >= dense.dims[0]) reject("a column is out of range.");
      const T* from = right + column[k] * width;
      for (std::int64_t j = 0; j < width; ++j) out[j] += values[k] * from[j];
    }
  }
}

/// A sparse matrix, by rows, times a dense matrix or vector: (values, where each row starts, their
/// columns, dense) -> (product).
inline void multiply_csr(const CallFrame& frame) {
  by_type(frame.argument(0), [&](auto of) { multiply_csr_of<decltype(of)>(frame); });
}

}  // namespace devrt::cpu::lapack
