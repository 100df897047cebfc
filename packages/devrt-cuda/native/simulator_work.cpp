// The simulated driver: pools, streams, events, copies and kernels.
#include "simulator.hpp"

using namespace devrt_cuda;

namespace {

struct Side3D {
  std::size_t x, y, z, lod;
  int memory_type;  // 1: host, 2: device, 4: whatever the address says
  const void* host;
  Pointer device;
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

#pragma GCC visibility push(default)
extern "C" {

// -- pools

Result cuDeviceGetDefaultMemPool(Handle* pool, int device) {
  return call(__func__, [&](Machine& m, const Call&) { *pool = m.default_pool(device); });
}
Result cuMemPoolSetAttribute(Handle handle, int attribute, void* value) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.with_pool(handle, [&](Pool& pool) { set_attribute(pool, attribute, value); });
  });
}
Result cuMemPoolGetAttribute(Handle handle, int attribute, void* value) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.with_pool(handle, [&](Pool& pool) { get_attribute(pool, attribute, value); });
  });
}
Result cuMemPoolSetAccess(Handle handle, const PoolAccess* access, std::size_t count) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.with_pool(handle, [&](Pool& pool) { set_access(m, pool, {access, count}); });
  });
}
Result cuMemPoolTrimTo(Handle handle, std::size_t keep) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.with_pool(handle, [&](Pool& pool) { pool.trim(keep); });
  });
}
Result cuMemAllocFromPoolAsync(Pointer* data, std::size_t bytes, Handle pool, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    need(pool != 0);
    *data = m.allocate_async(c, pool, bytes, stream);
  });
}
Result cuMemAllocAsync(Pointer* data, std::size_t bytes, Handle stream) {
  return call(__func__,
              [&](Machine& m, const Call& c) { *data = m.allocate_async(c, 0, bytes, stream); });
}
Result cuMemFreeAsync(Pointer data, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.free_async(c, data, stream); });
}

// -- streams

Result cuStreamCreateWithPriority(Handle* stream, unsigned flags, int) {
  return call(__func__, [&](Machine& m, const Call&) {
    need(flags <= 1);
    *stream = m.make_stream(flags == 0);
  });
}
Result cuStreamDestroy_v2(Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.destroy_stream(c, stream); });
}
Result cuStreamSynchronize(Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.synchronize_stream(c, stream); });
}
Result cuStreamQuery(Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.query_stream(c, stream); });
}
Result cuStreamWaitEvent(Handle stream, Handle event, unsigned) {
  return call(__func__, [&](Machine& m, const Call& c) { m.wait_event(c, stream, event); });
}
Result cuStreamIsCapturing(Handle stream, int* status) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.check_stream(c, stream);
    *status = 0;
  });
}
Result cuLaunchHostFunc(Handle stream, void (*function)(void*), void* data) {
  return call(__func__, [&](Machine& m, const Call& c) {
    need(function != nullptr);
    m.call_host(c, stream, false, [=](Code) { function(data); });
  });
}

// -- events

Result cuEventCreate(Handle* event, unsigned flags) {
  return call(__func__, [&](Machine& m, const Call&) { *event = m.make_event(!(flags & 2)); });
}
Result cuEventDestroy_v2(Handle event) {
  return call(__func__, [&](Machine& m, const Call& c) { m.destroy_event(c, event); });
}
Result cuEventRecord(Handle event, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.record(c, event, stream); });
}
Result cuEventQuery(Handle event) {
  return call(__func__, [&](Machine& m, const Call& c) { m.query_event(c, event); });
}
Result cuEventSynchronize(Handle event) {
  return call(__func__, [&](Machine& m, const Call& c) { m.synchronize_event(c, event); });
}
Result cuEventElapsedTime(float* milliseconds, Handle start, Handle end) {
  return call(__func__,
              [&](Machine& m, const Call& c) { *milliseconds = m.elapsed_ms(c, start, end); });
}

// -- copies

Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.copy(c, linear({to}, on_host(from), bytes), stream);
  });
}
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.copy(c, linear(on_host(to), {from}, bytes), stream);
  });
}
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, Handle stream) {
  return call(__func__,
              [&](Machine& m, const Call& c) { m.copy(c, linear({to}, {from}, bytes), stream); });
}
Result cuMemcpyPeerAsync(Pointer to, Handle to_context, Pointer from, Handle from_context,
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
Result cuMemsetD8Async(Pointer data, unsigned char value, std::size_t bytes, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.fill(c, data, value, bytes, stream); });
}

// -- kernels

Result cuModuleLoadDataEx(Handle* module, const void* image, unsigned, int*, void**) {
  return call(__func__, [&](Machine& m, const Call&) { *module = m.load_module(image); });
}
Result cuModuleUnload(Handle module) {
  return call(__func__, [&](Machine& m, const Call& c) { m.unload_module(c, module); });
}
Result cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  return call(__func__,
              [&](Machine& m, const Call& c) { *function = m.function(c, module, name); });
}
Result cuFuncGetAttribute(int* value, int attribute, Handle function) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_function(function);
    *value = function_attribute(attribute);
  });
}
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
Result cuLaunchKernel(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                      Handle stream, void** parameters, void** extra) {
  return call(__func__, [&](Machine& m, const Call& c) {
    const Launch launch = make_launch({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared,
                                      parameters, extra);
    m.launch(c, launch, function, stream);
  });
}

}  // extern "C"
#pragma GCC visibility pop
