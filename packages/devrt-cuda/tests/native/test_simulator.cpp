// What the simulated driver does like a real one: orders, pools, errors that stay, faults on
// request.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "driver_api.hpp"

namespace {

std::uint64_t attribute(Pool pool, int number) {
  std::uint64_t value = 0;
  ok(cuMemPoolGetAttribute(pool, number, &value));
  return value;
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  ok(cuMemGetInfo_v2(&free, &total));
  return free;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Runs in a child process, and returns what it returns.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE(a_model_that_is_not_there_is_refused_with_those_that_are) {
  const char* const wrong = devrt_simulator_configure("model=b200");
  CHECK(wrong && contains(wrong, "b200") && contains(wrong, "Use "));
}

TEST_CASE(what_was_freed_is_forgotten_in_time) {
  Machine m("devices=2");
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0, pages = 0;
    file >> all >> pages;
    return pages * 4096;
  };
  const auto use = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Pointer data = 0;
      ok(cuMemAllocAsync(&data, 1000, m.a));
      ok(cuMemsetD8Async(data, 1, 1000, m.a));
      ok(cuMemFreeAsync(data, m.a));
      if (i % 100 == 99) ok(cuCtxSynchronize());
    }
  };
  use(10'000);
  [[maybe_unused]] const std::size_t before = resident();
  use(20'000);
#ifndef __SANITIZE_THREAD__  // which keeps a record of each page
  CHECK(resident() < before + (std::size_t{40} << 20));
#endif
}

TEST_CASE(bytes_go_there_and_back) {
  Machine m("devices=2");
  const Pointer data = m.memory(1000);
  std::vector<unsigned char> given(1000), got(1000);
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<unsigned char>(i);
  ok(cuMemcpyHtoDAsync_v2(data, given.data(), 1000, m.a));
  const std::vector<unsigned char> kept = given;
  given.assign(1000, 0);  // it is not pinned: the driver has read it
  m.order(m.a, m.b);
  ok(cuMemcpyDtoHAsync_v2(got.data(), data, 1000, m.b));  // likewise: it is written
  CHECK(got == kept);
  m.end();
  CHECK(*devrt_simulator_reports(0) == '\0');
  CHECK(std::string(devrt_simulator_living()).starts_with("device=0 managed=0 pinned=0"));
}

TEST_CASE(a_pinned_source_is_read_when_the_copy_runs) {
  std::set<int> seen;
  for (int seed = 0; seed < 60 && seen.size() < 2; ++seed) {
    const int delay = 300 << (seed / 10);  // a busy machine may be late with the second copy
    Machine m("devices=2 delay=" + std::to_string(delay) + " seed=" + std::to_string(seed));
    const Pointer data = m.memory(64);
    unsigned char* const pinned = m.pinned(64);
    unsigned char* const late = m.pinned(64);
    std::memset(pinned, 1, 64);
    std::memset(late, 2, 64);
    ok(cuMemcpyHtoDAsync_v2(data, pinned, 64, m.a));
    unsigned char got = 0;
    ok(cuMemcpyHtoDAsync_v2(data, late, 64, m.b));  // a race: either may be the last
    ok(cuCtxSynchronize());
    ok(cuMemcpyDtoHAsync_v2(&got, data, 1, m.a));
    seen.insert(got);
    CHECK(contains(devrt_simulator_reports(1), "race: "));
    m.end();
  }
  CHECK(seen == std::set<int>({1, 2}));
}

TEST_CASE(events_tell_what_is_over_and_how_long_it_took) {
  Machine m("devices=2 delay=100");
  Event first = nullptr, last = nullptr;
  ok(cuEventCreate(&first, 0));
  ok(cuEventCreate(&last, 0));
  float took = -1;
  CHECK(cuEventQuery(first) == 0);
  CHECK(cuEventElapsedTime(&took, first, last) == 400);
  std::atomic<bool> may_go = false;
  const auto wait = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) usleep(100);
  };
  ok(cuEventRecord(first, m.a));
  ok(cuLaunchHostFunc(m.a, wait, &may_go));
  ok(cuEventRecord(last, m.a));
  CHECK(cuEventQuery(last) == 600);
  CHECK(cuStreamQuery(m.a) == 600);
  ok(cuEventSynchronize(first));
  CHECK(cuEventElapsedTime(&took, first, last) == 600);
  may_go = true;
  ok(cuEventSynchronize(last));
  ok(cuEventElapsedTime(&took, first, last));
  CHECK(took >= 0);
  CHECK(cuEventElapsedTime(&took, m.e, last) == 400);
  m.end();
}

