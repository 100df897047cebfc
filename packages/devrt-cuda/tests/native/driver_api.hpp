// The functions of the driver that the tests call, as its own header declares them, and a machine
// for each test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "driver_result.hpp"
#include "gpu_simulator/control.h"

using Result = int;
using Device = int;
using Pointer = unsigned long long;
using Context = void*;
using Stream = void*;
using Event = void*;
using Pool = void*;
using Module = void*;
using Function = void*;

/// One side of a copy of rows; then both, and how much.
struct Side3D {
  std::size_t x, y, z, level;
  int memory_type;  ///< 1: the host's, 2: a device's
  const void* host;
  Pointer device;
  void* array;
  void* reserved;
  std::size_t pitch, height;
};
struct Copy3D {
  Side3D from, to;
  std::size_t width, height, depth;
};

extern "C" {
Result cuInit(unsigned flags);
Result cuDriverGetVersion(int* version);
Result cuGetErrorName(Result error, const char** name);
Result cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags,
                           int* status);
Result cuDeviceGetCount(int* count);
Result cuDeviceGetName(char* name, int length, Device device);
Result cuDeviceGetAttribute(int* value, int attribute, Device device);
Result cuDeviceCanAccessPeer(int* can, Device device, Device peer);
Result cuDevicePrimaryCtxRetain(Context* context, Device device);
Result cuDevicePrimaryCtxRelease_v2(Device device);
Result cuCtxSetCurrent(Context context);
Result cuCtxGetCurrent(Context* context);
Result cuCtxSynchronize();
Result cuCtxEnablePeerAccess(Context peer, unsigned flags);
Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
Result cuMemAlloc_v2(Pointer* data, std::size_t bytes);
Result cuMemAllocManaged(Pointer* data, std::size_t bytes, unsigned flags);
Result cuMemHostAlloc(void** data, std::size_t bytes, unsigned flags);
Result cuMemFree_v2(Pointer data);
Result cuMemFreeHost(void* data);
Result cuMemHostRegister_v2(void* data, std::size_t bytes, unsigned flags);
Result cuMemHostUnregister(void* data);
Result cuPointerGetAttributes(unsigned count, int* attributes, void** data, Pointer address);
Result cuDeviceGetDefaultMemPool(Pool* pool, Device device);
Result cuMemPoolSetAttribute(Pool pool, int attribute, void* value);
Result cuMemPoolGetAttribute(Pool pool, int attribute, void* value);
Result cuMemPoolSetAccess(Pool pool, const int* access, std::size_t count);
Result cuMemPoolTrimTo(Pool pool, std::size_t keep);
Result cuMemAllocFromPoolAsync(Pointer* data, std::size_t bytes, Pool pool, Stream stream);
Result cuMemAllocAsync(Pointer* data, std::size_t bytes, Stream stream);
Result cuMemFreeAsync(Pointer data, Stream stream);
Result cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority);
Result cuStreamDestroy_v2(Stream stream);
Result cuStreamSynchronize(Stream stream);
Result cuStreamQuery(Stream stream);
Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags);
Result cuLaunchHostFunc(Stream stream, void (*function)(void*), void* data);
Result cuEventCreate(Event* event, unsigned flags);
Result cuEventDestroy_v2(Event event);
Result cuEventRecord(Event event, Stream stream);
Result cuEventQuery(Event event);
Result cuEventSynchronize(Event event);
Result cuEventElapsedTime(float* milliseconds, Event start, Event end);
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, Stream stream);
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Stream stream);
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, Stream stream);
Result cuMemcpyPeerAsync(Pointer to, Context to_context, Pointer from, Context from_context,
                         std::size_t bytes, Stream stream);
Result cuMemcpy3DAsync_v2(const Copy3D* copy, Stream stream);
Result cuMemsetD8Async(Pointer data, unsigned char value, std::size_t bytes, Stream stream);
Result cuModuleLoadDataEx(Module* module, const void* image, unsigned count, int* options, void**);
Result cuModuleUnload(Module module);
Result cuModuleGetFunction(Function* function, Module module, const char* name);
Result cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                      Stream stream, void** parameters, void** extra);
}

/// Two devices with a context each, that of the first one current, and two streams of the first.
struct Machine {
  explicit Machine(const std::string& settings) {
    const char* const wrong = devrt_simulator_configure(settings.c_str());
    if (wrong) throw std::runtime_error(wrong);
    CHECK(cuInit(0) == 0);
    CHECK(cuDevicePrimaryCtxRetain(&contexts[0], 0) == 0);
    CHECK(cuDevicePrimaryCtxRetain(&contexts[1], 1) == 0);
    CHECK(cuCtxSetCurrent(contexts[0]) == 0);
    for (Stream* stream : {&a, &b}) CHECK(cuStreamCreateWithPriority(stream, 1, 0) == 0);
    for (Event* event : {&e, &f}) CHECK(cuEventCreate(event, 2) == 0);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Waits for both devices and gives back what the tests left.
  void end() const {
    for (int i = 0; i < 2; ++i) {
      (void)cuCtxSetCurrent(contexts[i]);
      (void)cuCtxSynchronize();
    }
    for (int i = 0; i < 2; ++i) (void)cuDevicePrimaryCtxRelease_v2(i);
  }

  /// Returns a pointer to device memory of the current context.
  Pointer memory(std::size_t bytes) const {
    Pointer data = 0;
    CHECK(cuMemAlloc_v2(&data, bytes) == 0);
    return data;
  }
  Pointer pooled(std::size_t bytes, Stream stream) const {
    Pointer data = 0;
    CHECK(cuMemAllocAsync(&data, bytes, stream) == 0);
    return data;
  }
  unsigned char* pinned(std::size_t bytes) const {
    void* data = nullptr;
    CHECK(cuMemHostAlloc(&data, bytes, 0) == 0);
    return static_cast<unsigned char*>(data);
  }
  /// Has the work of a stream from now on begin after what another was given.
  void order(Stream first, Stream second) const {
    CHECK(cuEventRecord(e, first) == 0);
    CHECK(cuStreamWaitEvent(second, e, 0) == 0);
  }
  /// Loads a kernel of the tests.
  Function kernel(const char* name) const;

  Context contexts[2] = {};
  Stream a = nullptr;
  Stream b = nullptr;
  Event e = nullptr;
  Event f = nullptr;
};
