// LAPACK's eigenvalues, singular values and reductions as handlers, as jax exports them.
#pragma once

#include "lapack/lapack_call.hpp"

namespace devrt::cpu::lapack {

/// Eigenvalues of symmetric matrices: (x) -> (vectors, values, info).
template <class T>
void syevd(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  x.check_square();
  T* a = in_place<T>(frame, 0, 0, x.size());
  Real<T>* values = result<Real<T>>(frame, 1, x.count * x.cols);
  int* info = result<int>(frame, 2, x.count);
  const char mode = letter(frame, "mode", "NV");
  const char uplo = letter(frame, "uplo", "LU");
  const int n = to_int(x.cols);
  const int lda = leading(n);
  auto iwork = workspace<int>(3 + 5 * x.cols);
  const int liwork = to_int(static_cast<std::int64_t>(iwork.size()));
  auto rwork = workspace<Real<T>>(is_complex<T> ? 1 + 5 * x.cols + 2 * x.step() : 1);
  const int lrwork = to_int(static_cast<std::int64_t>(rwork.size()));
  auto work = workspace<T>(is_complex<T> ? 2 * x.cols + x.step() : 1 + 6 * x.cols + 2 * x.step());
  const int lwork = to_int(static_cast<std::int64_t>(work.size()));
  for (std::int64_t i = 0; i < x.count; ++i) {
    call<T>(Routine::kSyevd, &mode, &uplo, &n, a + i * x.step(), &lda, values + i * x.cols,
            work.data(), &lwork, if_complex<T>(rwork.data()), if_complex<T>(&lrwork), iwork.data(),
            &liwork, info + i);
  }
}

/// The results of a singular value decomposition: (x, overwritten; values, u, vt, info).
template <class T>
struct SvdResults {
  SvdResults(const CallFrame& frame, const Matrices& x, char mode)
      : a(in_place<T>(frame, 0, 0, x.size())),
        values(result<Real<T>>(frame, 1, x.count * x.shorter())),
        info(result<int>(frame, 4, x.count)),
        u_step(x.rows * (mode == 'A' ? x.rows : x.shorter())),
        vt_rows(mode == 'A' ? x.cols : x.shorter()),
        vt_step(vt_rows * x.cols) {
    if (mode == 'N') {  // not written to, and of any shape
      u_step = vt_step = 0;
      u = static_cast<T*>(frame.result(2).data);
      vt = static_cast<T*>(frame.result(3).data);
      return;
    }
    u = result<T>(frame, 2, x.count * u_step);
    vt = result<T>(frame, 3, x.count * vt_step);
  }

  T* a;
  Real<T>* values;
  int* info;
  std::int64_t u_step;
  std::int64_t vt_rows;
  std::int64_t vt_step;
  T* u = nullptr;
  T* vt = nullptr;
};

/// Singular values by divide and conquer.
template <class T>
void gesdd(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  const char mode = letter(frame, "mode", "ASN");
  const SvdResults<T> out(frame, x, mode);
  const int m = to_int(x.rows);
  const int n = to_int(x.cols);
  const int lda = leading(m);
  const int ldvt = leading(out.vt_rows);
  const std::int64_t low = x.shorter();
  const std::int64_t high = std::max(x.rows, x.cols);
  auto iwork = workspace<int>(8 * low);
  auto rwork = workspace<Real<T>>(
      !is_complex<T> ? 1
                     : std::max(7 * low, std::max(5 * low * low + 5 * low,
                                                  2 * high * low + 2 * low * low + low)));
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    call<T>(Routine::kGesdd, &mode, &m, &n, out.a + i * x.step(), &lda, out.values + i * low,
            out.u + i * out.u_step, &lda, out.vt + i * out.vt_step, &ldvt, work, lwork,
            if_complex<T>(rwork.data()), iwork.data(), out.info + i);
  });
}

