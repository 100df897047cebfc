// Handlers of custom calls: what they read of a frame, what they answer, and LAPACK behind them.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "devrt/pjrt/engine/ffi.hpp"
#include "harness.hpp"
#include "lapack/lapack_solve.hpp"

using namespace devrt;
using pjrt::ffi::CallFrame;

struct XLA_FFI_Error {
  XLA_FFI_Error_Code code;
  std::string message;
};

// What a plugin of 64 bits lays out; tests/programs/test_ffi_abi.py compares all with XLA's own
// header.
static_assert(offsetof(XLA_FFI_CallFrame, extension_start) == 8);
static_assert(offsetof(XLA_FFI_CallFrame, api) == 16);
static_assert(offsetof(XLA_FFI_CallFrame, ctx) == 24);
static_assert(offsetof(XLA_FFI_CallFrame, stage) == 32);
static_assert(offsetof(XLA_FFI_CallFrame, args) == 40);
static_assert(offsetof(XLA_FFI_CallFrame, rets) == 80);
static_assert(offsetof(XLA_FFI_CallFrame, attrs) == 120);
static_assert(offsetof(XLA_FFI_CallFrame, future) == 168);
static_assert(sizeof(XLA_FFI_CallFrame) == 176);
static_assert(offsetof(XLA_FFI_Args, size) == 16);
static_assert(offsetof(XLA_FFI_Args, types) == 24);
static_assert(offsetof(XLA_FFI_Args, args) == 32);
static_assert(sizeof(XLA_FFI_Args) == 40);
static_assert(offsetof(XLA_FFI_Rets, size) == 16);
static_assert(offsetof(XLA_FFI_Rets, types) == 24);
static_assert(offsetof(XLA_FFI_Rets, rets) == 32);
static_assert(sizeof(XLA_FFI_Rets) == 40);
static_assert(offsetof(XLA_FFI_Attrs, size) == 16);
static_assert(offsetof(XLA_FFI_Attrs, types) == 24);
static_assert(offsetof(XLA_FFI_Attrs, names) == 32);
static_assert(offsetof(XLA_FFI_Attrs, attrs) == 40);
static_assert(sizeof(XLA_FFI_Attrs) == 48);
static_assert(offsetof(XLA_FFI_Buffer, dtype) == 16);
static_assert(offsetof(XLA_FFI_Buffer, data) == 24);
static_assert(offsetof(XLA_FFI_Buffer, rank) == 32);
static_assert(offsetof(XLA_FFI_Buffer, dims) == 40);
static_assert(sizeof(XLA_FFI_Buffer) == 48);
static_assert(offsetof(XLA_FFI_Scalar, dtype) == 0);
static_assert(offsetof(XLA_FFI_Scalar, value) == 8);
static_assert(sizeof(XLA_FFI_Scalar) == 16);
static_assert(offsetof(XLA_FFI_Array, dtype) == 0);
static_assert(offsetof(XLA_FFI_Array, size) == 8);
static_assert(offsetof(XLA_FFI_Array, data) == 16);
static_assert(sizeof(XLA_FFI_Array) == 24);
static_assert(offsetof(XLA_FFI_ByteSpan, ptr) == 0);
static_assert(offsetof(XLA_FFI_ByteSpan, len) == 8);
static_assert(sizeof(XLA_FFI_ByteSpan) == 16);
static_assert(offsetof(XLA_FFI_Metadata, api_version) == 8);
static_assert(offsetof(XLA_FFI_Metadata, traits) == 32);
static_assert(sizeof(XLA_FFI_Metadata) == 48);
static_assert(offsetof(XLA_FFI_Metadata_Extension, metadata) == 24);
static_assert(sizeof(XLA_FFI_Metadata_Extension) == 32);
static_assert(offsetof(XLA_FFI_Error_Create_Args, message) == 16);
static_assert(offsetof(XLA_FFI_Error_Create_Args, errc) == 24);
static_assert(sizeof(XLA_FFI_Error_Create_Args) == 32);
static_assert(offsetof(XLA_FFI_Api, api_version) == 16);
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_Error_Create) == 48);
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_Stream_Get) == 80);
static_assert(sizeof(XLA_FFI_Api) == 192);

