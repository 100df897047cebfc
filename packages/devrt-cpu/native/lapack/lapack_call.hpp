// Calls of LAPACK's routines, whose addresses come from a library that is found at run time.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "devrt/pjrt/engine/ffi.hpp"

namespace devrt::cpu::lapack {

using pjrt::ffi::Array;
using pjrt::ffi::CallFrame;
using pjrt::ffi::reject;

enum class Routine : std::size_t {
  kGees,
  kGeev,
  kGehrd,
  kGeqp3,
  kGeqrf,
  kGesdd,
  kGesvd,
  kGetrf,
  kGtsv,
  kOrgqr,
  kOrmqr,
  kPotrf,
  kSyevd,
  kSytrd,
  kTrsm,
};
inline constexpr std::size_t kNumRoutines = 15;

/// Names after the letter of the type; a few routines are called otherwise for complex numbers.
struct RoutineNames {
  std::string_view real;
  std::string_view complex;
};
inline constexpr std::array<RoutineNames, kNumRoutines> kNames = {{{"gees", "gees"},
                                                                   {"geev", "geev"},
                                                                   {"gehrd", "gehrd"},
                                                                   {"geqp3", "geqp3"},
                                                                   {"geqrf", "geqrf"},
                                                                   {"gesdd", "gesdd"},
                                                                   {"gesvd", "gesvd"},
                                                                   {"getrf", "getrf"},
                                                                   {"gtsv", "gtsv"},
                                                                   {"orgqr", "ungqr"},
                                                                   {"ormqr", "unmqr"},
                                                                   {"potrf", "potrf"},
                                                                   {"syevd", "heevd"},
                                                                   {"sytrd", "hetrd"},
                                                                   {"trsm", "trsm"}}};

template <class T>
inline constexpr bool is_complex = !std::is_arithmetic_v<T>;

/// The real type of a real or complex one.
template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

/// What LAPACK calls the types, and devrt.
template <class T>
struct TypeFacts;
template <>
struct TypeFacts<float> {
  static constexpr char letter = 's';
  static constexpr ElementType type = ElementType::kFloat32;
};
template <>
struct TypeFacts<double> {
  static constexpr char letter = 'd';
  static constexpr ElementType type = ElementType::kFloat64;
};
template <>
struct TypeFacts<std::complex<float>> {
  static constexpr char letter = 'c';
  static constexpr ElementType type = ElementType::kComplex64;
};
template <>
struct TypeFacts<std::complex<double>> {
  static constexpr char letter = 'z';
  static constexpr ElementType type = ElementType::kComplex128;
};
template <>
struct TypeFacts<int> {
  static constexpr ElementType type = ElementType::kInt32;
};

template <class T>
std::string name_of(Routine routine) {
  const RoutineNames& names = kNames[static_cast<std::size_t>(routine)];
  return TypeFacts<T>::letter + std::string(is_complex<T> ? names.complex : names.real);
}

/// Where a routine of a type lies; null until a library was found.
template <class T>
std::atomic<void*>& address_of(Routine routine) noexcept {
  static std::array<std::atomic<void*>, kNumRoutines> addresses{};
  return addresses[static_cast<std::size_t>(routine)];
}

/// An argument that the routines of real or of complex types take, and the others do not.
template <bool IsTaken, class U>
struct Optional {
  U* data;
};
template <class T, class U>
Optional<is_complex<T>, U> if_complex(U* data) {
  return {data};
}
template <class T, class U>
Optional<!is_complex<T>, U> if_real(U* data) {
  return {data};
}

template <class U>
std::tuple<U*> taken(U* data) {
  return {data};
}
template <bool IsTaken, class U>
auto taken(Optional<IsTaken, U> argument) {
  if constexpr (IsTaken) {
    return std::tuple<U*>(argument.data);
  } else {
    return std::tuple<>();
  }
}

/// Calls a routine as Fortran does, every argument by its address.
template <class T, class... Args>
void call(Routine routine, Args... args) {
  void* address = address_of<T>(routine).load(std::memory_order_acquire);
  std::apply(
      [&](auto*... each) { reinterpret_cast<void (*)(decltype(each)...)>(address)(each...); },
      std::tuple_cat(taken(args)...));
}

/// Calls `work` with a value of the type that an array's elements have.
template <class Work>
void by_type(const Array& array, const Work& work) {
  switch (array.type) {
    case ElementType::kFloat32:
      return work(float{});
    case ElementType::kFloat64:
      return work(double{});
    case ElementType::kComplex64:
      return work(std::complex<float>{});
    case ElementType::kComplex128:
      return work(std::complex<double>{});
    default:
      reject("an operand or a result has the wrong type.");
  }
}

inline int to_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) reject("a matrix is too large for LAPACK.");
  return static_cast<int>(value);
}

