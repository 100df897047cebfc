// A driver of CUDA's that simulates its devices: the functions that devrt calls, over the SDK's
// simulator. Here: devices, contexts and memory. Declarations are our own, so that no toolkit is
// needed.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "simulator.hpp"

using namespace devrt_cuda;

namespace {

constexpr int kVersion = 13000;

int attribute(const Machine& machine, int number, int device) {
  const Model& model = machine.model();
  switch (number) {
    case 1:
    case 2:
    case 3:
      return 1024;  // threads of a block, and along x and y
    case 4:
      return 64;
    case 5:
      return 2147483647;
    case 6:
    case 7:
      return 65535;
    case 8:
      return 49152;
    case 10:
      return model.warp;
    case 12:
    case 82:
      return 65536;
    case 13:
      return model.clock_khz;
    case 16:
      return model.multiprocessors;
    case 33:
      return device + 1;  // its bus
    case 36:
      return model.memory_clock_khz;
    case 37:
      return model.memory_bus_bits;
    case 38:
      return model.l2_bytes;
    case 39:
      return model.threads_per_multiprocessor;
    case 40:
      return 3;
    case 75:
      return model.major;
    case 76:
      return model.minor;
    case 81:
      return model.shared_bytes_per_block + 1024;
    case 89:
      return machine.settings().managed;
    case 97:
      return model.shared_bytes_per_block;
    case 115:
      return machine.settings().pools;
    case 131:
    case 134:
      return device >= 4 ? 1 : 0;
    // Maps host memory, concurrent kernels, checks its memory, unified addresses, priorities,
    // managed memory, cooperative launches, registers host memory.
    case 19:
    case 31:
    case 32:
    case 41:
    case 78:
    case 83:
    case 95:
    case 99:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuInit(unsigned) { return number(initialize(__func__)); }
Result cuDriverGetVersion(int* version) {
  return number(enter_early(__func__, [&](const Settings& settings) {
    *version = settings.driver_version ? settings.driver_version : kVersion;
  }));
}
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

Result cuDeviceGetCount(int* count) {
  return call(__func__, [&](Machine& m, const Call&) { *count = m.device_count(); });
}
Result cuDeviceGet(int* device, int ordinal) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(ordinal);
    *device = ordinal;
  });
}
Result cuDeviceGetName(char* name, int length, int device) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    std::snprintf(name, static_cast<std::size_t>(length), "%s (simulated)", m.model().name.data());
  });
}
Result cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    std::memcpy(uuid, "devrt-simulated", 15);
    uuid[15] = static_cast<unsigned char>(device);
  });
}
Result cuDeviceGetAttribute(int* value, int number, int device) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    *value = attribute(m, number, device);
  });
}
Result cuDeviceGetPCIBusId(char* id, int length, int device) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    need(length >= 13);
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
  });
}
Result cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_device(device);
    *bytes = m.settings().memory;
  });
}
Result cuDeviceCanAccessPeer(int* can, int device, int peer) {
  return call(__func__, [&](Machine& m, const Call&) { *can = m.are_linked(device, peer); });
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
Result cuCtxSynchronize() {
  return call(__func__, [&](Machine& m, const Call&) { m.synchronize_device(); });
}
Result cuCtxEnablePeerAccess(Handle peer, unsigned) {
  return call(__func__, [&](Machine& m, const Call&) { m.enable_peer(m.device_of(peer)); });
}

// -- memory

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return call(__func__, [&](Machine& m, const Call&) { m.memory_info(free, total); });
}
Result cuMemAlloc_v2(Pointer* data, std::size_t bytes) {
  return call(__func__,
              [&](Machine& m, const Call& c) { *data = m.allocate(c, Space::kDevice, bytes); });
}
Result cuMemAllocManaged(Pointer* data, std::size_t bytes, unsigned) {
  return call(__func__,
              [&](Machine& m, const Call& c) { *data = m.allocate(c, Space::kManaged, bytes); });
}
Result cuMemHostAlloc(void** data, std::size_t bytes, unsigned) {
  return call(__func__, [&](Machine& m, const Call& c) {
    *data = reinterpret_cast<void*>(m.allocate(c, Space::kPinned, bytes));
  });
}
Result cuMemFree_v2(Pointer data) {
  return call(__func__, [&](Machine& m, const Call& c) { m.free(c, data); });
}
Result cuMemFreeHost(void* data) {
  return call(__func__,
              [&](Machine& m, const Call& c) { m.free_host(c, reinterpret_cast<Address>(data)); });
}
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
Result cuMemHostGetDevicePointer_v2(Pointer* device, void* host, unsigned) {
  return call(__func__, [&](Machine& m, const Call&) {
    need(m.pointer(reinterpret_cast<Address>(host)).allocation != nullptr);
    *device = reinterpret_cast<Pointer>(host);
  });
}
Result cuPointerGetAttributes(unsigned count, int* attributes, void** data, Pointer address) {
  return call(__func__, [&](Machine& m, const Call&) {
    const PointerFacts facts = m.pointer(address);
    for (unsigned i = 0; i < count; ++i) {
      get_attribute(facts, attributes[i], address, data[i]);
    }
  });
}

}  // extern "C"
#pragma GCC visibility pop
