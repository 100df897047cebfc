// Planted bugs: memory that is used before its time, after it, or from the wrong place.
#include <array>

#include "planted_bugs.hpp"

namespace {

constexpr std::size_t kBytes = 4096;

void early_free(Machine& m, bool wrong) {
  const Pointer data = m.pooled(kBytes, m.a);
  m.order(m.a, m.b);
  ok(cuMemsetD8Async(data, 1, kBytes, m.a));
  if (!wrong) m.order(m.a, m.b);
  ok(cuMemFreeAsync(data, m.b));
}

void use_after_free(Machine& m, bool wrong) {
  const Pointer data = m.pooled(kBytes, m.a);
  if (!wrong) ok(cuMemsetD8Async(data, 1, kBytes, m.a));
  ok(cuMemFreeAsync(data, m.a));
  if (wrong) (void)cuMemsetD8Async(data, 1, kBytes, m.a);
}

void kernel_after_free(Machine& m, bool wrong) {
  Pointer data = m.pooled(kBytes, m.a);
  std::uint64_t count = kBytes;
  void* parameters[] = {&data, &count};
  const Function fill = m.kernel("fill");
  if (wrong) ok(cuMemFreeAsync(data, m.a));
  ok(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, m.a, parameters, nullptr));
  if (!wrong) ok(cuMemFreeAsync(data, m.a));
}

void use_before_allocation(Machine& m, bool wrong) {
  const Pointer data = m.pooled(kBytes, m.a);
  if (!wrong) m.order(m.a, m.b);
  ok(cuMemsetD8Async(data, 1, kBytes, m.b));
  m.order(m.b, m.a);
  ok(cuMemFreeAsync(data, m.a));
}

void freed_pinned_source(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  unsigned char* const source = m.pinned(kBytes);
  ok(cuMemcpyHtoDAsync_v2(data, source, kBytes, m.a));
  if (!wrong) ok(cuStreamSynchronize(m.a));
  ok(cuMemFreeHost(source));
}

void unregistered_in_use(Machine& m, bool wrong) {
  static unsigned char source[kBytes];
  const Pointer data = m.memory(kBytes);
  ok(cuMemHostRegister_v2(source, kBytes, 0));
  ok(cuMemcpyHtoDAsync_v2(data, source, kBytes, m.a));
  if (!wrong) ok(cuCtxSynchronize());
  ok(cuMemHostUnregister(source));
}

void double_free(Machine& m, bool wrong) {
  const Pointer data = m.pooled(kBytes, m.a);
  ok(cuMemFreeAsync(data, m.a));
  if (wrong) CHECK(cuMemFreeAsync(data, m.a) == 1);
}

void double_free_by_the_host(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  ok(cuMemFree_v2(data));
  if (wrong) CHECK(cuMemFree_v2(data) == 1);
}

void free_within(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  CHECK((cuMemFree_v2(wrong ? data + 512 : data) == 1) == wrong);
}

void peer_frees_early(Machine& m, bool wrong) {
  const Pointer here = m.memory(kBytes);
  ok(cuMemsetD8Async(here, 1, kBytes, m.a));
  ok(cuEventRecord(m.e, m.a));
  ok(cuCtxSetCurrent(m.contexts[1]));
  Stream there = nullptr;
  ok(cuStreamCreateWithPriority(&there, 1, 0));
  const Pointer to = m.memory(kBytes);
  ok(cuStreamWaitEvent(there, m.e, 0));
  ok(cuMemcpyPeerAsync(to, m.contexts[1], here, m.contexts[0], kBytes, there));
  if (!wrong) ok(cuStreamSynchronize(there));
  ok(cuCtxSetCurrent(m.contexts[0]));
  ok(cuMemFree_v2(here));  // waits for its own device only
}

