// The numbers and names of the driver's errors.
#include <array>

#include "simulator.hpp"

namespace devrt_rocm {
namespace {

struct Error {
  Code code;
  Result number;
  const char* name;
};
constexpr std::array kErrors = {
    Error{Code::kSuccess, 0, "hipSuccess"},
    Error{Code::kInvalidValue, 1, "hipErrorInvalidValue"},
    Error{Code::kOutOfMemory, 2, "hipErrorOutOfMemory"},
    Error{Code::kNotInitialized, 3, "hipErrorNotInitialized"},
    Error{Code::kDeinitialized, 4, "hipErrorDeinitialized"},
    Error{Code::kNoDevice, 100, "hipErrorNoDevice"},
    Error{Code::kInvalidDevice, 101, "hipErrorInvalidDevice"},
    Error{Code::kInvalidImage, 200, "hipErrorInvalidImage"},
    Error{Code::kNoImageForDevice, 209, "hipErrorNoBinaryForGpu"},
    Error{Code::kInvalidContext, 201, "hipErrorInvalidContext"},
    Error{Code::kDeviceLost, 214, "hipErrorECCNotCorrectable"},
    Error{Code::kPeerAccessUnsupported, 217, "hipErrorPeerAccessUnsupported"},
    Error{Code::kInvalidHandle, 400, "hipErrorInvalidHandle"},
    Error{Code::kNotFound, 500, "hipErrorNotFound"},
    Error{Code::kNotReady, 600, "hipErrorNotReady"},
    Error{Code::kIllegalAddress, 700, "hipErrorIllegalAddress"},
    Error{Code::kLaunchOutOfResources, 701, "hipErrorLaunchOutOfResources"},
    Error{Code::kPeerAccessAlreadyEnabled, 704, "hipErrorPeerAccessAlreadyEnabled"},
    Error{Code::kPeerAccessNotEnabled, 705, "hipErrorPeerAccessNotEnabled"},
    Error{Code::kContextDestroyed, 709, "hipErrorContextIsDestroyed"},
    Error{Code::kHostAlreadyRegistered, 712, "hipErrorHostMemoryAlreadyRegistered"},
    Error{Code::kHostNotRegistered, 713, "hipErrorHostMemoryNotRegistered"},
    Error{Code::kLaunchFailed, 719, "hipErrorLaunchFailure"},
    Error{Code::kNotSupported, 801, "hipErrorNotSupported"},
    Error{Code::kUnknown, 999, "hipErrorUnknown"},
};

}  // namespace

Result number(Code code) {
  for (const Error& error : kErrors) {
    if (error.code == code) return error.number;
  }
  return 999;
}

}  // namespace devrt_rocm

using namespace devrt_rocm;

#pragma GCC visibility push(default)
extern "C" {

const char* hipGetErrorName(Result error) {
  for (const Error& each : kErrors) {
    if (each.number == error) return each.name;
  }
  return "hipErrorUnknown";
}
const char* hipGetErrorString(Result error) {
  for (const Error& each : kErrors) {
    if (each.number == error) return code_name(each.code).data();
  }
  return "unknown";
}

}  // extern "C"
#pragma GCC visibility pop
