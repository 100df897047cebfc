// The numbers and names of the driver's errors.
#include <array>

#include "simulator.hpp"

namespace devrt_cuda {
namespace {

struct Error {
  Code code;
  Result number;
  const char* name;
};
constexpr std::array kErrors = {
    Error{Code::kSuccess, 0, "CUDA_SUCCESS"},
    Error{Code::kInvalidValue, 1, "CUDA_ERROR_INVALID_VALUE"},
    Error{Code::kOutOfMemory, 2, "CUDA_ERROR_OUT_OF_MEMORY"},
    Error{Code::kNotInitialized, 3, "CUDA_ERROR_NOT_INITIALIZED"},
    Error{Code::kDeinitialized, 4, "CUDA_ERROR_DEINITIALIZED"},
    Error{Code::kNoDevice, 100, "CUDA_ERROR_NO_DEVICE"},
    Error{Code::kInvalidDevice, 101, "CUDA_ERROR_INVALID_DEVICE"},
    Error{Code::kInvalidImage, 200, "CUDA_ERROR_INVALID_IMAGE"},
    Error{Code::kNoImageForDevice, 209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    Error{Code::kInvalidContext, 201, "CUDA_ERROR_INVALID_CONTEXT"},
    Error{Code::kDeviceLost, 214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    Error{Code::kPeerAccessUnsupported, 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
    Error{Code::kInvalidHandle, 400, "CUDA_ERROR_INVALID_HANDLE"},
    Error{Code::kNotFound, 500, "CUDA_ERROR_NOT_FOUND"},
    Error{Code::kNotReady, 600, "CUDA_ERROR_NOT_READY"},
    Error{Code::kIllegalAddress, 700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    Error{Code::kLaunchOutOfResources, 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    Error{Code::kPeerAccessAlreadyEnabled, 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
    Error{Code::kPeerAccessNotEnabled, 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"},
    Error{Code::kContextDestroyed, 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    Error{Code::kHostAlreadyRegistered, 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    Error{Code::kHostNotRegistered, 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    Error{Code::kLaunchFailed, 719, "CUDA_ERROR_LAUNCH_FAILED"},
    Error{Code::kNotPermitted, 800, "CUDA_ERROR_NOT_PERMITTED"},
    Error{Code::kNotSupported, 801, "CUDA_ERROR_NOT_SUPPORTED"},
    Error{Code::kSystemDriverMismatch, 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    Error{Code::kUnknown, 999, "CUDA_ERROR_UNKNOWN"},
};

}  // namespace

Result number(Code code) {
  for (const Error& error : kErrors) {
    if (error.code == code) return error.number;
  }
  return 999;
}

}  // namespace devrt_cuda

using namespace devrt_cuda;

#pragma GCC visibility push(default)
extern "C" {

Result cuGetErrorName(Result error, const char** name) {
  for (const Error& each : kErrors) {
    if (each.number == error) return *name = each.name, 0;
  }
  return *name = nullptr, 1;
}

Result cuGetErrorString(Result error, const char** text) {
  for (const Error& each : kErrors) {
    if (each.number == error) return *text = code_name(each.code).data(), 0;
  }
  return *text = nullptr, 1;
}

}  // extern "C"
#pragma GCC visibility pop