/// Singular values by QR iterations.
template <class T>
void gesvd(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  const char mode = letter(frame, "mode", "ASN");
  const SvdResults<T> out(frame, x, mode);
  const int m = to_int(x.rows);
  const int n = to_int(x.cols);
  const int lda = leading(m);
  const int ldvt = leading(out.vt_rows);
  auto rwork = workspace<Real<T>>(5 * x.shorter());
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    call<T>(Routine::kGesvd, &mode, &mode, &m, &n, out.a + i * x.step(), &lda,
            out.values + i * x.shorter(), out.u + i * out.u_step, &lda, out.vt + i * out.vt_step,
            &ldvt, work, lwork, if_complex<T>(rwork.data()), out.info + i);
  });
}

/// Writes out vectors that LAPACK packs: a complex pair as one real and one imaginary column.
template <class T>
void unpack_vectors(std::int64_t n, const T* imaginary, const T* packed, std::complex<T>* to) {
  for (std::int64_t j = 0; j < n; ++j) {
    const bool is_pair = imaginary[j] != 0 && j + 1 < n;
    for (std::int64_t i = 0; i < n; ++i) {
      const T real = packed[j * n + i];
      const T other = is_pair ? packed[(j + 1) * n + i] : T(0);
      to[j * n + i] = {real, other};
      if (is_pair) to[(j + 1) * n + i] = {real, -other};
    }
    if (is_pair) ++j;
  }
}

/// Eigenvalues of general real matrices: (x) -> (real parts, imaginary parts, left vectors, right
/// vectors, info), the vectors complex.
template <class T>
  requires(!is_complex<T>)
void geev(const CallFrame& frame) {
  using Complex = std::complex<T>;
  const Matrices x(frame.argument(0));
  x.check_square();
  const T* source = argument<T>(frame, 0, x.size());
  T* real = result<T>(frame, 0, x.count * x.cols);
  T* imaginary = result<T>(frame, 1, x.count * x.cols);
  Complex* left = result<Complex>(frame, 2, x.size());
  Complex* right = result<Complex>(frame, 3, x.size());
  int* info = result<int>(frame, 4, x.count);
  const char has_left = letter(frame, "compute_left", "NV");
  const char has_right = letter(frame, "compute_right", "NV");
  const int n = to_int(x.cols);
  const int lda = leading(n);
  auto a = workspace<T>(x.step());
  auto vl = workspace<T>(x.step());
  auto vr = workspace<T>(x.step());
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    std::copy_n(source + i * x.step(), x.step(), a.data());
    if (*lwork >= 0 && !is_finite(a.data(), x.step())) {  // LAPACK might not come back
      info[i] = kNotFinite;
      return;
    }
    T* imaginary_at = imaginary + i * n;
    call<T>(Routine::kGeev, &has_left, &has_right, &n, a.data(), &lda, real + i * n, imaginary_at,
            vl.data(), &lda, vr.data(), &lda, work, lwork, info + i);
    if (*lwork < 0 || info[i] != 0) return;
    if (has_left == 'V') unpack_vectors(n, imaginary_at, vl.data(), left + i * x.step());
    if (has_right == 'V') unpack_vectors(n, imaginary_at, vr.data(), right + i * x.step());
  });
}

/// Eigenvalues of general complex matrices: (x) -> (values, left vectors, right vectors, info).
template <class T>
  requires(is_complex<T>)
void geev(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  x.check_square();
  const T* source = argument<T>(frame, 0, x.size());
  T* values = result<T>(frame, 0, x.count * x.cols);
  T* left = result<T>(frame, 1, x.size());
  T* right = result<T>(frame, 2, x.size());
  int* info = result<int>(frame, 3, x.count);
  const char has_left = letter(frame, "compute_left", "NV");
  const char has_right = letter(frame, "compute_right", "NV");
  const int n = to_int(x.cols);
  const int lda = leading(n);
  auto a = workspace<T>(x.step());
  auto rwork = workspace<Real<T>>(2 * x.cols);
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    std::copy_n(source + i * x.step(), x.step(), a.data());
    if (*lwork >= 0 && !is_finite(a.data(), x.step())) {  // LAPACK might not come back
      info[i] = kNotFinite;
      return;
    }
    call<T>(Routine::kGeev, &has_left, &has_right, &n, a.data(), &lda, values + i * n,
            left + i * x.step(), &lda, right + i * x.step(), &lda, work, lwork, rwork.data(),
            info + i);
  });
}

