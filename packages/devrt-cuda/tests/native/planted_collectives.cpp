// Planted bugs: collectives that have no order with what fills or uses their arrays, or that do
// not fit together.
#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "collective_api.hpp"
#include "planted_bugs.hpp"

namespace {

constexpr std::size_t kBytes = 4096;

/// Two ranks, a device and a stream each, with an array that the stream has filled and one that it
/// has not.
struct Pair {
  explicit Pair(Machine& machine) : m(machine) {
    constexpr int kDevices[] = {0, 1};
    ok(ncclCommInitAll(ranks, 2, kDevices));
    for (int i = 0; i < 2; ++i) {
      ok(cuCtxSetCurrent(m.contexts[i]));
      if (i == 1) ok(cuStreamCreateWithPriority(&streams[1], 1, 0));
      from[i] = m.memory(kBytes);
      to[i] = m.memory(kBytes);
      ok(cuMemsetD8Async(from[i], 1, kBytes, streams[i]));
    }
    ok(cuCtxSetCurrent(m.contexts[0]));
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void reduce(const Stream* on = nullptr, std::size_t other_bytes = kBytes) {
    ok(ncclGroupStart());
    for (int i = 0; i < 2; ++i) {
      ok(ncclAllReduce(from[i], to[i], i == 0 ? kBytes : other_bytes, 1, 0, ranks[i],
                       on ? on[i] : streams[i]));
    }
    result = ncclGroupEnd();
  }
  void end(bool waits = true) {
    for (int i = 0; waits && i < 2; ++i) ok(cuStreamSynchronize(streams[i]));
    for (Comm rank : ranks) ok(ncclCommDestroy(rank));
  }

  Machine& m;
  Comm ranks[2] = {};
  Stream streams[2] = {m.a, nullptr};
  Pointer from[2] = {};
  Pointer to[2] = {};
  Result result = 0;
};

void missing_wait_before(Machine& m, bool wrong) {
  Pair pair(m);
  if (!wrong) m.order(m.a, m.b);
  const Stream on[] = {m.b, pair.streams[1]};
  pair.reduce(on);
  ok(cuStreamSynchronize(m.b));
  pair.end();
}

void used_early(Machine& m, bool wrong) {
  Pair pair(m);
  const Pointer copy = m.memory(kBytes);
  pair.reduce();
  if (!wrong) m.order(m.a, m.b);
  ok(cuMemcpyDtoDAsync_v2(copy, pair.to[0], kBytes, m.b));
  pair.end();
}

void written_while_reduced(Machine& m, bool wrong) {
  Pair pair(m);
  pair.reduce();
  if (!wrong) m.order(m.a, m.b);
  ok(cuMemsetD8Async(pair.from[0], 2, kBytes, m.b));
  pair.end();
}

void argument_freed_early(Machine& m, bool wrong) {
  Pair pair(m);
  const Pointer pooled = m.pooled(kBytes, m.a);
  ok(cuMemsetD8Async(pooled, 1, kBytes, m.a));
  pair.from[0] = pooled;
  pair.reduce();
  if (!wrong) m.order(m.a, m.b);
  ok(cuMemFreeAsync(pooled, m.b));
  pair.end();
}

void end_of_the_other_rank(Machine& m, bool wrong) {
  // What one rank has ended says nothing of the other's memory.
  Pair pair(m);
  pair.reduce();
  ok(cuStreamSynchronize(pair.streams[wrong ? 1 : 0]));
  ok(cuMemsetD8Async(pair.to[0], 3, kBytes, m.b));
  pair.end();
}

void array_of_another_device(Machine& m, bool wrong) {
  Pair pair(m);
  ok(cuCtxEnablePeerAccess(m.contexts[1], 0));
  if (wrong) std::swap(pair.from[0], pair.from[1]);
  pair.reduce();
  CHECK((pair.result != 0) == wrong);
  pair.end();
}

void stream_of_another_device(Machine& m, bool wrong) {
  Pair pair(m);
  const Stream swapped[] = {pair.streams[1], pair.streams[0]};
  pair.reduce(wrong ? swapped : nullptr);
  CHECK((pair.result != 0) == wrong);
  pair.end();
}

void wrong_peer(Machine& m, bool wrong) {
  Pair pair(m);
  ok(ncclGroupStart());
  ok(ncclSend(pair.from[0], kBytes, 1, wrong ? 0 : 1, pair.ranks[0], pair.streams[0]));
  ok(ncclRecv(pair.to[1], kBytes, 1, 0, pair.ranks[1], pair.streams[1]));
  CHECK((ncclGroupEnd() != 0) == wrong);
  pair.end();
}

void sizes_that_differ(Machine& m, bool wrong) {
  Pair pair(m);
  pair.reduce(nullptr, wrong ? kBytes / 2 : kBytes);
  CHECK((pair.result != 0) == wrong);
  pair.end();
}

void a_rank_that_is_missing(Machine& m, bool wrong) {
  Pair pair(m);
  ok(ncclGroupStart());
  for (int i = 0; i < (wrong ? 1 : 2); ++i) {
    ok(ncclBroadcast(pair.from[i], pair.to[i], kBytes, 1, 0, pair.ranks[i], pair.streams[i]));
  }
  CHECK((ncclGroupEnd() != 0) == wrong);
  pair.end();
}

void beyond_the_end(Machine& m, bool wrong) {
  Pair pair(m);
  ok(ncclGroupStart());
  for (int i = 0; i < 2; ++i) {
    const std::size_t count = wrong ? kBytes : kBytes / 2;  // of each rank
    ok(ncclAllGather(pair.from[i], pair.to[i], count, 1, pair.ranks[i], pair.streams[i]));
  }
  CHECK((ncclGroupEnd() != 0) == wrong);
  pair.end();
}

void unfilled_argument(Machine& m, bool wrong) {
  Pair pair(m);
  if (wrong) pair.from[0] = m.memory(kBytes);
  pair.reduce();
  pair.end();
}

void destroyed_communicator(Machine& m, bool wrong) {
  Pair pair(m);
  if (wrong) pair.end();
  ok(ncclGroupStart());
  for (int i = 0; i < 2; ++i) {
    (void)ncclAllReduce(0, 0, 0, 1, 0, pair.ranks[i], pair.streams[i]);
  }
  CHECK((ncclGroupEnd() != 0) == wrong);
  if (!wrong) pair.end();
}

constexpr char kReduce[] = "ncclAllReduce", kSet[] = "cuMemsetD8Async";
constexpr std::array<Program, 13> kPrograms{{
    {"missing wait before", "race", kSet, kReduce, missing_wait_before},
    {"used early", "race", kReduce, "cuMemcpyDtoDAsync_v2", used_early},
    {"written while reduced", "race", kReduce, kSet, written_while_reduced},
    {"argument freed early", "free while in use", kReduce, "cuMemFreeAsync", argument_freed_early},
    {"end of the other rank", "race", kReduce, kSet, end_of_the_other_rank},
    {"array of another device", "wrong peer", kReduce, "of device 1", array_of_another_device},
    {"stream of another device", "wrong context", kReduce, "of device 1", stream_of_another_device},
    {"wrong peer", "collective that hangs", "ncclSend", "without its receive", wrong_peer},
    {"sizes that differ", "collective that hangs", kReduce, "differs", sizes_that_differ},
    {"a rank that is missing", "collective that hangs", "ncclBroadcast", "of some rank",
     a_rank_that_is_missing},
    {"beyond the end", "out of bounds", "ncclAllGather", "beyond", beyond_the_end},
    {"unfilled argument", "read of uninitialised memory", kReduce, "nothing wrote",
     unfilled_argument},
    {"destroyed communicator", "use of a destroyed handle", kReduce, "communicator",
     destroyed_communicator},
}};

}  // namespace

std::span<const Program> programs_of_collectives() { return kPrograms; }

TEST_CASE(a_communicator_that_goes_while_its_ranks_wait_is_found_and_an_abort_ends_them) {
  for (const bool aborts : {false, true}) {
    Machine machine("devices=2");
    Pair pair(machine);
    // Rank 1 waits for rank 0, whose stream waits for the host.
    const auto wait = [](void* open) {
      auto* const gate = static_cast<std::atomic<bool>*>(open);
      gate->wait(false);
    };
    std::atomic<bool> is_open = false;
    ok(cuLaunchHostFunc(machine.a, wait, &is_open));
    pair.reduce();
    for (Comm rank : pair.ranks) ok(aborts ? ncclCommAbort(rank) : ncclCommDestroy(rank));
    ok(cuStreamSynchronize(pair.streams[1]));  // although rank 0 has not come
    is_open = true;
    is_open.notify_all();
    ok(cuStreamSynchronize(machine.a));
    const std::string reports = devrt_simulator_reports(1);
    CHECK((reports.find("communicator destroyed while in use") == std::string::npos) == aborts);
    machine.end();
  }
}
