// What the driver calls its errors.
#include <array>

#include "simulator.hpp"

namespace devrt_cuda {
namespace {

constexpr std::array kErrors = {
    ErrorName{Code::kSuccess, "CUDA_SUCCESS"},
    ErrorName{Code::kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
    ErrorName{Code::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    ErrorName{Code::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
    ErrorName{Code::kDeinitialized, "CUDA_ERROR_DEINITIALIZED"},
    ErrorName{Code::kNoDevice, "CUDA_ERROR_NO_DEVICE"},
    ErrorName{Code::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    ErrorName{Code::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
    ErrorName{Code::kNoImageForDevice, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    ErrorName{Code::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
    ErrorName{Code::kDeviceLost, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    ErrorName{Code::kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
    ErrorName{Code::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
    ErrorName{Code::kNotFound, "CUDA_ERROR_NOT_FOUND"},
    ErrorName{Code::kNotReady, "CUDA_ERROR_NOT_READY"},
    ErrorName{Code::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    ErrorName{Code::kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
    ErrorName{Code::kContextDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    ErrorName{Code::kHostAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    ErrorName{Code::kHostNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    ErrorName{Code::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED"},
    ErrorName{Code::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
    ErrorName{Code::kUnknown, "CUDA_ERROR_UNKNOWN"},
};

}  // namespace

Result number(Code code) {
  return static_cast<Result>(find_error(kErrors, static_cast<Result>(code)) ? code
                                                                            : Code::kUnknown);
}

}  // namespace devrt_cuda

using namespace devrt_cuda;

#pragma GCC visibility push(default)
extern "C" {

Result cuGetErrorName(Result error, const char** name) {
  const ErrorName* const found = find_error(kErrors, error);
  *name = found ? found->name : nullptr;
  return found ? 0 : 1;
}

Result cuGetErrorString(Result error, const char** text) {
  const ErrorName* const found = find_error(kErrors, error);
  *text = found ? code_name(found->code).data() : nullptr;
  return found ? 0 : 1;
}

}  // extern "C"
#pragma GCC visibility pop