/// Schur form: (x) -> (form, vectors, eigenvalues as one complex or two real arrays, how many were
/// selected, info). Nothing is sorted.
template <class T>
void gees(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  x.check_square();
  const char mode = letter(frame, "mode", "NV");
  const char sort = letter(frame, "sort", "N");
  T* a = in_place<T>(frame, 0, 0, x.size());
  T* vectors = result<T>(frame, 1, x.size());
  T* values = result<T>(frame, 2, x.count * x.cols);
  T* imaginary = is_complex<T> ? nullptr : result<T>(frame, 3, x.count * x.cols);
  int* selected = result<int>(frame, is_complex<T> ? 3 : 4, x.count);
  int* info = result<int>(frame, is_complex<T> ? 4 : 5, x.count);
  const int n = to_int(x.cols);
  const int lda = leading(n);
  void* select = nullptr;
  int* bwork = nullptr;
  auto rwork = workspace<Real<T>>(x.cols);
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    T* at = a + i * x.step();
    if (*lwork >= 0 && !is_finite(at, x.step())) {  // LAPACK might not come back
      info[i] = kNotFinite;
      return;
    }
    call<T>(Routine::kGees, &mode, &sort, select, &n, at, &lda, selected + i, values + i * n,
            if_real<T>(imaginary ? imaginary + i * n : nullptr), vectors + i * x.step(), &lda, work,
            lwork, if_complex<T>(rwork.data()), bwork, info + i);
  });
}

/// Hessenberg form: (x) -> (form and reflectors, tau, info).
template <class T>
void gehrd(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  x.check_square();
  const std::int64_t reflectors = std::max<std::int64_t>(x.cols - 1, 0);
  T* a = in_place<T>(frame, 0, 0, x.size());
  T* tau = result<T>(frame, 1, x.count * reflectors);
  int* info = result<int>(frame, 2, x.count);
  const int n = to_int(x.cols);
  const int lda = leading(n);
  const int low = to_int(frame.integer("low").value_or(1));
  const int high = to_int(frame.integer("high").value_or(n));
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    call<T>(Routine::kGehrd, &n, &low, &high, a + i * x.step(), &lda, tau + i * reflectors, work,
            lwork, info + i);
  });
}

/// Tridiagonal form of symmetric matrices: (x) -> (reflectors, diagonal, off-diagonal, tau, info).
template <class T>
void sytrd(const CallFrame& frame) {
  const Matrices x(frame.argument(0));
  x.check_square();
  const std::int64_t reflectors = std::max<std::int64_t>(x.cols - 1, 0);
  T* a = in_place<T>(frame, 0, 0, x.size());
  Real<T>* diagonal = result<Real<T>>(frame, 1, x.count * x.cols);
  Real<T>* beside = result<Real<T>>(frame, 2, x.count * reflectors);
  T* tau = result<T>(frame, 3, x.count * reflectors);
  int* info = result<int>(frame, 4, x.count);
  const char uplo = letter(frame, "uplo", "LU");
  const int n = to_int(x.cols);
  const int lda = leading(n);
  for_each_matrix<T>(x.count, [&](std::int64_t i, T* work, const int* lwork) {
    call<T>(Routine::kSytrd, &uplo, &n, a + i * x.step(), &lda, diagonal + i * x.cols,
            beside + i * reflectors, tau + i * reflectors, work, lwork, info + i);
  });
}

}  // namespace devrt::cpu::lapack
