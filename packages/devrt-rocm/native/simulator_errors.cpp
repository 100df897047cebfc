// What the driver calls its errors.
#include <array>

#include "simulator.hpp"

namespace devrt_rocm {
namespace {

constexpr std::array kErrors = {
    ErrorName{Code::kSuccess, "hipSuccess"},
    ErrorName{Code::kInvalidValue, "hipErrorInvalidValue"},
    ErrorName{Code::kOutOfMemory, "hipErrorOutOfMemory"},
    ErrorName{Code::kNotInitialized, "hipErrorNotInitialized"},
    ErrorName{Code::kDeinitialized, "hipErrorDeinitialized"},
    ErrorName{Code::kNoDevice, "hipErrorNoDevice"},
    ErrorName{Code::kInvalidDevice, "hipErrorInvalidDevice"},
    ErrorName{Code::kInvalidImage, "hipErrorInvalidImage"},
    ErrorName{Code::kNoImageForDevice, "hipErrorNoBinaryForGpu"},
    ErrorName{Code::kInvalidContext, "hipErrorInvalidContext"},
    ErrorName{Code::kDeviceLost, "hipErrorECCNotCorrectable"},
    ErrorName{Code::kPeerAccessUnsupported, "hipErrorPeerAccessUnsupported"},
    ErrorName{Code::kInvalidHandle, "hipErrorInvalidHandle"},
    ErrorName{Code::kNotFound, "hipErrorNotFound"},
    ErrorName{Code::kNotReady, "hipErrorNotReady"},
    ErrorName{Code::kIllegalAddress, "hipErrorIllegalAddress"},
    ErrorName{Code::kPeerAccessAlreadyEnabled, "hipErrorPeerAccessAlreadyEnabled"},
    ErrorName{Code::kContextDestroyed, "hipErrorContextIsDestroyed"},
    ErrorName{Code::kHostAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered"},
    ErrorName{Code::kHostNotRegistered, "hipErrorHostMemoryNotRegistered"},
    ErrorName{Code::kNotSupported, "hipErrorNotSupported"},
    ErrorName{Code::kUnknown, "hipErrorUnknown"},
};

}  // namespace

Result number(Code code) {
  return static_cast<Result>(find_error(kErrors, static_cast<Result>(code)) ? code
                                                                            : Code::kUnknown);
}

}  // namespace devrt_rocm

using namespace devrt_rocm;

#pragma GCC visibility push(default)
extern "C" {

const char* hipGetErrorName(Result error) {
  const ErrorName* const found = find_error(kErrors, error);
  return found ? found->name : "hipErrorUnknown";
}
const char* hipGetErrorString(Result error) {
  const ErrorName* const found = find_error(kErrors, error);
  return found ? code_name(found->code).data() : "unknown";
}

}  // extern "C"
#pragma GCC visibility pop
