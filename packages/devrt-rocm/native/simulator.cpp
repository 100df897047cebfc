// A driver of HIP's that simulates its devices: the functions that devrt calls, over the SDK's
// simulator. Declarations are our own, so that no toolkit is needed; attributes are numbered as
// from ROCm 5.2 on, types of memory as from ROCm 6 on.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "simulator.hpp"

using namespace devrt_rocm;

namespace {

constexpr int kVersion = 60443483;

/// What all of the models have.
constexpr std::array<Attribute, 16> kFixed{{
    {0, 1},            // checks its memory
    {2, 8},            // engines that copy
    {3, 1},            // maps host memory
    {8, 1},            // runs kernels at once
    {24, 1},           // managed memory
    {26, 1024},        // threads of a block along x
    {27, 1024},        // along y
    {28, 1024},        // along z
    {29, 2147483647},  // blocks of a grid along x
    {30, 65535},       // along y
    {31, 65535},       // along z
    {56, 1024},        // threads of a block
    {71, 65536},       // registers of a block
    {72, 65536},       // registers of a multiprocessor
    {78, 1},           // priorities of streams
    {85, 1},           // unified addresses
}};

int attribute(const Machine& machine, int number, int device) {
  const Model& model = machine.model();
  const Attribute of_device[] = {
      {5, model.clock_khz},
      {9, machine.settings().managed},
      {19, model.l2_bytes},
      {23, model.major},
      {57, model.threads_per_multiprocessor},
      {59, model.memory_bus_bits},
      {60, model.memory_clock_khz},
      {61, model.minor},
      {63, model.multiprocessors},
      {67, device + 1},  // its bus
      {74, model.shared_bytes_per_block},
      {87, model.warp},
      {88, machine.settings().pools},
  };
  return attribute_in(of_device, kFixed, number);
}

/// What hipPointerGetAttributes fills, from ROCm 6 on.
struct PointerAttributes {
  int type;  // 0: unknown, 1: of the host, 2: of a device, 3: managed
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned flags;
};

}  // namespace

namespace devrt_rocm {

int& chosen_device() noexcept {
  thread_local int device = 0;
  return device;
}

Result& last_error() noexcept {
  thread_local Result result = 0;
  return result;
}

}  // namespace devrt_rocm

// Names that differ from CUDA's in more than the prefix.
#define DEVRT_DRIVER(name) hip##name
#define hipCtxSynchronize hipDeviceSynchronize
#define hipDeviceGetCount hipGetDeviceCount
#define hipEventCreate hipEventCreateWithFlags
#define hipLaunchKernel hipModuleLaunchKernel
#define hipMemAlloc hipMalloc
#define hipMemAllocFromPoolAsync hipMallocFromPoolAsync
#define hipMemAllocManaged hipMallocManaged
#define hipMemFree hipFree
#define hipMemFreeAsync hipFreeAsync
#define hipMemFreeHost hipHostFree
#define hipMemHostAlloc hipHostMalloc
#include "gpu_simulator/driver_exports.inc"

#pragma GCC visibility push(default)
extern "C" {

Result hipGetLastError() { return std::exchange(last_error(), 0); }

// -- devices

Result hipDeviceGetPCIBusId(char* id, int length, int device) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    need(length >= 13);
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  });
}
/// Of what ROCm 6 and 7 tell: the name, with features as theirs has.
Result hipGetDevicePropertiesR0600(char* properties, int device) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    std::memset(properties, 0, 1472);
    std::snprintf(properties + 1160, 256, "%s:sramecc+:xnack-", m.model().architecture.data());
  });
}
Result hipSetDevice(int device) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    chosen_device() = device;
  });
}
Result hipGetDevice(int* device) {
  return call_any(__func__, [&](Machine&, const Call&) { *device = chosen_device(); });
}
Result hipDeviceEnablePeerAccess(int peer, unsigned) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(peer);
    m.enable_peer(peer);
  });
}

// -- memory

Result hipHostGetDevicePointer(void** device, void* host, unsigned) {
  return call(__func__, [&](Machine& m, const Call&) {
    need(m.pointer(address(host)).allocation != nullptr);
    *device = host;
  });
}
Result hipPointerGetAttributes(PointerAttributes* attributes, void* data) {
  return call(__func__, [&](Machine& m, const Call&) {
    const PointerFacts facts = m.pointer(address(data));
    *attributes = {};
    if (!facts.allocation) return;
    const Allocation& known = *facts.allocation;
    const bool is_managed = known.space == Space::kManaged;
    attributes->type = is_managed ? 3 : known.space == Space::kDevice ? 2 : 1;
    attributes->device = std::max(known.device, 0);
    attributes->device_pointer = data;
    attributes->host_pointer = known.space == Space::kDevice ? nullptr : data;
    attributes->is_managed = is_managed;
  });
}
Result hipPointerGetAttribute(void* value, int attribute, void* data) {
  return call(__func__, [&](Machine& m, const Call&) {
    const PointerFacts facts = m.pointer(address(data));
    need(facts.allocation != nullptr);
    get_attribute(facts, attribute, address(data), value);
  });
}
Result hipMemGetAddressRange(void** begin, std::size_t* bytes, void* data) {
  return call(__func__, [&](Machine& m, const Call&) {
    const PointerFacts facts = m.pointer(address(data));
    need(facts.allocation != nullptr);
    *begin = reinterpret_cast<void*>(facts.allocation->begin);
    *bytes = facts.allocation->bytes;
  });
}

// -- streams

Result hipStreamAddCallback(Handle stream, void (*function)(Handle, Result, void*), void* data,
                            unsigned) {
  return call(__func__, [&](Machine& m, const Call& c) {
    need(function != nullptr);
    m.call_host(c, stream, true, [=](Code error) { function(stream, number(error), data); });
  });
}

// -- copies

Result hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.check_device(to_device);
    m.check_device(from_device);
    Copy copy = linear({address(to)}, {address(from)}, bytes);
    copy.to.device = to_device;
    copy.from.device = from_device;
    m.copy(c, copy, stream);
  });
}
Result hipMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                        std::size_t width, std::size_t height, int kind, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    need(kind == 4);  // the addresses say the direction
    need(height < 2 || (to_pitch >= width && from_pitch >= width));
    const auto side = [&](const void* data, std::size_t pitch) {
      return CopySide{address(data), m.is_device_address(address(data)), pitch};
    };
    Copy copy = linear(side(to, to_pitch), side(from, from_pitch), width);
    copy.height = height;
    m.copy(c, copy, stream);
  });
}

// -- kernels

Result hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, Handle function, std::size_t,
                                               int limit) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_function(function);
    find_block_size(m, limit, grid, block);
  });
}

}  // extern "C"
#pragma GCC visibility pop
