// A driver of CUDA's that simulates its devices: the functions that devrt calls, over the SDK's
// simulator. Declarations are our own, so that no toolkit is needed.
#include <dlfcn.h>

#include <array>
#include <cstdio>

#include "simulator.hpp"

using namespace devrt_cuda;

namespace {

constexpr int kVersion = 13000;

/// What all of the models have.
constexpr std::array<Attribute, 19> kFixed{{
    {1, 1024},        // threads of a block
    {2, 1024},        // along x
    {3, 1024},        // along y
    {4, 64},          // along z
    {5, 2147483647},  // blocks of a grid along x
    {6, 65535},       // along y
    {7, 65535},       // along z
    {8, 49152},       // shared bytes of a block
    {12, 65536},      // registers of a block
    {19, 1},          // maps host memory
    {31, 1},          // runs kernels at once
    {32, 1},          // checks its memory
    {40, 3},          // engines that copy
    {41, 1},          // unified addresses
    {78, 1},          // priorities of streams
    {82, 65536},      // registers of a multiprocessor
    {83, 1},          // managed memory
    {95, 1},          // cooperative launches
    {99, 1},          // registers host memory
}};

int attribute(const Machine& machine, int number, int device) {
  const Model& model = machine.model();
  const int numa_node = device >= 4 ? 1 : 0;
  const Attribute of_device[] = {
      {10, model.warp},
      {13, model.clock_khz},
      {16, model.multiprocessors},
      {33, device + 1},  // its bus
      {36, model.memory_clock_khz},
      {37, model.memory_bus_bits},
      {38, model.l2_bytes},
      {39, model.threads_per_multiprocessor},
      {75, model.major},
      {76, model.minor},
      {81, model.shared_bytes_per_block + 1024},
      {89, machine.settings().managed},
      {97, model.shared_bytes_per_block},
      {115, machine.settings().pools},
      {131, numa_node},
      {134, numa_node},
  };
  return attribute_in(of_device, kFixed, number);
}

struct Side3D {
  std::size_t x, y, z, lod;
  int memory_type;  // 1: host, 2: device, 4: whatever the address says
  const void* host;
  Address device;
  void* array;
  void* reserved;
  std::size_t pitch, height;
};
struct Copy3D {
  Side3D from;
  Side3D to;
  std::size_t width, height, depth;
};

CopySide side(const Side3D& given, const Copy3D& of) {
  need(given.memory_type == 1 || given.memory_type == 2);
  need(given.pitch == 0 || given.pitch >= given.x + of.width);
  need(given.height == 0 || given.height >= given.y + of.height);
  CopySide made;
  made.is_device = given.memory_type == 2;
  made.pitch = given.pitch;
  made.slice = given.pitch * given.height;
  made.address = (made.is_device ? given.device : reinterpret_cast<Address>(given.host)) + given.x +
                 given.y * made.pitch + given.z * made.slice;
  return made;
}

}  // namespace

// The names that CUDA exports them by, as its header defines them.
#define DEVRT_DRIVER(name) cu##name
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuStreamDestroy cuStreamDestroy_v2
#include "gpu_simulator/driver_exports.inc"

#pragma GCC visibility push(default)
extern "C" {

Result cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long,
                           int* status) {
  return number(enter_early(__func__, [&](const Settings& settings) {
    Dl_info self{};
    dladdr(reinterpret_cast<void*>(&cuInit), &self);
    void* const library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *function = nullptr;
    if (library && !settings.missing.contains(name)) {
      *function = dlsym(library, (std::string(name) + "_v2").c_str());
      if (!*function) *function = dlsym(library, name);
    }
    if (library) dlclose(library);
    if (status) *status = *function ? 0 : 1;
    if (!*function) throw Failure{Code::kNotFound};
  }));
}

// -- devices and contexts

Result cuDeviceGetPCIBusId(char* id, int length, int device) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    need(length >= 13);
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
  });
}
Result cuDevicePrimaryCtxRetain(Handle* context, int device) {
  return call(__func__, [&](Machine& m, const Call&) { *context = m.retain(device); });
}
Result cuDevicePrimaryCtxRelease_v2(int device) {
  return call(__func__, [&](Machine& m, const Call& c) { m.release(c, device); });
}
Result cuCtxSetCurrent(Handle context) {
  return call(__func__, [&](Machine& m, const Call&) { m.set_current(context); });
}
Result cuCtxGetCurrent(Handle* context) {
  return call(__func__, [&](Machine& m, const Call&) { *context = m.current(); });
}
Result cuCtxEnablePeerAccess(Handle peer, unsigned) {
  return call(__func__, [&](Machine& m, const Call&) { m.enable_peer(m.device_of(peer)); });
}

// -- memory

Result cuMemHostRegister_v2(void* data, std::size_t bytes, unsigned) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.register_host(c, reinterpret_cast<Address>(data), bytes);
  });
}
Result cuMemHostUnregister(void* data) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.unregister_host(c, reinterpret_cast<Address>(data));
  });
}
Result cuPointerGetAttributes(unsigned count, int* attributes, void** data, Address address) {
  return call(__func__, [&](Machine& m, const Call&) {
    const PointerFacts facts = m.pointer(address);
    for (unsigned i = 0; i < count; ++i) {
      get_attribute(facts, attributes[i], address, data[i]);
    }
  });
}
Result cuMemAllocAsync(Address* data, std::size_t bytes, Handle stream) {
  return call(__func__,
              [&](Machine& m, const Call& c) { *data = m.allocate_async(c, 0, bytes, stream); });
}

// -- streams and events

Result cuEventElapsedTime(float* milliseconds, Handle start, Handle end) {
  return call(__func__,
              [&](Machine& m, const Call& c) { *milliseconds = m.elapsed_ms(c, start, end); });
}

// -- copies

Result cuMemcpyPeerAsync(Address to, Handle to_context, Address from, Handle from_context,
                         std::size_t bytes, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    Copy copy = linear({to}, {from}, bytes);
    copy.to.device = m.device_of(to_context);
    copy.from.device = m.device_of(from_context);
    m.copy(c, copy, stream);
  });
}
Result cuMemcpy3DAsync_v2(const Copy3D* given, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    Copy copy;
    copy.to = side(given->to, *given);
    copy.from = side(given->from, *given);
    copy.width = given->width;
    copy.height = given->height;
    copy.depth = given->depth;
    m.copy(c, copy, stream);
  });
}

// -- kernels

Result cuFuncGetParamInfo(Handle function, std::size_t index, std::size_t* offset,
                          std::size_t* bytes) {
  return call(__func__, [&](Machine& m, const Call&) {
    *offset = 0;  // not known of a function of the host
    *bytes = m.parameter_bytes(function, index);
  });
}
Result cuFuncSetAttribute(Handle function, int, int) {
  return call(__func__, [&](Machine& m, const Call&) { m.check_function(function); });
}
Result cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Handle function,
                                        std::size_t (*)(int), std::size_t, int limit) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_function(function);
    find_block_size(m, limit, grid, block);
  });
}

}  // extern "C"
#pragma GCC visibility pop
