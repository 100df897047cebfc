// Planted bugs: work that has no order, or is given to what it does not belong to.
#include <array>

#include "planted_bugs.hpp"

namespace {

constexpr std::size_t kBytes = 4096;

void missing_wait(Machine& m, bool wrong) {
  const Pointer from = m.memory(kBytes), to = m.memory(kBytes);
  ok(cuMemsetD8Async(from, 1, kBytes, m.a));
  if (!wrong) m.order(m.a, m.b);
  ok(cuMemcpyDtoDAsync_v2(to, from, kBytes, m.b));
}

void two_writers(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  const std::size_t half = kBytes / 2;
  ok(cuMemsetD8Async(data, 1, wrong ? half + 1 : half, m.a));
  ok(cuMemsetD8Async(data + half, 2, half, m.b));
}

void recorded_after_the_wait(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  ok(cuMemsetD8Async(data, 1, kBytes, m.a));
  if (!wrong) ok(cuEventRecord(m.e, m.a));
  ok(cuStreamWaitEvent(m.b, m.e, 0));
  if (wrong) ok(cuEventRecord(m.e, m.a));
  ok(cuMemsetD8Async(data, 2, kBytes, m.b));
}

void recorded_again(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  Stream third = nullptr;
  ok(cuStreamCreateWithPriority(&third, 1, 0));
  ok(cuMemsetD8Async(data, 1, kBytes, m.a));
  ok(cuEventRecord(m.e, m.a));
  ok(cuEventRecord(wrong ? m.e : m.f, third));  // the event stands for another stream's work now
  ok(cuStreamWaitEvent(m.b, m.e, 0));
  ok(cuMemsetD8Async(data, 2, kBytes, m.b));
}

void recorded_too_early(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  if (wrong) ok(cuEventRecord(m.e, m.a));
  ok(cuMemsetD8Async(data, 1, kBytes, m.a));
  if (!wrong) ok(cuEventRecord(m.e, m.a));
  ok(cuEventSynchronize(m.e));
  ok(cuMemsetD8Async(data, 2, kBytes, m.b));
}

void kernel_without_wait(Machine& m, bool wrong) {
  Pointer data = m.memory(kBytes);
  std::uint64_t count = kBytes;
  void* parameters[] = {&data, &count};
  const Function fill = m.kernel("fill");
  ok(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, m.a, parameters, nullptr));
  if (!wrong) m.order(m.a, m.b);
  ok(cuMemsetD8Async(data, 2, kBytes, m.b));
}

void staging_written_while_read(Machine& m, bool wrong) {
  const Pointer one = m.memory(kBytes), two = m.memory(kBytes);
  unsigned char* const staging = m.pinned(kBytes);
  ok(cuMemsetD8Async(two, 1, kBytes, m.b));
  ok(cuMemcpyHtoDAsync_v2(one, staging, kBytes, m.a));
  if (!wrong) ok(cuStreamSynchronize(m.a));
  ok(cuMemcpyDtoHAsync_v2(staging, two, kBytes, m.b));
}

void wait_on_the_other_device(Machine& m, bool wrong) {
  const Pointer here = m.memory(kBytes);
  ok(cuMemsetD8Async(here, 1, kBytes, m.a));
  if (!wrong) ok(cuEventRecord(m.e, m.a));
  ok(cuCtxSetCurrent(m.contexts[1]));
  Stream there = nullptr;
  ok(cuStreamCreateWithPriority(&there, 1, 0));
  const Pointer to = m.memory(kBytes);
  ok(cuStreamWaitEvent(there, m.e, 0));
  ok(cuMemcpyPeerAsync(to, m.contexts[1], here, m.contexts[0], kBytes, there));
}

void destroyed_stream(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  if (wrong) ok(cuStreamDestroy_v2(m.b));
  CHECK((cuMemsetD8Async(data, 1, kBytes, m.b) == 400) == wrong);
  if (!wrong) ok(cuStreamDestroy_v2(m.b));
}

void destroyed_event(Machine& m, bool wrong) {
  if (wrong) ok(cuEventDestroy_v2(m.e));
  CHECK((cuEventRecord(m.e, m.a) == 400) == wrong);
  if (!wrong) ok(cuEventDestroy_v2(m.e));
}

void wrong_context(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  ok(cuCtxSetCurrent(m.contexts[wrong ? 1 : 0]));
  CHECK((cuMemsetD8Async(data, 1, kBytes, m.a) == 400) == wrong);
}

void event_of_another_context(Machine& m, bool wrong) {
  ok(cuCtxSetCurrent(m.contexts[wrong ? 1 : 0]));
  Event event = nullptr;
  ok(cuEventCreate(&event, 2));
  CHECK((cuEventRecord(event, m.a) == 400) == wrong);
}

void call_in_a_host_function(Machine& m, bool wrong) {
  static bool calls = false;
  calls = wrong;
  const auto function = [](void* stream) {
    if (calls) (void)cuStreamQuery(stream);
  };
  ok(cuLaunchHostFunc(m.a, function, m.b));
}

constexpr char kSet[] = "cuMemsetD8Async", kRecord[] = "cuEventRecord";
constexpr std::array<Program, 13> kPrograms{{
    {"missing wait", "race", kSet, "cuMemcpyDtoDAsync_v2", missing_wait},
    {"two writers", "race", kSet, "writes bytes 2048", two_writers},
    {"recorded after the wait", "race", kSet, "writes", recorded_after_the_wait},
    {"recorded again", "race", kSet, "writes", recorded_again},
    {"recorded too early", "race", kSet, "writes", recorded_too_early},
    {"kernel without wait", "race", "cuLaunchKernel", kSet, kernel_without_wait},
    {"staging written while read", "race", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
     staging_written_while_read},
    {"wait on the other device", "race", kSet, "cuMemcpyPeerAsync", wait_on_the_other_device},
    {"destroyed stream", "use of a destroyed handle", kSet, "stream", destroyed_stream},
    {"destroyed event", "use of a destroyed handle", kRecord, "event", destroyed_event},
    {"wrong context", "wrong context", kSet, "of device 0", wrong_context},
    {"event of another context", "wrong context", kRecord, "of device 1", event_of_another_context},
    {"call in a host function", "call in a host function", "cuStreamQuery", "a stream calls",
     call_in_a_host_function},
}};

}  // namespace

std::span<const Program> programs_of_order() { return kPrograms; }