void uninitialised(Machine& m, bool wrong) {
  const Pointer one = m.memory(kBytes), two = m.memory(kBytes);
  unsigned char* const to = m.pinned(kBytes);
  ok(cuMemsetD8Async(one, 1, wrong ? kBytes - 1 : kBytes, m.a));
  ok(cuMemcpyDtoDAsync_v2(two, one, kBytes, m.a));  // as it is: only its reader is wrong
  ok(cuMemcpyDtoHAsync_v2(to, two, kBytes, m.a));
}

void out_of_bounds(Machine& m, bool wrong) {
  const Pointer data = m.memory(kBytes);
  CHECK((cuMemsetD8Async(data + 1, 1, wrong ? kBytes : kBytes - 1, m.a) == 1) == wrong);
}

void kernel_out_of_bounds(Machine& m, bool wrong) {
  Pointer data = m.memory(kBytes);
  std::uint64_t count = wrong ? kBytes + 1 : kBytes;
  void* parameters[] = {&data, &count};
  const Function fill = m.kernel("fill");
  ok(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, m.a, parameters, nullptr));
  CHECK((cuStreamSynchronize(m.a) == 700) == wrong);
}

void wrong_peer(Machine& m, bool wrong) {
  const Pointer from = m.memory(kBytes);
  ok(cuMemsetD8Async(from, 1, kBytes, m.a));
  ok(cuCtxSetCurrent(m.contexts[1]));
  const Pointer to = m.memory(kBytes);
  ok(cuCtxSetCurrent(m.contexts[0]));
  const Context of_from = m.contexts[wrong ? 1 : 0];
  CHECK((cuMemcpyPeerAsync(to, m.contexts[1], from, of_from, kBytes, m.a) == 1) == wrong);
}

void no_peer_access(Machine& m, bool wrong) {
  ok(cuCtxSetCurrent(m.contexts[1]));
  const Pointer to = m.memory(kBytes);
  ok(cuCtxSetCurrent(m.contexts[0]));
  if (!wrong) ok(cuCtxEnablePeerAccess(m.contexts[1], 0));
  CHECK((cuMemsetD8Async(to, 1, kBytes, m.a) == 1) == wrong);
}

void pool_without_access(Machine& m, bool wrong) {
  ok(cuCtxEnablePeerAccess(m.contexts[1], 0));  // of no use to memory of a pool
  ok(cuCtxSetCurrent(m.contexts[1]));
  Pool pool = nullptr;
  ok(cuDeviceGetDefaultMemPool(&pool, 1));
  const int access[] = {1, 0, 3};  // a device, the first, reads and writes
  if (!wrong) ok(cuMemPoolSetAccess(pool, access, 1));
  const Pointer to = m.pooled(kBytes, nullptr);
  ok(cuCtxSynchronize());
  ok(cuCtxSetCurrent(m.contexts[0]));
  CHECK((cuMemsetD8Async(to, 1, kBytes, m.a) == 1) == wrong);
}

/// Returns a copy of columns of a matrix of bytes, 64 in a row and 8 rows in each of 4 planes.
Copy3D columns(Pointer to, Pointer from, std::size_t first, std::size_t width) {
  Copy3D copy{};
  const auto side = [&](Pointer data) {
    return Side3D{first, 0, 0, 0, 2, nullptr, data, nullptr, nullptr, 64, 8};
  };
  copy.from = side(from);
  copy.to = side(to);
  copy.width = width;
  copy.height = 8;
  copy.depth = 4;
  return copy;
}

void columns_that_overlap(Machine& m, bool wrong) {
  const Pointer from = m.memory(kBytes), to = m.memory(kBytes);
  ok(cuMemsetD8Async(from, 1, kBytes, m.a));
  m.order(m.a, m.b);
  const Copy3D left = columns(to, from, 0, wrong ? 33 : 32), right = columns(to, from, 32, 32);
  ok(cuMemcpy3DAsync_v2(&left, m.a));
  ok(cuMemcpy3DAsync_v2(&right, m.b));
}

