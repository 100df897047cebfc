// Reductions of elements as the library for collectives numbers types and operations.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gpu_simulator/collectives.hpp"

namespace devrt::gpu_simulator {
namespace {

struct Half {
  std::uint16_t bits;

  explicit Half(float value) : bits(static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0)) {
    const float size = std::fabs(value);
    int exponent = 0;
    unsigned rest = 0;
    if (std::isnan(value)) {
      rest = 0x7e00;
    } else if (size >= 65520.0F) {
      rest = 0x7c00;  // rounds to infinity
    } else if (size < 0x1p-14F) {
      rest = static_cast<unsigned>(std::nearbyint(std::ldexp(size, 24)));
    } else {
      std::frexp(size, &exponent);
      const auto mantissa = static_cast<unsigned>(std::nearbyint(std::ldexp(size, 11 - exponent)));
      rest = (static_cast<unsigned>(exponent + 14) << 10) + mantissa - 1024;  // may carry
    }
    bits = static_cast<std::uint16_t>(bits | rest);
  }
  explicit operator float() const {
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 1023;
    float size = std::ldexp(static_cast<float>(mantissa), -24);
    if (exponent > 0) size = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    if (exponent == 31) size = mantissa ? NAN : INFINITY;
    return bits & 0x8000 ? -size : size;
  }
};

struct Bfloat {
  std::uint16_t bits;

  explicit Bfloat(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = word + 0x7fff + (word >> 16 & 1);
    bits = static_cast<std::uint16_t>(std::isnan(value) ? 0x7fc0 : rounded >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// What elements are computed in: integers modulo their size, small floats in `float`.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t,
                                std::conditional_t<std::is_floating_point_v<T>, T, float>>;

template <class T>
T combined(T a, T b, int reduction) {
  const auto x = static_cast<Wide<T>>(a);
  const auto y = static_cast<Wide<T>>(b);
  const auto less = [](T first, T second) {
    if constexpr (std::is_arithmetic_v<T>)
      return first < second;
    else
      return static_cast<float>(first) < static_cast<float>(second);
  };
  switch (reduction) {
    case 0:
    case 4:  // the average: the sum, divided afterwards
      return static_cast<T>(x + y);
    case 1:
      return static_cast<T>(x * y);
    case 2:
      return less(a, b) ? b : a;
    case 3:
      return less(b, a) ? b : a;
    default:
      throw Failure{Code::kInvalidValue};
  }
}

template <class T>
T divided(T sum, std::size_t ranks) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    return static_cast<T>(sum / static_cast<std::int64_t>(ranks));  // towards zero
  } else {
    return static_cast<T>(static_cast<Wide<T>>(sum) / static_cast<Wide<T>>(ranks));
  }
}

/// Calls back with a null pointer to the type of a number.
template <class Body>
void with_type(int type, const Body& body) {
  switch (type) {
    case 0:
      return body(static_cast<std::int8_t*>(nullptr));
    case 1:
      return body(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return body(static_cast<std::int32_t*>(nullptr));
    case 3:
      return body(static_cast<std::uint32_t*>(nullptr));
    case 4:
      return body(static_cast<std::int64_t*>(nullptr));
    case 5:
      return body(static_cast<std::uint64_t*>(nullptr));
    case 6:
      return body(static_cast<Half*>(nullptr));
    case 7:
      return body(static_cast<float*>(nullptr));
    case 8:
      return body(static_cast<double*>(nullptr));
    case 9:
      return body(static_cast<Bfloat*>(nullptr));
    default:
      throw Failure{Code::kInvalidValue};
  }
}

/// Replaces each element by what a function makes of it and of its place.
template <class T, class Body>
void for_each_element(std::span<std::byte> data, T* /*type*/, const Body& body) {
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T element = std::bit_cast<T>(std::array<std::byte, sizeof(T)>{});
    std::memcpy(&element, &data[at], sizeof(T));
    element = body(element, at);
    std::memcpy(&data[at], &element, sizeof(T));
  }
}

}  // namespace

std::size_t collective_itemsize(int type) {
  std::size_t bytes = 0;
  with_type(type, [&](auto* of) { bytes = sizeof(*of); });
  return bytes;
}

void combine(int type, int reduction, std::span<std::byte> into, std::span<const std::byte> from) {
  with_type(type, [&](auto* of) {
    for_each_element(into, of, [&](auto element, std::size_t at) {
      auto other = element;
      std::memcpy(&other, &from[at], sizeof(other));
      return combined(element, other, reduction);
    });
  });
}

void divide(int type, std::span<std::byte> sum, std::size_t ranks) {
  with_type(type, [&](auto* of) {
    for_each_element(sum, of, [&](auto element, std::size_t) { return divided(element, ranks); });
  });
}

}  // namespace devrt::gpu_simulator