TEST_CASE(the_default_stream_waits_for_blocking_streams) {
  Machine m("devices=2 delay=200 seed=3");
  Stream blocking = nullptr;
  ok(cuStreamCreateWithPriority(&blocking, 0, 0));
  const Pointer data = m.memory(64);
  ok(cuMemsetD8Async(data, 1, 64, blocking));
  ok(cuMemsetD8Async(data, 2, 64, nullptr));
  ok(cuMemsetD8Async(data, 3, 64, blocking));
  ok(cuCtxSynchronize());
  CHECK(*devrt_simulator_reports(0) == '\0');
  ok(cuMemsetD8Async(data, 4, 64, nullptr));
  ok(cuMemsetD8Async(data, 5, 64, m.a));  // which does not block
  CHECK(contains(devrt_simulator_reports(1), "race: "));
  m.end();
}

TEST_CASE(a_pool_keeps_bytes_up_to_its_threshold) {
  Machine m("devices=2 memory=67108864");
  Pool pool = nullptr;
  ok(cuDeviceGetDefaultMemPool(&pool, 0));
  const std::size_t before = free_bytes(), mib = std::size_t{1} << 20;
  const Pointer one = m.pooled(8 * mib, m.a);
  CHECK(attribute(pool, 7) == 8 * mib && attribute(pool, 5) == 8 * mib);
  CHECK(free_bytes() == before - 8 * mib);
  ok(cuMemFreeAsync(one, m.a));
  const Pointer two = m.pooled(8 * mib, m.a);  // the same bytes, in stream order
  CHECK(attribute(pool, 5) == 8 * mib);
  const Pointer three = m.pooled(6 * mib, m.b);
  CHECK(attribute(pool, 5) == 14 * mib && attribute(pool, 8) == 14 * mib);
  std::uint64_t threshold = 4 * mib;
  ok(cuMemPoolSetAttribute(pool, 4, &threshold));
  ok(cuMemFreeAsync(two, m.a));
  ok(cuMemFreeAsync(three, m.b));
  CHECK(attribute(pool, 7) == 0);
  ok(cuCtxSynchronize());
  CHECK(attribute(pool, 5) == 4 * mib && attribute(pool, 6) == 14 * mib);
  ok(cuMemPoolTrimTo(pool, 0));
  CHECK(attribute(pool, 5) == 0 && free_bytes() == before);
  m.end();
  CHECK(*devrt_simulator_reports(0) == '\0');
}

TEST_CASE(memory_ends) {
  Machine m("devices=2 memory=4194304 oom=3000000");
  Pointer data = 0;
  CHECK(cuMemAlloc_v2(&data, 3000000) == 2);  // as configured
  ok(cuMemAlloc_v2(&data, 2097152));
  Pointer more = 0;
  CHECK(cuMemAllocAsync(&more, 2097153, m.a) == 2);
  ok(cuMemFree_v2(data));
  ok(cuMemAllocAsync(&more, 2097153, m.a));
  CHECK(cuMemAlloc_v2(&data, 1) == 2);  // the pool has all
  m.end();
}