void columns_that_nobody_wrote(Machine& m, bool wrong) {
  const Pointer from = m.memory(kBytes), to = m.memory(kBytes);
  unsigned char* const host = m.pinned(kBytes);
  ok(cuMemsetD8Async(from, 1, kBytes, m.a));
  for (std::size_t first = 0; first < 64; first += 16) {
    const Copy3D copy = columns(to, from, first, wrong && first == 48 ? 15 : 16);
    ok(cuMemcpy3DAsync_v2(&copy, m.a));
  }
  ok(cuMemcpyDtoHAsync_v2(host, to, 4 * 8 * 64, m.a));
}

void columns_beyond_the_end(Machine& m, bool wrong) {
  const Pointer from = m.memory(kBytes), to = m.memory(4 * 8 * 64);
  ok(cuMemsetD8Async(from, 1, kBytes, m.a));
  Copy3D copy = columns(to, from, 0, 64);
  copy.to.y = wrong ? 1 : 0;
  copy.to.height = wrong ? 9 : 8;
  CHECK((cuMemcpy3DAsync_v2(&copy, m.a) == 1) == wrong);
}

void device_as_host(Machine& m, bool wrong) {
  const Pointer to = m.memory(kBytes), from = m.memory(kBytes);
  unsigned char* const pinned = m.pinned(kBytes);
  const void* const source = wrong ? reinterpret_cast<void*>(from) : pinned;
  CHECK((cuMemcpyHtoDAsync_v2(to, source, kBytes, m.a) == 1) == wrong);
}

constexpr char kSet[] = "cuMemsetD8Async", kFree[] = "cuMemFreeAsync",
               kCopy[] = "cuMemcpyHtoDAsync_v2";
constexpr std::array<Program, 20> kPrograms{{
    {"early free", "free while in use", kFree, kSet, early_free},
    {"use after free", "use after free", kFree, kSet, use_after_free},
    {"kernel after free", "use after free", kFree, "cuLaunchKernel", kernel_after_free},
    {"use before allocation", "use before allocation", "cuMemAllocAsync", kSet,
     use_before_allocation},
    {"freed pinned source", "free while in use", "cuMemFreeHost", kCopy, freed_pinned_source},
    {"unregistered in use", "free while in use", "cuMemHostUnregister", kCopy, unregistered_in_use},
    {"double free", "double free", kFree, "has freed", double_free},
    {"double free by the host", "double free", "cuMemFree_v2", "has freed",
     double_free_by_the_host},
    {"free within", "wrong free", "cuMemFree_v2", "it is in allocation", free_within},
    {"peer frees early", "free while in use", "cuMemFree_v2", "cuMemcpyPeerAsync",
     peer_frees_early},
    {"uninitialised", "read of uninitialised memory", "cuMemcpyDtoHAsync_v2", "byte 4095",
     uninitialised},
    {"out of bounds", "out of bounds", kSet, "allocation", out_of_bounds},
    {"kernel out of bounds", "illegal address", "cuLaunchKernel", "beyond the end of allocation",
     kernel_out_of_bounds},
    {"wrong peer", "wrong peer", "cuMemcpyPeerAsync", "of device 1", wrong_peer},
    {"no peer access", "no peer access", kSet, "of device 1", no_peer_access},
    {"pool without access", "no peer access", kSet, "of device 1", pool_without_access},
    {"columns that overlap", "race", "cuMemcpy3DAsync_v2", "without an order",
     columns_that_overlap},
    {"columns that nobody wrote", "read of uninitialised memory", "cuMemcpyDtoHAsync_v2", "byte 63",
     columns_that_nobody_wrote},
    {"columns beyond the end", "out of bounds", "cuMemcpy3DAsync_v2", "go beyond",
     columns_beyond_the_end},
    {"device as host", "wrong direction", kCopy, "device memory", device_as_host},
}};

}  // namespace

std::span<const Program> programs_of_memory() { return kPrograms; }
