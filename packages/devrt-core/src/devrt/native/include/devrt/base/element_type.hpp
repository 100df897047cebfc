// Element types: PJRT codes, widths and names; the same table as devrt/dtypes.py.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace devrt {

/// Element type, numbered as `PJRT_Buffer_Type`.
enum class ElementType : std::uint8_t {
  kInvalid = 0,
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6,
  kUint16 = 7,
  kUint32 = 8,
  kUint64 = 9,
  kFloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kBfloat16 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kFloat8E5m2 = 16,
  kFloat8E4m3fn = 17,
  kFloat8E4m3b11fnuz = 18,
  kFloat8E5m2fnuz = 19,
  kFloat8E4m3fnuz = 20,
  kInt4 = 21,
  kUint4 = 22,
  kInt2 = 24,
  kUint2 = 25,
  kFloat8E4m3 = 26,
  kFloat8E3m4 = 27,
  kFloat8E8m0fnu = 28,
  kFloat4E2m1fn = 29,
  kInt1 = 30,
  kUint1 = 31,
  kFloat6E2m3fn = 32,
  kFloat6E3m2fn = 33,
};

/// One past the greatest code.
inline constexpr std::size_t kElementTypeLimit = 34;

/// What is known of an element type.
struct ElementInfo {
  std::string_view name;    ///< NumPy's or ml_dtypes' name; empty for a code that is no type
  std::uint8_t bits = 0;    ///< width of the value
  std::uint8_t swap = 0;    ///< bytes that reverse together when the byte order changes
  const char* format = "";  ///< PEP 3118 format, empty where the protocol has none
};

namespace detail {
inline constexpr std::array<ElementInfo, kElementTypeLimit> kElementTable = {{
    {},
    {"bool", 8, 1, "?"},
    {"int8", 8, 1, "b"},
    {"int16", 16, 2, "h"},
    {"int32", 32, 4, "i"},
    {"int64", 64, 8, "l"},
    {"uint8", 8, 1, "B"},
    {"uint16", 16, 2, "H"},
    {"uint32", 32, 4, "I"},
    {"uint64", 64, 8, "L"},
    {"float16", 16, 2, "e"},
    {"float32", 32, 4, "f"},
    {"float64", 64, 8, "d"},
    {"bfloat16", 16, 2, ""},
    {"complex64", 64, 4, "Zf"},
    {"complex128", 128, 8, "Zd"},
    {"float8_e5m2", 8, 1, ""},
    {"float8_e4m3fn", 8, 1, ""},
    {"float8_e4m3b11fnuz", 8, 1, ""},
    {"float8_e5m2fnuz", 8, 1, ""},
    {"float8_e4m3fnuz", 8, 1, ""},
    {"int4", 4, 1, ""},
    {"uint4", 4, 1, ""},
    {},
    {"int2", 2, 1, ""},
    {"uint2", 2, 1, ""},
    {"float8_e4m3", 8, 1, ""},
    {"float8_e3m4", 8, 1, ""},
    {"float8_e8m0fnu", 8, 1, ""},
    {"float4_e2m1fn", 4, 1, ""},
    {"int1", 1, 1, ""},
    {"uint1", 1, 1, ""},
    {"float6_e2m3fn", 6, 1, ""},
    {"float6_e3m2fn", 6, 1, ""},
}};
}  // namespace detail

/// Returns the row of a type; `name` is empty for a code that is no type.
constexpr const ElementInfo& info(ElementType type) noexcept {
  const auto code = static_cast<std::size_t>(type);
  return detail::kElementTable[code < kElementTypeLimit ? code : 0];
}

/// Bytes that one element takes in host memory (`int4` is 1).
constexpr std::size_t itemsize(ElementType type) noexcept {
  const std::size_t bits = info(type).bits;
  return bits < 8 ? 1 : bits / 8;
}

/// Returns whether `code` is a type that devrt knows.
constexpr bool is_element_type(int code) noexcept {
  return code > 0 && code < static_cast<int>(kElementTypeLimit) &&
         !info(static_cast<ElementType>(code)).name.empty();
}

}  // namespace devrt