TEST_CASE(kernels_run_over_their_grid) {
  Machine m("devices=2 delay=50");
  Pointer data = m.memory(256);
  unsigned value = 5;
  void* parameters[] = {&data, &value};
  ok(cuMemsetD8Async(data, 1, 256, m.a));
  ok(cuLaunchKernel(m.kernel("add"), 4, 1, 1, 64, 1, 1, 0, m.a, parameters, nullptr));
  value = 100;  // the driver has read it
  std::vector<unsigned char> got(256);
  ok(cuMemcpyDtoHAsync_v2(got.data(), data, 256, m.a));
  CHECK(got == std::vector<unsigned char>(256, 6));
  CHECK(cuLaunchKernel(m.kernel("add"), 1, 1, 1, 1025, 1, 1, 0, m.a, parameters, nullptr) == 1);
  Module module = nullptr;
  CHECK(cuModuleLoadDataEx(&module, ".version 8.0", 0, nullptr, nullptr) == 200);
  m.end();
  CHECK(*devrt_simulator_reports(0) == '\0');
}

TEST_CASE(an_illegal_address_stays_with_its_device) {
  Machine m("devices=2");
  Pointer data = 4096;  // of nobody
  std::uint64_t count = 1;
  void* parameters[] = {&data, &count};
  ok(cuLaunchKernel(m.kernel("fill"), 1, 1, 1, 1, 1, 1, 0, m.a, parameters, nullptr));
  std::atomic<bool> was_called = false;
  const auto call = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
  (void)cuLaunchHostFunc(m.a, call, &was_called);
  CHECK(cuStreamSynchronize(m.a) == 700);
  CHECK(cuMemAlloc_v2(&data, 64) == 700);
  ok(cuCtxSetCurrent(m.contexts[1]));
  CHECK(m.memory(64) != 0);
  CHECK(contains(devrt_simulator_reports(1), "illegal address: cuLaunchKernel"));
  m.end();
  CHECK(!was_called);
}

TEST_CASE(a_device_is_lost_at_an_operation) {
  Machine m("devices=2 lose=0:3");
  const Pointer data = m.memory(64);
  for (int i = 0; i < 2; ++i) {
    ok(cuMemsetD8Async(data, 1, 64, m.a));
    ok(cuStreamSynchronize(m.a));
  }
  ok(cuMemsetD8Async(data, 1, 64, m.a));
  CHECK(cuStreamSynchronize(m.a) == 214);
  CHECK(cuCtxSynchronize() == 214);
  m.end();
}

TEST_CASE(a_lost_device_writes_nothing_more) {
  constexpr std::size_t kBytes = 4 << 20;
  for (int round = 0; round < 5; ++round) {
    Machine m("devices=2");
    const Pointer data = m.memory(kBytes);
    unsigned char* const to = m.pinned(kBytes);
    ok(cuMemsetD8Async(data, 1, kBytes, m.a));
    for (int i = 0; i < 16; ++i) ok(cuMemcpyDtoHAsync_v2(to, data, kBytes, m.a));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // one of the copies runs
    devrt_simulator_lose(0);
    std::memset(to, 2, kBytes);  // the host may use it again
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(std::count(to, to + kBytes, 2) == kBytes);
    m.end();
    (void)devrt_simulator_reports(1);
  }
}

TEST_CASE(calls_fail_as_configured) {
  Machine m(
      "devices=2 fail=cuMemAlloc_v2:2:out_of_memory missing=cuMemPoolTrimTo driver_version=11040");
  Pointer data = 0;
  ok(cuMemAlloc_v2(&data, 64));
  CHECK(cuMemAlloc_v2(&data, 64) == 2);
  ok(cuMemAlloc_v2(&data, 64));
  CHECK(devrt_simulator_count("cuMemAlloc_v2") == 3);
  void* function = nullptr;
  int status = 0;
  CHECK(cuGetProcAddress_v2("cuMemPoolTrimTo", &function, 12000, 0, &status) == 500);
  CHECK(!function && status == 1);
  ok(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status));
  CHECK(function == reinterpret_cast<void*>(&cuMemAlloc_v2));
  int version = 0;
  ok(cuDriverGetVersion(&version));
  CHECK(version == 11040);
  m.end();
}

