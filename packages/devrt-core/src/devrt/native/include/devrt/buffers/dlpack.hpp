// The public DLPack ABI (version 1.0 and the unversioned one before it), as facts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "devrt/base/element_type.hpp"

namespace devrt::dlpack {

inline constexpr std::int32_t kCpu = 1;
inline constexpr std::uint32_t kMajor = 1;
inline constexpr std::uint32_t kMinor = 0;

inline constexpr std::uint64_t kReadOnly = 1;
inline constexpr std::uint64_t kIsCopied = 2;
inline constexpr std::uint64_t kSubbytePadded = 4;

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null means dense
  std::uint64_t byte_offset;
};

struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

namespace detail {
enum Code : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E3m4 = 7,
  kFloat8E4m3 = 8,
  kFloat8E4m3b11fnuz = 9,
  kFloat8E4m3fn = 10,
  kFloat8E4m3fnuz = 11,
  kFloat8E5m2 = 12,
  kFloat8E5m2fnuz = 13,
  kFloat8E8m0fnu = 14,
  kFloat6E2m3fn = 15,
  kFloat6E3m2fn = 16,
  kFloat4E2m1fn = 17,
};

constexpr std::uint8_t code_of(ElementType type) noexcept {
  using E = ElementType;
  switch (type) {
    case E::kBool:
      return kBool;
    case E::kInt8:
    case E::kInt16:
    case E::kInt32:
    case E::kInt64:
    case E::kInt4:
    case E::kInt2:
    case E::kInt1:
      return kInt;
    case E::kUint8:
    case E::kUint16:
    case E::kUint32:
    case E::kUint64:
    case E::kUint4:
    case E::kUint2:
    case E::kUint1:
      return kUInt;
    case E::kBfloat16:
      return kBfloat;
    case E::kComplex64:
    case E::kComplex128:
      return kComplex;
    case E::kFloat8E5m2:
      return kFloat8E5m2;
    case E::kFloat8E4m3fn:
      return kFloat8E4m3fn;
    case E::kFloat8E4m3b11fnuz:
      return kFloat8E4m3b11fnuz;
    case E::kFloat8E5m2fnuz:
      return kFloat8E5m2fnuz;
    case E::kFloat8E4m3fnuz:
      return kFloat8E4m3fnuz;
    case E::kFloat8E4m3:
      return kFloat8E4m3;
    case E::kFloat8E3m4:
      return kFloat8E3m4;
    case E::kFloat8E8m0fnu:
      return kFloat8E8m0fnu;
    case E::kFloat6E2m3fn:
      return kFloat6E2m3fn;
    case E::kFloat6E3m2fn:
      return kFloat6E3m2fn;
    case E::kFloat4E2m1fn:
      return kFloat4E2m1fn;
    default:
      return kFloat;
  }
}
}  // namespace detail

/// Returns DLPack's description of a type.
constexpr DataType dtype_of(ElementType type) noexcept {
  return {detail::code_of(type), info(type).bits, 1};
}

/// Returns the type of a description, or nothing if devrt has no such type.
constexpr std::optional<ElementType> type_of(DataType dtype) noexcept {
  if (dtype.lanes != 1) return std::nullopt;
  for (std::size_t code = 1; code < kElementTypeLimit; ++code) {
    const auto type = static_cast<ElementType>(code);
    const DataType candidate = dtype_of(type);
    if (!info(type).name.empty() && candidate.code == dtype.code && candidate.bits == dtype.bits) {
      return type;
    }
  }
  return std::nullopt;
}

}  // namespace devrt::dlpack
