// Tridiagonal systems that may be singular, which LAPACK's gtsv gives up on.
#pragma once

#include "lapack/lapack_call.hpp"

namespace devrt::cpu::lapack {

/// The factors of one tridiagonal matrix with rows exchanged: U has two diagonals above its own.
template <class T>
class PerturbedLu {
  using Limits = std::numeric_limits<Real<T>>;

 public:
  explicit PerturbedLu(std::int64_t n) : size_(n), pivots_(workspace<T>(n)) {
    first_ = second_ = factors_ = pivots_;
    is_exchanged_.resize(pivots_.size());
  }

  /// Factors a matrix. All three diagonals have n elements; the first below and the last above
  /// count for nothing.
  void factor(const T* below, const T* diagonal, const T* above) {
    std::copy_n(diagonal, size_, pivots_.begin());
    std::copy_n(above, size_, first_.begin());
    std::fill(second_.begin(), second_.end(), T(0));
    const auto n = static_cast<std::size_t>(size_);
    for (std::size_t i = 0; i + 1 < n; ++i) eliminate(i, below[i + 1]);
    Real<T> largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      largest =
          std::max({largest, std::abs(pivots_[i]), beside(first_, i, 1), beside(second_, i, 2)});
    }
    least_ = std::max(Limits::epsilon() * largest, Limits::min());
  }

  /// Overwrites a right-hand side with the solution.
  void solve(T* b) const {
    const auto n = static_cast<std::size_t>(size_);
    for (std::size_t i = 0; i + 1 < n; ++i) {
      if (is_exchanged_[i]) std::swap(b[i], b[i + 1]);
      b[i + 1] -= factors_[i] * b[i];
    }
    for (std::size_t i = n; i-- > 0;) {
      if (i + 1 < n) b[i] -= first_[i] * b[i + 1];
      if (i + 2 < n) b[i] -= second_[i] * b[i + 2];
      b[i] = quotient(b[i], pivots_[i]);
    }
  }

 private:
  /// Clears what is below a pivot, from the row with the larger of both.
  void eliminate(std::size_t i, T below) {
    is_exchanged_[i] = std::abs(below) > std::abs(pivots_[i]);
    if (is_exchanged_[i]) {
      std::swap(below, pivots_[i]);
      std::swap(first_[i], pivots_[i + 1]);
      if (i + 2 < static_cast<std::size_t>(size_)) std::swap(second_[i], first_[i + 1]);
    }
    factors_[i] = pivots_[i] == T(0) ? T(0) : below / pivots_[i];
    pivots_[i + 1] -= factors_[i] * first_[i];
    first_[i + 1] -= factors_[i] * second_[i];
  }

  /// Divides by a pivot, made larger until the quotient is finite: by what rounding may have taken
  /// from it, then by twice that, and so on.
  T quotient(T value, T pivot) const {
    const Real<T> size = std::abs(value);
    T step = pivot == T(0) ? T(least_) : pivot / std::abs(pivot) * least_;
    while (std::abs(pivot) < 1 && size > std::abs(pivot) * Limits::max()) {
      pivot += step;
      step *= 2;
    }
    return pivot == T(0) ? value / least_ : value / pivot;
  }

  Real<T> beside(const std::vector<T>& diagonal, std::size_t i, std::size_t distance) const {
    return i + distance < static_cast<std::size_t>(size_) ? std::abs(diagonal[i]) : 0;
  }

  std::int64_t size_;
  Real<T> least_ = 0;
  std::vector<T> pivots_;
  std::vector<T> first_;
  std::vector<T> second_;
  std::vector<T> factors_;
  std::vector<char> is_exchanged_;
};

template <class T>
void solve_perturbed_of(const CallFrame& frame) {
  const Matrices y(frame.argument(3));
  const std::int64_t size = y.count * y.rows;
  const T* below = argument<T>(frame, 0, size);
  const T* diagonal = argument<T>(frame, 1, size);
  const T* above = argument<T>(frame, 2, size);
  T* b = in_place<T>(frame, 3, 0, y.size());
  PerturbedLu<T> lu(y.rows);
  for (std::int64_t i = 0; i < y.count; ++i) {
    const std::int64_t at = i * y.rows;
    lu.factor(below + at, diagonal + at, above + at);
    for (std::int64_t j = 0; j < y.cols; ++j) lu.solve(b + i * y.step() + j * y.rows);
  }
}

/// A tridiagonal system, disturbed where it is singular: (below, diagonal, above, b) -> (solution).
inline void solve_perturbed(const CallFrame& frame) {
  by_type(frame.argument(3), [&](auto of) { solve_perturbed_of<decltype(of)>(frame); });
}

}  // namespace devrt::cpu::lapack