TEST_CASE(settings_that_are_wrong_are_named) {
  CHECK(contains(devrt_simulator_configure("devices=two"), "devices=two"));
  CHECK(contains(devrt_simulator_configure("colour=1"), "colour"));
  CHECK(contains(devrt_simulator_configure("fail=cuInit:1:blue"), "blue"));
  CHECK(contains(devrt_simulator_configure("model=z9"), "z9"));
  CHECK(devrt_simulator_configure("devices=0") == nullptr);
  CHECK(cuInit(0) == 100);
  CHECK(devrt_simulator_configure("devices=1") == nullptr);
  int count = 0;
  CHECK(cuDeviceGetCount(&count) == 3);  // before cuInit
  ok(cuInit(0));
  ok(cuDeviceGetCount(&count));
  CHECK(count == 1);
}

TEST_CASE(devices_are_linked_within_a_group) {
  CHECK(devrt_simulator_configure("devices=4 group=2 model=a100") == nullptr);
  ok(cuInit(0));
  int near = 0, far = 1, major = 0;
  ok(cuDeviceCanAccessPeer(&near, 0, 1));
  ok(cuDeviceCanAccessPeer(&far, 1, 2));
  ok(cuDeviceGetAttribute(&major, 75, 3));
  CHECK(near == 1 && far == 0 && major == 8);
  char name[64];
  ok(cuDeviceGetName(name, sizeof(name), 0));
  CHECK(contains(name, "(simulated)"));
}

TEST_CASE(a_forked_child_is_refused) {
  Machine m("devices=2");
  CHECK(in_child([] {
          Pointer data = 0;
          return cuMemAlloc_v2(&data, 64);
        }) == 3);
  m.end();
}

TEST_CASE(calls_after_exit_are_refused) {
  const int status = std::system(EXIT_PROGRAM);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
}

TEST_CASE(contexts_are_of_threads_and_end) {
  Machine m("devices=2");
  Context now = nullptr;
  ok(cuCtxGetCurrent(&now));
  CHECK(now == m.contexts[0]);
  ok(cuCtxSetCurrent(nullptr));
  Pointer data = 0;
  CHECK(cuMemAlloc_v2(&data, 64) == 201);
  ok(cuCtxSetCurrent(m.contexts[0]));
  ok(cuDevicePrimaryCtxRelease_v2(0));
  CHECK(cuMemAlloc_v2(&data, 64) == 709);
  CHECK(cuDevicePrimaryCtxRelease_v2(0) == 201);
  ok(cuDevicePrimaryCtxRelease_v2(1));
}

TEST_CASE(pointers_say_what_they_are) {
  Machine m("devices=2");
  Pointer managed = 0;
  ok(cuMemAllocManaged(&managed, 64, 1));
  *reinterpret_cast<char*>(managed) = 1;  // the host may
  unsigned type = 0;
  int device = -1;
  unsigned char is_managed = 0;
  int attributes[] = {2, 9, 8};
  void* values[] = {&type, &device, &is_managed};
  ok(cuPointerGetAttributes(3, attributes, values, managed));
  CHECK(type == 2 && device == 0 && is_managed == 1);
  ok(cuPointerGetAttributes(3, attributes, values, reinterpret_cast<Pointer>(m.pinned(64))));
  CHECK(type == 1 && is_managed == 0);
  ok(cuPointerGetAttributes(3, attributes, values, m.memory(64) + 63));
  CHECK(type == 2 && is_managed == 0);
  char local = 0;
  ok(cuPointerGetAttributes(3, attributes, values, reinterpret_cast<Pointer>(&local)));
  CHECK(type == 0);
  m.end();
}
