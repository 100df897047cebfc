// LAPACK's custom calls as jax exported them until 2025: sizes and options come as operands.
#pragma once

#include <initializer_list>

#include "lapack/lapack_solve.hpp"
#include "lapack/lapack_spectral.hpp"

namespace devrt::cpu::lapack {

/// The call frame of an old call, made into that of the call that took its place.
class NewForm {
 public:
  explicit NewForm(const XLA_FFI_CallFrame& old) noexcept : old_(old) {
    frame_.struct_size = sizeof(frame_);
    frame_.api = old.api;
    frame_.ctx = old.ctx;
    frame_.stage = old.stage;
    frame_.args.types = argument_types_.data();
    frame_.args.args = arguments_.data();
    frame_.rets.types = result_types_.data();
    frame_.rets.rets = results_.data();
    frame_.attrs.types = option_types_.data();
    frame_.attrs.names = names_.data();
    frame_.attrs.attrs = options_.data();
  }
  NewForm(const NewForm&) = delete;
  NewForm& operator=(const NewForm&) = delete;

  XLA_FFI_CallFrame& frame() noexcept { return frame_; }

  /// Takes operands and results of the old call, in the new order.
  void take(std::initializer_list<std::size_t> operands,
            std::initializer_list<std::size_t> results) {
    for (const std::size_t from : operands) {
      const auto to = static_cast<std::size_t>(frame_.args.size++);
      if (from >= CallFrame(old_).num_arguments()) reject("an operand is missing.");
      argument_types_.at(to) = old_.args.types[from];
      arguments_.at(to) = old_.args.args[from];
    }
    for (const std::size_t from : results) {
      const auto to = static_cast<std::size_t>(frame_.rets.size++);
      if (from >= CallFrame(old_).num_results()) reject("a result is missing.");
      result_types_.at(to) = old_.rets.types[from];
      results_.at(to) = old_.rets.rets[from];
    }
  }

  /// Returns an operand that is one number.
  std::int32_t number(std::size_t i) const {
    const Array operand = CallFrame(old_).argument(i);
    if (operand.type == ElementType::kUint8 && operand.size() == 1) {
      return *static_cast<const std::uint8_t*>(operand.data);
    }
    return *data_of<int>(operand, 1);
  }

  /// Sets an option of the new call.
  void set(std::string_view name, std::int32_t value) {
    const auto i = static_cast<std::size_t>(frame_.attrs.size++);
    values_.at(i) = value;
    scalars_[i] = {XLA_FFI_DataType_S32, &values_[i]};
    spans_[i] = {name.data(), name.size()};
    option_types_[i] = XLA_FFI_AttrType_SCALAR;
    names_[i] = &spans_[i];
    options_[i] = &scalars_[i];
  }

  /// Sets an option to the letter that an operand is the number of.
  void set_letter(std::string_view name, std::size_t operand, std::string_view letters) {
    const std::int32_t index = number(operand);
    if (index < 0 || static_cast<std::size_t>(index) >= letters.size()) {
      reject("its operand " + std::to_string(operand) + " is out of range.");
    }
    set(name, letters[static_cast<std::size_t>(index)]);
  }

  /// Sets a result that the new call has not, and that says of each matrix how it went, to success.
  void succeed(std::size_t result) const {
    const Array info = CallFrame(old_).result(result);
    std::fill_n(data_of<int>(info, info.size()), info.size(), 0);
  }

 private:
  static constexpr std::size_t kMost = 6;

