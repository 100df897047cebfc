// The simulated HIP driver: what it does as CUDA's does not, and that it tells on its client too.
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "driver_result.hpp"
#include "gpu_simulator/control.h"

using Result = int;
using Stream = void*;
using Event = void*;
using Pool = void*;

extern "C" {
Result hipInit(unsigned flags);
const char* hipGetErrorName(Result error);
Result hipGetDeviceCount(int* count);
Result hipDeviceGetName(char* name, int length, int device);
Result hipDeviceGetAttribute(int* value, int attribute, int device);
Result hipSetDevice(int device);
Result hipGetDevice(int* device);
Result hipDeviceSynchronize();
Result hipDeviceEnablePeerAccess(int peer, unsigned flags);
Result hipMalloc(void** data, std::size_t bytes);
Result hipFree(void* data);
Result hipHostMalloc(void** data, std::size_t bytes, unsigned flags);
Result hipHostFree(void* data);
Result hipPointerGetAttributes(void* attributes, const void* data);
Result hipDeviceGetDefaultMemPool(Pool* pool, int device);
Result hipMallocFromPoolAsync(void** data, std::size_t bytes, Pool pool, Stream stream);
Result hipFreeAsync(void* data, Stream stream);
Result hipStreamCreateWithPriority(Stream* stream, unsigned flags, int priority);
Result hipStreamDestroy(Stream stream);
Result hipStreamSynchronize(Stream stream);
Result hipStreamWaitEvent(Stream stream, Event event, unsigned flags);
Result hipStreamAddCallback(Stream stream, void (*function)(Stream, Result, void*), void* data,
                            unsigned flags);
Result hipEventCreateWithFlags(Event* event, unsigned flags);
Result hipEventDestroy(Event event);
Result hipEventRecord(Event event, Stream stream);
Result hipMemcpyHtoDAsync(void* to, const void* from, std::size_t bytes, Stream stream);
Result hipMemcpyDtoHAsync(void* to, void* from, std::size_t bytes, Stream stream);
Result hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, Stream stream);
Result hipMemsetD8Async(void* data, unsigned char value, std::size_t bytes, Stream stream);
}

namespace {

void begin(const char* settings) {
  CHECK(devrt_simulator_configure(settings) == nullptr);
  ok(hipInit(0));
  ok(hipSetDevice(0));
}

Stream stream() {
  Stream made = nullptr;
  ok(hipStreamCreateWithPriority(&made, 1, 0));
  return made;
}

void* memory(std::size_t bytes) {
  void* data = nullptr;
  ok(hipMalloc(&data, bytes));
  return data;
}

bool is_reported(const char* text) {
  return std::string(devrt_simulator_reports(1)).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE(a_thread_begins_on_the_first_device) {
  begin("devices=2");
  ok(hipSetDevice(1));
  int here = -1, there = -1;
  ok(hipGetDevice(&here));
  std::thread([&] { there = hipGetDevice(&there) == 0 ? there : -2; }).join();
  CHECK(here == 1 && there == 0);
  CHECK(hipSetDevice(2) == 101);
  CHECK(hipGetErrorName(101) == std::string("hipErrorInvalidDevice"));
}

TEST_CASE(devices_are_what_their_model_is) {
  begin("devices=2 model=mi250x");
  char name[64];
  int warp = 0, units = 0;
  ok(hipDeviceGetName(name, sizeof(name), 1));
  ok(hipDeviceGetAttribute(&warp, 87, 1));
  ok(hipDeviceGetAttribute(&units, 63, 1));
  CHECK(name == std::string("AMD Instinct MI250X (simulated)") && warp == 64 && units == 110);
}

TEST_CASE(bytes_go_between_devices) {
  begin("devices=2 delay=100");
  void* const here = memory(256);
  ok(hipSetDevice(1));
  void* const there = memory(256);
  ok(hipSetDevice(0));
  const Stream work = stream();
  const std::vector<unsigned char> given(256, 9);
  std::vector<unsigned char> got(256);
  ok(hipMemcpyHtoDAsync(here, given.data(), 256, work));
  ok(hipMemcpyPeerAsync(there, 1, here, 0, 256, work));
  CHECK(hipMemcpyDtoHAsync(got.data(), there, 256, work) == 1);  // it has no access
  CHECK(is_reported("no peer access: hipMemcpyDtoHAsync"));
  ok(hipDeviceEnablePeerAccess(1, 0));
  CHECK(hipDeviceEnablePeerAccess(1, 0) == 704);
  ok(hipMemcpyDtoHAsync(got.data(), there, 256, work));
  CHECK(got == given);
  ok(hipStreamDestroy(work));
  ok(hipFree(here));
  ok(hipFree(there));
  CHECK(*devrt_simulator_reports(1) == '\0');
  CHECK(std::string(devrt_simulator_living()).starts_with("device=0 "));
}

TEST_CASE(a_race_is_found) {
  begin("devices=1 delay=100");
  for (const bool is_ordered : {true, false}) {
    const Stream a = stream(), b = stream();
    void* const data = memory(64);
    Event event = nullptr;
    ok(hipEventCreateWithFlags(&event, 2));
    ok(hipMemsetD8Async(data, 1, 64, a));
    ok(hipEventRecord(event, a));
    if (is_ordered) ok(hipStreamWaitEvent(b, event, 0));
    ok(hipMemsetD8Async(data, 2, 64, b));
    ok(hipDeviceSynchronize());
    CHECK(is_reported("race: hipMemsetD8Async") == !is_ordered);
    ok(hipEventDestroy(event));
    ok(hipFree(data));
  }
}

TEST_CASE(pools_free_in_stream_order) {
  begin("devices=1 delay=100");
  const Stream a = stream(), b = stream();
  Pool pool = nullptr;
  void* data = nullptr;
  ok(hipDeviceGetDefaultMemPool(&pool, 0));
  ok(hipMallocFromPoolAsync(&data, 64, pool, a));
  ok(hipMemsetD8Async(data, 2, 64, a));
  ok(hipFreeAsync(data, b));
  CHECK(is_reported("free while in use: hipFreeAsync"));
  CHECK(hipFreeAsync(data, b) == 1);
  CHECK(is_reported("double free: hipFreeAsync"));
  ok(hipDeviceSynchronize());
}

TEST_CASE(a_callback_learns_of_a_lost_device) {
  begin("devices=1 lose=0:1");
  const Stream work = stream();
  void* const data = memory(64);
  Result result = -1;
  ok(hipMemsetD8Async(data, 1, 64, work));
  const auto note = [](Stream, Result error, void* to) { *static_cast<Result*>(to) = error; };
  const Result given = hipStreamAddCallback(work, note, &result, 0);
  CHECK(given == 0 || given == 214);
  CHECK(hipStreamSynchronize(work) == 214);
  devrt_simulator_configure("");
}

TEST_CASE(pointers_have_their_types) {
  begin("devices=1");
  struct {
    int type, device;
    void *on_device, *on_host;
    int is_managed;
    unsigned flags;
  } facts{};
  void* pinned = nullptr;
  ok(hipHostMalloc(&pinned, 64, 0));
  ok(hipPointerGetAttributes(&facts, pinned));
  CHECK(facts.type == 1 && facts.on_host == pinned);
  ok(hipPointerGetAttributes(&facts, memory(64)));
  CHECK(facts.type == 2 && !facts.on_host);
  ok(hipPointerGetAttributes(&facts, &facts));
  CHECK(facts.type == 0);
  ok(hipHostFree(pinned));
}
