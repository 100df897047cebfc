// LAPACK's factorisations and solvers as handlers: what each takes and gives is what jax exports.
#pragma once

#include "lapack/lapack_call.hpp"

namespace devrt::cpu::lapack {

/// Cholesky: (x) -> (factor, info).
template <class T>
void potrf(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  x.check_square();
  T* a = in_place<T>(frame, 0, 0, x.size());
  int* info = result<int>(frame, 1, x.count);
  const char uplo = letter(frame, "uplo", "LU");
  const int n = to_int(x.cols);
  const int lda = leading(n);
  for (std::int64_t i = 0; i < x.count; ++i) {
    call<T>(Routine::kPotrf, &uplo, &n, a + i * x.step(), &lda, info + i);
  }
}

/// LU: (x) -> (factors, pivots, info).
template <class T>
void getrf(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  T* a = in_place<T>(frame, 0, 0, x.size());
  int* pivots = result<int>(frame, 1, x.count * x.shorter());
  int* info = result<int>(frame, 2, x.count);
  const int m = to_int(x.rows);
  const int n = to_int(x.cols);
  const int lda = leading(m);
  for (std::int64_t i = 0; i < x.count; ++i) {
    call<T>(Routine::kGetrf, &m, &n, a + i * x.step(), &lda, pivots + i * x.shorter(), info + i);
  }
}

/// QR: (x) -> (reflectors and R, tau).
template <class T>
void geqrf(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  T* a = in_place<T>(frame, 0, 0, x.size());
  T* tau = result<T>(frame, 1, x.count * x.shorter());
  const int m = to_int(x.rows);
  const int n = to_int(x.cols);
  const int lda = leading(m);
  int info = 0;
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    call<T>(Routine::kGeqrf, &m, &n, a + i * x.step(), &lda, tau + i * x.shorter(), work, lwork,
            &info);
  });
}

/// QR with pivots: (x, pivots) -> (reflectors and R, pivots, tau).
template <class T>
void geqp3(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  T* a = in_place<T>(frame, 0, 0, x.size());
  int* pivots = in_place<int>(frame, 1, 1, x.count * x.cols);
  T* tau = result<T>(frame, 2, x.count * x.shorter());
  const int m = to_int(x.rows);
  const int n = to_int(x.cols);
  const int lda = leading(m);
  int info = 0;
  auto rwork = workspace<Real<T>>(2 * x.cols);
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    call<T>(Routine::kGeqp3, &m, &n, a + i * x.step(), &lda, pivots + i * x.cols,
            tau + i * x.shorter(), work, lwork, if_complex<T>(rwork.data()), &info);
  });
}

/// Returns how many reflectors there are for each of `count` matrices.
inline std::int64_t reflectors_of(const Array& tau, std::int64_t count) {
  if (tau.dims.empty() || tau.size() != count * tau.dims.back()) {
    reject("an operand or a result has the wrong shape.");
  }
  return tau.dims.back();
}

/// Q of a QR: (reflectors, tau) -> (q).
template <class T>
void orgqr(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  const std::int64_t reflectors = reflectors_of(frame.argument(1), x.count);
  T* a = in_place<T>(frame, 0, 0, x.size());
  const T* tau = argument<T>(frame, 1, x.count * reflectors);
  const int m = to_int(x.rows);
  const int n = to_int(x.cols);
  const int k = to_int(reflectors);
  const int lda = leading(m);
  int info = 0;
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    call<T>(Routine::kOrgqr, &m, &n, &k, a + i * x.step(), &lda, tau + i * reflectors, work, lwork,
            &info);
  });
}

/// A product with Q: (reflectors, tau, c) -> (q c), on either side, transposed or not.
template <class T>
void ormqr(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  const Matrices target(frame.argument(2));
  const std::int64_t reflectors = reflectors_of(frame.argument(1), x.count);
  const bool is_left = frame.integer("left").value_or(1) != 0;
  if (target.count != x.count || x.rows != (is_left ? target.rows : target.cols) ||
      reflectors > x.shorter()) {
    reject("an operand or a result has the wrong shape.");
  }
  const T* a = argument<T>(frame, 0, x.size());
  const T* tau = argument<T>(frame, 1, x.count * reflectors);
  T* c = in_place<T>(frame, 2, 0, target.size());
  const char side = is_left ? 'L' : 'R';
  const char other = is_complex<T> ? 'C' : 'T';
  const char trans = frame.integer("transpose").value_or(0) != 0 ? other : 'N';
  const int m = to_int(target.rows);
  const int n = to_int(target.cols);
  const int k = to_int(reflectors);
  const int lda = leading(x.rows);
  const int ldc = leading(m);
  int info = 0;
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    call<T>(Routine::kOrmqr, &side, &trans, &m, &n, &k, a + i * x.step(), &lda,
            tau + i * reflectors, c + i * target.step(), &ldc, work, lwork, &info);
  });
}

/// A triangular system: (x, y) -> (solution), with a factor as third operand under BLAS's name.
template <class T>
void trsm(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  const Matrices y(frame.argument(1));
  x.check_square();
  const char side = letter(frame, "side", "LR");
  if (x.count != y.count || x.rows != (side == 'L' ? y.rows : y.cols)) {
    reject("an operand or a result has the wrong shape.");
  }
  const T* a = argument<T>(frame, 0, x.size());
  T* b = in_place<T>(frame, 1, 0, y.size());
  const char uplo = letter(frame, "uplo", "LU");
  const char trans = letter(frame, "trans_x", "NTC");
  const char diag = letter(frame, "diag", "NU");
  const T alpha = frame.num_arguments() > 2 ? *argument<T>(frame, 2, 1) : T(1);
  const int m = to_int(y.rows);
  const int n = to_int(y.cols);
  const int lda = leading(x.rows);
  const int ldb = leading(m);
  for (std::int64_t i = 0; i < y.count; ++i) {
    call<T>(Routine::kTrsm, &side, &uplo, &trans, &diag, &m, &n, &alpha, a + i * x.step(), &lda,
            b + i * y.step(), &ldb);
  }
}

/// A tridiagonal system: (below, diagonal, above, b) -> (those, overwritten; solution, info).
///
/// All three diagonals have n elements; the first below and the last above count for nothing.
template <class T>
void gtsv(const CallFrame& frame) {
  const Matrices y(frame.argument(3));
  const std::int64_t size = y.count * y.rows;
  T* below = in_place<T>(frame, 0, 0, size);
  T* diagonal = in_place<T>(frame, 1, 1, size);
  T* above = in_place<T>(frame, 2, 2, size);
  T* b = in_place<T>(frame, 3, 3, y.size());
  int* info = result<int>(frame, 4, y.count);
  const int n = to_int(y.rows);
  const int columns = to_int(y.cols);
  const int ldb = leading(n);
  for (std::int64_t i = 0; i < y.count; ++i) {
    call<T>(Routine::kGtsv, &n, &columns, below + i * n + (n > 0), diagonal + i * n, above + i * n,
            b + i * y.step(), &ldb, info + i);
  }
}

}  // namespace devrt::cpu::lapack