/// A leading dimension: never zero, which LAPACK refuses even of empty matrices.
inline int leading(std::int64_t rows) { return std::max(1, to_int(rows)); }

/// Several matrices, column by column, one after the other.
struct Matrices {
  std::int64_t count = 1;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  explicit Matrices(const Array& array) {
    const std::size_t rank = array.dims.size();
    if (rank < 2) reject("a matrix has two dimensions at least.");
    for (std::size_t i = 0; i + 2 < rank; ++i) count *= array.dims[i];
    rows = array.dims[rank - 2];
    cols = array.dims[rank - 1];
  }

  std::int64_t step() const noexcept { return rows * cols; }
  std::int64_t size() const noexcept { return count * step(); }
  std::int64_t shorter() const noexcept { return std::min(rows, cols); }
  void check_square() const {
    if (rows != cols) reject("the matrix must be square.");
  }
};

/// Returns an array's data, which must be `size` elements of type T.
template <class T>
T* data_of(const Array& array, std::int64_t size) {
  if (array.type != TypeFacts<T>::type) reject("an operand or a result has the wrong type.");
  if (array.size() != size) reject("an operand or a result has the wrong shape.");
  return static_cast<T*>(array.data);
}

template <class T>
T* argument(const CallFrame& frame, std::size_t i, std::int64_t size) {
  return data_of<T>(frame.argument(i), size);
}

template <class T>
T* result(const CallFrame& frame, std::size_t i, std::int64_t size) {
  return data_of<T>(frame.result(i), size);
}

/// Returns a result that starts as an argument: the same memory where the compiler could do it.
template <class T>
T* in_place(const CallFrame& frame, std::size_t from, std::size_t to, std::int64_t size) {
  const T* source = argument<T>(frame, from, size);
  T* target = result<T>(frame, to, size);
  if (source != target && size > 0) {
    std::memcpy(target, source, static_cast<std::size_t>(size) * sizeof(T));
  }
  return target;
}

/// Returns an option that is one of some letters.
inline char letter(const CallFrame& frame, std::string_view name, std::string_view allowed) {
  const auto given = frame.integer(name);
  if (given && *given > 0 && *given < 128 &&
      allowed.find(static_cast<char>(*given)) != std::string_view::npos) {
    return static_cast<char>(*given);
  }
  reject("its option '" + std::string(name) + "' must be one of the letters " +
         std::string(allowed) + ".");
}

template <class T>
std::vector<T> workspace(std::int64_t size) {
  return std::vector<T>(static_cast<std::size_t>(std::max<std::int64_t>(size, 1)));
}

/// Does `once(i, work, lwork)` for each matrix, with as large a workspace as it asks for.
template <class T, class Once>
void for_each_matrix(std::int64_t count, const Once& once) {
  if (count == 0) return;
  T wanted{};
  const int query = -1;
  once(0, &wanted, &query);
  // A size in single precision may be rounded down.
  const double size = std::ceil(static_cast<double>(std::real(wanted)) * (1 + 1e-6));
  std::vector<T> work = workspace<T>(static_cast<std::int64_t>(size));
  const int lwork = to_int(static_cast<std::int64_t>(work.size()));
  for (std::int64_t i = 0; i < count; ++i) once(i, work.data(), &lwork);
}

template <class T>
bool is_finite(const T* values, std::int64_t size) {
  return std::all_of(values, values + size, [](const T& value) {
    return std::isfinite(std::real(value)) && std::isfinite(std::imag(value));
  });
}

/// What LAPACK itself answers for arguments that it cannot use.
inline constexpr int kNotFinite = -4;

}  // namespace devrt::cpu::lapack