  const XLA_FFI_CallFrame& old_;
  XLA_FFI_CallFrame frame_{};
  std::array<XLA_FFI_ArgType, kMost> argument_types_{};
  std::array<void*, kMost> arguments_{};
  std::array<XLA_FFI_RetType, kMost> result_types_{};
  std::array<void*, kMost> results_{};
  std::array<std::int32_t, kMost> values_{};
  std::array<XLA_FFI_Scalar, kMost> scalars_{};
  std::array<XLA_FFI_ByteSpan, kMost> spans_{};
  std::array<XLA_FFI_AttrType, kMost> option_types_{};
  std::array<XLA_FFI_ByteSpan*, kMost> names_{};
  std::array<void*, kMost> options_{};
};

/// Says how the old call of a routine gives what the new one takes. Old operands, in order:
///
/// potrf, syevd: lower, batch, n, x. getrf: batch, m, n, x. geqrf: batch, m, n, room, x.
/// orgqr: batch, m, n, k, room, x, tau. gesdd: full, vectors, batch, m, n, room, x.
/// geev: batch, n, left, right, x. gees: batch, n, mode, sort, x.
/// gehrd: n, low, high, leading, batch, room, x. sytrd: n, lower, leading, batch, room, x.
/// trsm: left, lower, transposed, unit, m, n, batch, factor, x, y.
template <class T, Routine R>
void to_new_form(NewForm& call) {
  if constexpr (R == Routine::kPotrf) {
    call.take({3}, {0, 1});
    call.set_letter("uplo", 0, "UL");
  } else if constexpr (R == Routine::kSyevd) {
    call.take({3}, {0, 1, 2});
    call.set("mode", 'V');
    call.set_letter("uplo", 0, "UL");
  } else if constexpr (R == Routine::kGetrf) {
    call.take({3}, {0, 1, 2});
  } else if constexpr (R == Routine::kGeqrf) {
    call.take({4}, {0, 1});
    call.succeed(2);
  } else if constexpr (R == Routine::kOrgqr) {
    call.take({5, 6}, {0});
    call.succeed(1);
  } else if constexpr (R == Routine::kGesdd) {
    call.take({6}, {0, 1, 2, 3, 4});
    call.set("mode", call.number(1) == 0 ? 'N' : call.number(0) == 0 ? 'S' : 'A');
  } else if constexpr (R == Routine::kGeev) {
    is_complex<T> ? call.take({4}, {2, 3, 4, 5}) : call.take({4}, {3, 4, 5, 6, 7});
    call.set("compute_left", call.number(2));
    call.set("compute_right", call.number(3));
  } else if constexpr (R == Routine::kGees) {
    is_complex<T> ? call.take({4}, {0, 3, 2, 4, 5}) : call.take({4}, {0, 3, 1, 2, 4, 5});
    call.set("mode", call.number(2));
    call.set("sort", call.number(3));
  } else if constexpr (R == Routine::kGehrd) {
    call.take({6}, {0, 1, 2});
    call.set("low", call.number(1));
    call.set("high", call.number(2));
  } else if constexpr (R == Routine::kSytrd) {
    call.take({5}, {0, 1, 2, 3, 4});
    call.set_letter("uplo", 1, "UL");
  } else {
    static_assert(R == Routine::kTrsm);
    call.take({8, 9, 7}, {0});
    call.set_letter("side", 0, "RL");
    call.set_letter("uplo", 1, "UL");
    call.set_letter("trans_x", 2, "NTC");
    call.set_letter("diag", 3, "NU");
  }
}

/// A handler of old calls, which does as the handler of new ones.
template <class T, Routine R, XLA_FFI_Handler New>
XLA_FFI_Error* handle_old(XLA_FFI_CallFrame* frame) noexcept {
  if (frame->extension_start) return New(frame);  // a question about the handler
  try {
    NewForm call(*frame);
    to_new_form<T, R>(call);
    return New(&call.frame());
  } catch (const StatusError& error) {
    const std::string message =
        "The custom call " + name_of<T>(R) + ", in its old form, failed: " + error.what();
    return pjrt::ffi::detail::make_error(*frame->api, error.status().code(), message.c_str());
  } catch (const std::exception& error) {
    return pjrt::ffi::detail::make_error(*frame->api, StatusCode::kInternal, error.what());
  }
}

}  // namespace devrt::cpu::lapack
