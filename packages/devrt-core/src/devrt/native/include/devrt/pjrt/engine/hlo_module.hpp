// What a call needs to know of a compiled program: XLA's HloModuleProto, as `OptimizedProgram`
// gives it. The only reader of it in native code, so that compiling is one call from Python; what
// is shown of a program, Python reads (devrt.compiling.hlo).
//
// Field numbers: xla/service/hlo.proto and xla/xla_data.proto.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "devrt/base/dims.hpp"
#include "devrt/base/element_type.hpp"
#include "devrt/pjrt/engine/proto_reader.hpp"

namespace devrt::pjrt {

/// The shape of one parameter or result, of one shard.
struct HloShape {
  int primitive_type = 0;  ///< XLA's code, for messages
  ElementType type = ElementType::kInvalid;
  std::vector<std::int64_t> dims;
  bool is_dynamic = false;
  bool is_row_major = true;
};

/// A parameter whose memory a result may take.
struct HloDonation {
  int parameter = 0;
  int result = -1;       ///< which one; -1 where any may
  bool is_must = false;  ///< whether the engine refuses a call that withholds the memory
};

/// Facts of one module.
struct HloModule {
  std::string name;
  std::vector<HloShape> parameters;  ///< those of a tuple one by one
  std::vector<HloShape> results;
  bool has_tuple_parameter = false;
  std::vector<HloDonation> donated;
  std::set<std::string, std::less<>> opcodes;
  std::set<std::string, std::less<>> custom_calls;
};

namespace detail {

/// XLA's PrimitiveType to PJRT's; the two number the same types differently.
inline ElementType element_type_of(std::int64_t primitive) noexcept {
  using enum ElementType;
  constexpr std::array<ElementType, 34> kTable = {
      kInvalid,        kBool,           kInt8,       kInt16,
      kInt32,          kInt64,          kUint8,      kUint16,
      kUint32,         kUint64,         kFloat16,    kFloat32,
      kFloat64,        kInvalid,        kInvalid,    kComplex64,
      kBfloat16,       kInvalid,        kComplex128, kFloat8E5m2,
      kFloat8E4m3fn,   kInt4,           kUint4,      kFloat8E4m3b11fnuz,
      kFloat8E5m2fnuz, kFloat8E4m3fnuz, kInt2,       kUint2,
      kFloat8E4m3,     kFloat8E3m4,     kInvalid,    kInvalid,
      kFloat4E2m1fn,   kFloat8E8m0fnu};
  const auto index = static_cast<std::size_t>(primitive);
  return primitive >= 0 && index < kTable.size() ? kTable[index] : kInvalid;
}

inline bool is_descending(const std::vector<std::int64_t>& minor_to_major) {
  return std::is_sorted(minor_to_major.rbegin(), minor_to_major.rend());
}

inline constexpr std::uint64_t kTupleType = 13;

inline bool is_tuple(std::string_view message) {
  bool found = false;
  for_each_field(message, [&](const ProtoField& field) {
    found = found || (field.number == 2 && field.value == kTupleType);
  });
  return found;
}

/// Reads a ShapeProto; a tuple's elements are appended one by one.
inline void read_shape(std::string_view message, std::vector<HloShape>& to) {
  HloShape shape;
  std::vector<std::string_view> elements;
  bool is_tuple = false;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 2) {
      shape.primitive_type = static_cast<int>(field.value);
      is_tuple = field.value == kTupleType;
    } else if (field.number == 3) {
      append_ints(field, shape.dims);
    } else if (field.number == 4) {
      elements.push_back(field.bytes);
    } else if (field.number == 5) {
      std::vector<std::int64_t> minor_to_major;
      for_each_field(field.bytes, [&](const ProtoField& part) {
        if (part.number == 1) append_ints(part, minor_to_major);
      });
      shape.is_row_major = is_descending(minor_to_major);
    } else if (field.number == 6) {
      std::vector<std::int64_t> dynamic;
      append_ints(field, dynamic);
      for (const std::int64_t one : dynamic) shape.is_dynamic = shape.is_dynamic || one != 0;
    }
  });
  if (!is_tuple) {
    shape.type = element_type_of(shape.primitive_type);
    to.push_back(std::move(shape));
    return;
  }
  for (const std::string_view element : elements) read_shape(element, to);
}

/// Reads the entries of HloInputOutputAliasProto, or of HloBufferDonorProto, which name no result.
inline void read_donated(std::string_view message, std::uint32_t parameter_field,
                         std::uint32_t result_field, std::vector<HloDonation>& to) {
  for_each_field(message, [&](const ProtoField& entry) {
    if (entry.number != 1) return;
    HloDonation donation;  // numbers that are zero are absent
    std::vector<std::int64_t> index;
    for_each_field(entry.bytes, [&](const ProtoField& field) {
      if (field.number == parameter_field) donation.parameter = static_cast<int>(field.value);
      if (field.number == result_field) append_ints(field, index);
      if (field.number == 4) donation.is_must = field.value == 2;
    });
    // A result that is no tuple has an empty index.
    if (result_field != 0) donation.result = index.empty() ? 0 : static_cast<int>(index.front());
    to.push_back(donation);
  });
}

inline void read_instructions(std::string_view computation, HloModule& module) {
  for_each_field(computation, [&](const ProtoField& instruction) {
    if (instruction.number != 2) return;
    for_each_field(instruction.bytes, [&](const ProtoField& field) {
      if (field.number == 2) module.opcodes.emplace(field.bytes);
      if (field.number == 28 && !field.bytes.empty()) module.custom_calls.emplace(field.bytes);
    });
  });
}

inline void read_program_shape(std::string_view message, HloModule& module) {
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) {
      module.has_tuple_parameter = module.has_tuple_parameter || is_tuple(field.bytes);
      read_shape(field.bytes, module.parameters);
    }
    if (field.number == 2) read_shape(field.bytes, module.results);
  });
}

}  // namespace detail

/// Reads an HloModuleProto. Throws DATA_LOSS if it is malformed.
inline HloModule read_hlo_module(std::string_view message) {
  HloModule module;
  for_each_field(message, [&](const ProtoField& field) {
    switch (field.number) {
      case 1:
        module.name = field.bytes;
        break;
      case 3:
        detail::read_instructions(field.bytes, module);
        break;
      case 4:
        detail::read_program_shape(field.bytes, module);
        break;
      case 8:
        detail::read_donated(field.bytes, 2, 1, module.donated);
        break;
      case 18:
        detail::read_donated(field.bytes, 1, 0, module.donated);
        break;
      default:
        break;
    }
  });
  return module;
}

/// Reads an HloModuleProtoWithConfig, whose first field is the module.
inline HloModule read_hlo_with_config(std::string_view message) {
  HloModule module;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1 && field.is_bytes) module = read_hlo_module(field.bytes);
  });
  return module;
}

}  // namespace devrt::pjrt