namespace {

XLA_FFI_Error* make_error(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{args->errc, args->message};
}

/// A frame whose buffers and options a test adds.
class FakeFrame {
 public:
  FakeFrame() {
    api_.struct_size = sizeof(api_);
    api_.api_version.major_version = 0;
    api_.api_version.minor_version = 9;
    api_.XLA_FFI_Error_Create = &make_error;
  }

  FakeFrame& argument(XLA_FFI_DataType type, void* data, std::vector<std::int64_t> dims) {
    add(arguments_, type, data, std::move(dims));
    return *this;
  }
  FakeFrame& result(XLA_FFI_DataType type, void* data, std::vector<std::int64_t> dims) {
    add(results_, type, data, std::move(dims));
    return *this;
  }
  FakeFrame& option(std::string name, std::uint8_t value) {
    options_.push_back(std::make_unique<Option>(std::move(name), value));
    return *this;
  }

  /// Calls a handler; returns its error's code and message.
  Status call(XLA_FFI_Handler handler, XLA_FFI_Extension_Base* extension = nullptr) {
    XLA_FFI_CallFrame frame{};
    frame.struct_size = sizeof(frame);
    frame.extension_start = extension;
    frame.api = &api_;
    frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    std::vector<XLA_FFI_ArgType> arg_types(arguments_.size(), XLA_FFI_ArgType_BUFFER);
    std::vector<XLA_FFI_RetType> ret_types(results_.size(), XLA_FFI_RetType_BUFFER);
    std::vector<void*> args = pointers(arguments_);
    std::vector<void*> rets = pointers(results_);
    std::vector<XLA_FFI_AttrType> attr_types(options_.size(), XLA_FFI_AttrType_SCALAR);
    std::vector<XLA_FFI_ByteSpan*> names;
    std::vector<void*> attrs;
    for (const auto& option : options_) {
      names.push_back(&option->span);
      attrs.push_back(&option->scalar);
    }
    frame.args = {sizeof(frame.args), nullptr, static_cast<std::int64_t>(args.size()),
                  arg_types.data(), args.data()};
    frame.rets = {sizeof(frame.rets), nullptr, static_cast<std::int64_t>(rets.size()),
                  ret_types.data(), rets.data()};
    frame.attrs = {sizeof(frame.attrs), nullptr,      static_cast<std::int64_t>(attrs.size()),
                   attr_types.data(),   names.data(), attrs.data()};
    const std::unique_ptr<XLA_FFI_Error> error(handler(&frame));
    return error ? Status(static_cast<StatusCode>(error->code), error->message) : Status();
  }

 private:
  struct Array {
    XLA_FFI_Buffer buffer{};
    std::vector<std::int64_t> dims;
  };
  struct Option {
    Option(std::string text, std::uint8_t number) : name(std::move(text)), value(number) {
      span = {name.data(), name.size()};
      scalar = {XLA_FFI_DataType_U8, &value};
    }
    std::string name;
    std::uint8_t value;
    XLA_FFI_ByteSpan span{};
    XLA_FFI_Scalar scalar{};
  };
  using Arrays = std::vector<std::unique_ptr<Array>>;

  static void add(Arrays& to, XLA_FFI_DataType type, void* data, std::vector<std::int64_t> dims) {
    auto made = std::make_unique<Array>();
    made->dims = std::move(dims);
    made->buffer = {
        sizeof(XLA_FFI_Buffer), nullptr, type, data, static_cast<std::int64_t>(made->dims.size()),
        made->dims.data()};
    to.push_back(std::move(made));
  }
  static std::vector<void*> pointers(const Arrays& arrays) {
    std::vector<void*> found;
    for (const auto& array : arrays) found.push_back(&array->buffer);
    return found;
  }

