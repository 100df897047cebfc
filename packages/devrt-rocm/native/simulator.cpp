// A driver of HIP's that simulates its devices: the functions that devrt calls, over the SDK's
// simulator. Here: devices and memory. Declarations are our own, so that no toolkit is needed;
// attributes are numbered as from ROCm 5.2 on, types of memory as from ROCm 6 on.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "simulator.hpp"

using namespace devrt_rocm;

namespace {

constexpr int kVersion = 60443483;

int attribute(const Machine& machine, int number, int device) {
  const Model& model = machine.model();
  switch (number) {
    case 2:
      return 8;  // engines that copy
    case 5:
      return model.clock_khz;
    case 9:
      return machine.settings().managed;
    case 19:
      return model.l2_bytes;
    case 23:
      return model.major;
    case 26:
    case 27:
    case 28:
    case 56:
      return 1024;  // threads of a block, and along its dimensions
    case 29:
      return 2147483647;
    case 30:
    case 31:
      return 65535;
    case 57:
      return model.threads_per_multiprocessor;
    case 59:
      return model.memory_bus_bits;
    case 60:
      return model.memory_clock_khz;
    case 61:
      return model.minor;
    case 63:
      return model.multiprocessors;
    case 67:
      return device + 1;  // its bus
    case 71:
    case 72:
      return 65536;
    case 74:
      return model.shared_bytes_per_block;
    case 87:
      return model.warp;
    case 88:
      return machine.settings().pools;
    // Checks its memory, maps host memory, concurrent kernels, managed memory, priorities, unified
    // addresses.
    case 0:
    case 3:
    case 8:
    case 24:
    case 78:
    case 85:
      return 1;
    default:
      return 0;
  }
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

#pragma GCC visibility push(default)
extern "C" {

Result hipInit(unsigned) { return number(initialize(__func__)); }
Result hipDriverGetVersion(int* version) {
  return number(enter_early(__func__, [&](const Settings& settings) {
    *version = settings.driver_version ? settings.driver_version : kVersion;
  }));
}
Result hipGetLastError() { return std::exchange(last_error(), 0); }

// -- devices

Result hipGetDeviceCount(int* count) {
  return call_any(__func__, [&](Machine& m, const Call&) { *count = m.device_count(); });
}
Result hipDeviceGet(int* device, int ordinal) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(ordinal);
    *device = ordinal;
  });
}
Result hipDeviceGetName(char* name, int length, int device) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    std::snprintf(name, static_cast<std::size_t>(length), "%s (simulated)", m.model().name.data());
  });
}
Result hipDeviceGetUuid(unsigned char* uuid, int device) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    std::memcpy(uuid, "devrt-simulated", 15);
    uuid[15] = static_cast<unsigned char>(device);
  });
}
Result hipDeviceGetAttribute(int* value, int number, int device) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    *value = attribute(m, number, device);
  });
}
Result hipDeviceGetPCIBusId(char* id, int length, int device) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    need(length >= 13);
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  });
}
Result hipDeviceTotalMem(std::size_t* bytes, int device) {
  return call_any(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    *bytes = m.settings().memory;
  });
}
Result hipDeviceCanAccessPeer(int* can, int device, int peer) {
  return call_any(__func__, [&](Machine& m, const Call&) { *can = m.are_linked(device, peer); });
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
Result hipDeviceSynchronize() {
  return call(__func__, [&](Machine& m, const Call&) { m.synchronize_device(); });
}
Result hipDeviceEnablePeerAccess(int peer, unsigned) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(peer);
    m.enable_peer(peer);
  });
}

// -- memory

Result hipMemGetInfo(std::size_t* free, std::size_t* total) {
  return call(__func__, [&](Machine& m, const Call&) { m.memory_info(free, total); });
}
Result hipMalloc(void** data, std::size_t bytes) {
  return call(__func__, [&](Machine& m, const Call& c) {
    *data = reinterpret_cast<void*>(m.allocate(c, Space::kDevice, bytes));
  });
}
Result hipMallocManaged(void** data, std::size_t bytes, unsigned) {
  return call(__func__, [&](Machine& m, const Call& c) {
    *data = reinterpret_cast<void*>(m.allocate(c, Space::kManaged, bytes));
  });
}
Result hipHostMalloc(void** data, std::size_t bytes, unsigned) {
  return call(__func__, [&](Machine& m, const Call& c) {
    *data = reinterpret_cast<void*>(m.allocate(c, Space::kPinned, bytes));
  });
}
Result hipFree(void* data) {
  return call(__func__, [&](Machine& m, const Call& c) { m.free(c, address(data)); });
}
Result hipHostFree(void* data) {
  return call(__func__, [&](Machine& m, const Call& c) { m.free_host(c, address(data)); });
}
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

}  // extern "C"
#pragma GCC visibility pop
