// What a compiled program takes and gives, known before it is called.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "devrt/base/dims.hpp"
#include "devrt/base/element_type.hpp"
#include "devrt/pjrt/engine/api.hpp"
#include "devrt/pjrt/engine/hlo_module.hpp"

namespace devrt::pjrt {

/// A parameter or an output, of one shard.
struct Tensor {
  ElementType type = ElementType::kInvalid;
  Dims dims;
  std::size_t bytes = 0;    ///< row-major, one element a byte at least
  bool is_plain = true;     ///< whether the engine lays it out as devrt does
  bool is_donated = false;  ///< whether an output may take a parameter's memory
  bool is_must = false;     ///< whether a donated parameter's memory must be taken
  int donor = -1;           ///< the parameter whose memory an output may take; -1 for none
  std::string memory_kind;  ///< of an output; empty where the plugin does not say
};

/// What a short call touches at most.
inline constexpr std::size_t kShortBytes = 4096;

/// Parameters, outputs, and how the program may be called.
struct Signature {
  std::string name;
  std::vector<Tensor> parameters;
  std::vector<Tensor> outputs;
  std::size_t num_replicas = 1;
  std::size_t num_partitions = 1;
  bool has_donation = false;
  /// Whether shards talk to each other, or may: then all must be called at once.
  bool is_collective = false;
  /// Whether a call does no more than touch a few bytes, and so may be made without a thought.
  bool is_short = false;
  /// Whether a call may take any time however little it works on: engines make small ones inline.
  bool has_loop = false;
  std::size_t temp_bytes = 0;  ///< temporary memory of a shard, beside arguments and outputs
  std::vector<std::string> custom_calls;
};

namespace detail {

/// What the engine packs two or more of into a byte.
inline bool is_packed(ElementType type) noexcept { return info(type).bits < 8; }

inline bool may_communicate(const HloModule& module) {
  using namespace std::string_view_literals;
  constexpr std::array kNames = {"all-reduce"sv,
                                 "all-gather"sv,
                                 "reduce-scatter"sv,
                                 "all-to-all"sv,
                                 "ragged-all-to-all"sv,
                                 "collective-permute"sv,
                                 "collective-broadcast"sv,
                                 "send"sv,
                                 "recv"sv,
                                 "send-done"sv,
                                 "recv-done"sv,
                                 "infeed"sv,
                                 "outfeed"sv,
                                 "custom-call"sv};
  return std::any_of(module.opcodes.begin(), module.opcodes.end(), [&](const std::string& opcode) {
    return opcode.ends_with("-start") ||
           std::find(kNames.begin(), kNames.end(), opcode) != kNames.end();
  });
}

/// Returns whether the program is a few element-wise operations: what loops, sorts, calls outside
/// or multiplies matrices may take long however small its tensors are.
inline bool is_elementwise(const HloModule& module) {
  using namespace std::string_view_literals;
  constexpr std::array kLong = {"while"sv, "custom-call"sv, "conditional"sv, "sort"sv,
                                "fft"sv,   "convolution"sv, "cholesky"sv,    "triangular-solve"sv};
  return std::none_of(kLong.begin(), kLong.end(),
                      [&](std::string_view name) { return module.opcodes.contains(name); });
}

inline Tensor to_tensor(ElementType type, std::vector<std::int64_t> dims) {
  Tensor tensor;
  tensor.type = type;
  tensor.dims = Dims(std::span<const std::int64_t>(dims));
  tensor.bytes = checked_bytes(tensor.dims.span(), itemsize(type));
  tensor.is_plain = !is_packed(type);
  return tensor;
}

[[noreturn]] inline void refuse(const std::string& program, std::string what) {
  throw StatusError(
      Status(StatusCode::kUnimplemented, "The program '" + program + "' " + std::move(what))
          .during("compile_and_load"));
}

inline Tensor parameter_of(const HloModule& module, std::size_t index) {
  const HloShape& shape = module.parameters[index];
  const std::string which = "takes parameter " + std::to_string(index);
  if (shape.type == ElementType::kInvalid) {
    refuse(module.name, which + " of a type that no buffer has (XLA's type " +
                            std::to_string(shape.primitive_type) +
                            ", such as a token or a tuple).");
  }
  if (shape.is_dynamic) {
    refuse(module.name, which + " with a dynamic shape. Export the program with fixed shapes.");
  }
  if (!shape.is_row_major) {
    refuse(module.name, which + " in another layout than row-major. Leave the layout out.");
  }
  return to_tensor(shape.type, shape.dims);
}

}  // namespace detail

/// Makes a signature of a module. Throws UNIMPLEMENTED if a parameter is none that a buffer can be.
inline Signature make_signature(const HloModule& module) {
  Signature signature;
  signature.name = module.name;
  for (std::size_t i = 0; i < module.parameters.size(); ++i) {
    signature.parameters.push_back(detail::parameter_of(module, i));
  }
  for (const HloDonation& donation : module.donated) {
    const auto parameter = static_cast<std::size_t>(donation.parameter);
    if (donation.parameter < 0 || parameter >= signature.parameters.size()) continue;
    signature.parameters[parameter].is_donated = true;
    signature.parameters[parameter].is_must |= donation.is_must;
    signature.has_donation = true;
  }
  for (std::size_t i = 0; i < module.results.size(); ++i) {
    const HloShape& shape = module.results[i];
    const std::string which = "gives output " + std::to_string(i);
    if (shape.type == ElementType::kInvalid) {
      detail::refuse(module.name, which + " of a type that no buffer has (XLA's type " +
                                      std::to_string(shape.primitive_type) + ", such as a token).");
    }
    if (shape.is_dynamic) {
      detail::refuse(module.name, which + " with a dynamic shape, which no buffer has.");
    }
    signature.outputs.push_back(detail::to_tensor(shape.type, shape.dims));
    Tensor& output = signature.outputs.back();
    output.is_plain = output.is_plain && shape.is_row_major;
  }
  for (const HloDonation& donation : module.donated) {
    const auto output = static_cast<std::size_t>(donation.result);
    if (donation.result < 0 || output >= signature.outputs.size()) continue;
    signature.outputs[output].donor = donation.parameter;
  }
  signature.is_collective = detail::may_communicate(module);
  std::size_t touched = 0;
  for (const Tensor& tensor : signature.parameters) touched += tensor.bytes;
  for (const Tensor& tensor : signature.outputs) touched += tensor.bytes;
  signature.has_loop = module.opcodes.contains("while");
  signature.is_short =
      touched <= kShortBytes && !signature.is_collective && detail::is_elementwise(module);
  signature.custom_calls.assign(module.custom_calls.begin(), module.custom_calls.end());
  return signature;
}

}  // namespace devrt::pjrt
