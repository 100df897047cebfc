#include "devrt/base/element_type.hpp"
#include "devrt/base/status.hpp"
#include "devrt/buffers/dlpack.hpp"
#include "harness.hpp"

using namespace devrt;

TEST_CASE(status_default_is_ok) {
  const Status status;
  CHECK(status.ok());
  CHECK(status.code() == StatusCode::kOk);
  CHECK(status.message().empty() && status.operation().empty() && status.device().empty());
  raise_if_error(status);
}

TEST_CASE(status_keeps_its_facts) {
  const Status status = Status(StatusCode::kFailedPrecondition, "gone")
                            .because(Reason::kDeleted)
                            .during("copy")
                            .on("cpu:1");
  const Status copy = status;
  for (const Status& s : {status, copy}) {
    CHECK(!s.ok());
    CHECK(s.code() == StatusCode::kFailedPrecondition);
    CHECK(s.reason() == Reason::kDeleted);
    CHECK(s.message() == "gone" && s.operation() == "copy" && s.device() == "cpu:1");
  }
  CHECK(std::string(reason_name(status.reason())) == "deleted");
  CHECK(std::string(reason_name(Reason::kNone)).empty());
}

TEST_CASE(status_error_carries_the_status) {
  const Status status = harness::status_of([] { raise_invalid("bad", "put"); });
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.operation() == "put");
  CHECK(std::string(StatusError(status).what()) == "bad");
}

TEST_CASE(element_types_have_widths_and_names) {
  CHECK(info(ElementType::kFloat32).name == "float32");
  CHECK(itemsize(ElementType::kComplex128) == 16);
  CHECK(itemsize(ElementType::kInt4) == 1);
  CHECK(info(ElementType::kComplex64).swap == 4);
  CHECK(is_element_type(33) && !is_element_type(23) && !is_element_type(0) && !is_element_type(34));
}

TEST_CASE(dlpack_types_go_both_ways) {
  for (int code = 1; code < static_cast<int>(kElementTypeLimit); ++code) {
    if (!is_element_type(code)) continue;
    const auto type = static_cast<ElementType>(code);
    CHECK(dlpack::type_of(dlpack::dtype_of(type)) == type);
  }
  CHECK(!dlpack::type_of({3, 8, 1}));
  CHECK(!dlpack::type_of({2, 32, 4}));
}
