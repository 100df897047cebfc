// The simulated driver: pools, streams, events, copies and kernels.
#include "simulator.hpp"

using namespace devrt_rocm;

#pragma GCC visibility push(default)
extern "C" {

// -- pools

Result hipDeviceGetDefaultMemPool(Handle* pool, int device) {
  return call_any(__func__, [&](Machine& m, const Call&) { *pool = m.default_pool(device); });
}
Result hipMemPoolSetAttribute(Handle handle, int attribute, void* value) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.with_pool(handle, [&](Pool& pool) { set_attribute(pool, attribute, value); });
  });
}
Result hipMemPoolGetAttribute(Handle handle, int attribute, void* value) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.with_pool(handle, [&](Pool& pool) { get_attribute(pool, attribute, value); });
  });
}
Result hipMemPoolSetAccess(Handle handle, const PoolAccess* access, std::size_t count) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.with_pool(handle, [&](Pool& pool) { set_access(m, pool, {access, count}); });
  });
}
Result hipMemPoolTrimTo(Handle handle, std::size_t keep) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.with_pool(handle, [&](Pool& pool) { pool.trim(keep); });
  });
}
Result hipMallocFromPoolAsync(void** data, std::size_t bytes, Handle pool, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    need(pool != 0);
    *data = reinterpret_cast<void*>(m.allocate_async(c, pool, bytes, stream));
  });
}
Result hipFreeAsync(void* data, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.free_async(c, address(data), stream); });
}

// -- streams

Result hipStreamCreateWithPriority(Handle* stream, unsigned flags, int) {
  return call(__func__, [&](Machine& m, const Call&) {
    need(flags <= 1);
    *stream = m.make_stream(flags == 0);
  });
}
Result hipStreamDestroy(Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.destroy_stream(c, stream); });
}
Result hipStreamSynchronize(Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.synchronize_stream(c, stream); });
}
Result hipStreamQuery(Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.query_stream(c, stream); });
}
Result hipStreamWaitEvent(Handle stream, Handle event, unsigned) {
  return call(__func__, [&](Machine& m, const Call& c) { m.wait_event(c, stream, event); });
}
Result hipStreamIsCapturing(Handle stream, int* status) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.check_stream(c, stream);
    *status = 0;
  });
}
Result hipLaunchHostFunc(Handle stream, void (*function)(void*), void* data) {
  return call(__func__, [&](Machine& m, const Call& c) {
    need(function != nullptr);
    m.call_host(c, stream, false, [=](Code) { function(data); });
  });
}
Result hipStreamAddCallback(Handle stream, void (*function)(Handle, Result, void*), void* data,
                            unsigned) {
  return call(__func__, [&](Machine& m, const Call& c) {
    need(function != nullptr);
    m.call_host(c, stream, true, [=](Code error) { function(stream, number(error), data); });
  });
}

// -- events

Result hipEventCreateWithFlags(Handle* event, unsigned flags) {
  return call(__func__, [&](Machine& m, const Call&) { *event = m.make_event(!(flags & 2)); });
}
Result hipEventDestroy(Handle event) {
  return call(__func__, [&](Machine& m, const Call& c) { m.destroy_event(c, event); });
}
Result hipEventRecord(Handle event, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) { m.record(c, event, stream); });
}
Result hipEventQuery(Handle event) {
  return call(__func__, [&](Machine& m, const Call& c) { m.query_event(c, event); });
}
Result hipEventSynchronize(Handle event) {
  return call(__func__, [&](Machine& m, const Call& c) { m.synchronize_event(c, event); });
}

// -- copies

Result hipMemcpyHtoDAsync(void* to, const void* from, std::size_t bytes, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.copy(c, linear({address(to)}, on_host(from), bytes), stream);
  });
}
Result hipMemcpyDtoHAsync(void* to, void* from, std::size_t bytes, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.copy(c, linear(on_host(to), {address(from)}, bytes), stream);
  });
}
Result hipMemcpyDtoDAsync(void* to, void* from, std::size_t bytes, Handle stream) {
  return call(__func__, [&](Machine& m, const Call& c) {
    m.copy(c, linear({address(to)}, {address(from)}, bytes), stream);
  });
}
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
Result hipMemsetD8Async(void* data, unsigned char value, std::size_t bytes, Handle stream) {
  return call(__func__,
              [&](Machine& m, const Call& c) { m.fill(c, address(data), value, bytes, stream); });
}

// -- kernels

Result hipModuleLoadDataEx(Handle* module, const void* image, unsigned, int*, void**) {
  return call(__func__, [&](Machine& m, const Call&) { *module = m.load_module(image); });
}
Result hipModuleUnload(Handle module) {
  return call(__func__, [&](Machine& m, const Call& c) { m.unload_module(c, module); });
}
Result hipModuleGetFunction(Handle* function, Handle module, const char* name) {
  return call(__func__,
              [&](Machine& m, const Call& c) { *function = m.function(c, module, name); });
}
Result hipFuncGetAttribute(int* value, int attribute, Handle function) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_function(function);
    *value = function_attribute(attribute);
  });
}
Result hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, Handle function, std::size_t,
                                               int limit) {
  return call(__func__, [&](Machine& m, const Call&) {
    m.check_function(function);
    find_block_size(m, limit, grid, block);
  });
}
Result hipModuleLaunchKernel(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
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