  XLA_FFI_Api api_{};
  Arrays arguments_;
  Arrays results_;
  std::vector<std::unique_ptr<Option>> options_;
};

void throw_status(const CallFrame&) {
  throw StatusError(Status(StatusCode::kOutOfRange, "as set"));
}
void throw_other(const CallFrame&) { throw std::runtime_error("something else"); }

/// Doubles the first element and says so: no Cholesky, but called as one.
void fake_potrf(const char* uplo, const int* n, float* a, const int* lda, int* info) {
  a[0] *= 2;
  *info = *uplo == 'L' && *lda >= *n ? *n : -1;
}

using cpu::lapack::Routine;

XLA_FFI_Handler potrf() {
  cpu::lapack::address_of<float>(Routine::kPotrf).store(reinterpret_cast<void*>(&fake_potrf));
  return &pjrt::ffi::handle<cpu::lapack::potrf<float>>;
}

}  // namespace

TEST_CASE(ffi_handlers_answer_with_the_version_of_the_plugin) {
  XLA_FFI_Metadata metadata{};
  XLA_FFI_Metadata_Extension extension{};
  extension.extension_base = {sizeof(extension), XLA_FFI_Extension_Metadata, nullptr};
  extension.metadata = &metadata;
  CHECK(FakeFrame().call(&pjrt::ffi::handle<throw_status>, &extension.extension_base).ok());
  CHECK(metadata.api_version.major_version == 0 && metadata.api_version.minor_version == 9);
}

TEST_CASE(ffi_handlers_turn_exceptions_into_errors) {
  const Status status = FakeFrame().call(&pjrt::ffi::handle<throw_status>);
  CHECK(status.code() == StatusCode::kOutOfRange && status.message() == "as set");
  const Status other = FakeFrame().call(&pjrt::ffi::handle<throw_other>);
  CHECK(other.code() == StatusCode::kInternal && other.message() == "something else");
}

TEST_CASE(lapack_goes_through_a_batch_and_copies_what_is_not_in_place) {
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> out(8);
  std::vector<int> info(2, 99);
  FakeFrame frame;
  frame.argument(XLA_FFI_DataType_F32, x.data(), {2, 2, 2})
      .result(XLA_FFI_DataType_F32, out.data(), {2, 2, 2})
      .result(XLA_FFI_DataType_S32, info.data(), {2})
      .option("mode", 'V')
      .option("uplo", 'L');
  CHECK(frame.call(potrf()).ok());
  CHECK((out == std::vector<float>{2, 2, 3, 4, 10, 6, 7, 8}) && x[0] == 1);
  CHECK(info[0] == 2 && info[1] == 2);
}

TEST_CASE(lapack_refuses_what_would_be_read_or_written_beyond_its_end) {
  std::vector<float> x(4);
  int info = 0;
  const auto code = [&](std::vector<std::int64_t> in, std::vector<std::int64_t> out,
                        XLA_FFI_DataType type, std::uint8_t uplo) {
    FakeFrame frame;
    frame.argument(XLA_FFI_DataType_F32, x.data(), std::move(in))
        .result(type, x.data(), std::move(out))
        .result(XLA_FFI_DataType_S32, &info, {})
        .option("uplo", uplo);
    return frame.call(potrf()).code();
  };
  CHECK(code({2, 2}, {2, 2}, XLA_FFI_DataType_F32, 'L') == StatusCode::kOk);
  CHECK(code({2, 2}, {2, 1}, XLA_FFI_DataType_F32, 'L') == StatusCode::kInvalidArgument);
  CHECK(code({2, 2}, {2, 2}, XLA_FFI_DataType_F64, 'L') == StatusCode::kInvalidArgument);
  CHECK(code({4, 1}, {4, 1}, XLA_FFI_DataType_F32, 'L') == StatusCode::kInvalidArgument);
  CHECK(code({4}, {4}, XLA_FFI_DataType_F32, 'L') == StatusCode::kInvalidArgument);
  CHECK(code({2, 2}, {2, 2}, XLA_FFI_DataType_F32, 'X') == StatusCode::kInvalidArgument);
  CHECK(FakeFrame().call(potrf()).code() == StatusCode::kInvalidArgument);
}

TEST_CASE(lapack_names_routines_as_fortran_does) {
  using namespace cpu::lapack;
  CHECK(name_of<float>(Routine::kOrgqr) == "sorgqr");
  CHECK(name_of<std::complex<float>>(Routine::kOrgqr) == "cungqr");
  CHECK(name_of<std::complex<double>>(Routine::kSyevd) == "zheevd");
  CHECK(name_of<double>(Routine::kTrsm) == "dtrsm");
}
