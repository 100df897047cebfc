#include "gpu_simulator/collective_calls.hpp"

#include <utility>

namespace devrt::gpu_simulator {
namespace {

constexpr int kVersion = 22703;

struct ThreadGroup {
  int depth = 0;
  CollectiveResult failed = 0;  ///< how a call in it failed: then none of it begins
  CollectiveParts parts;
  std::vector<RankJoin> joins;
};

ThreadGroup& thread_group() {
  thread_local ThreadGroup group;
  return group;
}

CollectiveResult to_result(Code code) {
  switch (code) {
    case Code::kSuccess:
      return 0;
    case Code::kInvalidValue:
    case Code::kInvalidHandle:
    case Code::kInvalidDevice:
      return 4;
    default:
      return 1;  // an error of the driver's
  }
}

}  // namespace

CollectiveResult collective_version(int* version) {
  *version = kVersion;
  return 0;
}

const char* collective_error_text(CollectiveResult result) {
  switch (result) {
    case 0:
      return "no error";
    case 1:
      return "unhandled error of the driver";
    case 4:
      return "invalid argument";
    case 5:
      return "invalid usage";
    case 6:
      return "remote process exited or there was a network error";
    default:
      return "unknown error";
  }
}

CollectiveResult connect_ranks(const char* function, Handle* ranks, int count, const int* devices) {
  return to_result(enter(function, [&](Machine& machine, const Call&) {
    std::vector<int> all;
    for (int i = 0; i < count; ++i) all.push_back(devices ? devices[i] : i);
    for (const Handle rank : machine.make_clique(std::move(all))) *ranks++ = rank;
  }));
}

CollectiveResult make_group_id(const char* function, GroupId* id) {
  return to_result(enter(function, [&](Machine&, const Call&) { *id = new_group_id(); }));
}

CollectiveResult join_group(const char* function, Handle* rank, int count, const GroupId& id,
                            int number) {
  ThreadGroup& group = thread_group();
  const CollectiveResult result = to_result(enter(function, [&](Machine& machine, const Call&) {
    if (count < 1 || number < 0) throw Failure{Code::kInvalidValue};
    const RankJoin join{id, static_cast<std::size_t>(count), static_cast<std::size_t>(number),
                        chosen_device(machine), rank};
    if (group.depth > 0) return group.joins.push_back(join);
    machine.join_groups({join});
  }));
  if (group.depth > 0 && result != 0) group.failed = result;
  return result;
}

CollectiveResult end_rank(const char* function, Handle rank, bool aborts) {
  return to_result(enter(
      function, [&](Machine& machine, const Call& call) { machine.end_rank(call, rank, aborts); }));
}

CollectiveResult rank_error(const char* function, Handle rank, CollectiveResult* error) {
  *error = 0;
  return to_result(enter(function, [&](Machine& machine, const Call& call) {
    *error = machine.rank_error(call, rank);
  }));
}

CollectiveResult begin_group(const char* function) {
  return to_result(enter(function, [](Machine&, const Call&) { ++thread_group().depth; }));
}

CollectiveResult end_group(const char* function) {
  ThreadGroup& group = thread_group();
  CollectiveParts parts;
  std::vector<RankJoin> joins;
  if (group.depth > 0 && --group.depth == 0) {
    parts = std::exchange(group.parts, {});
    joins = std::exchange(group.joins, {});
  }
  if (const CollectiveResult failed = std::exchange(group.failed, 0)) return failed;
  return to_result(enter(function, [&](Machine& machine, const Call&) {
    machine.join_groups(joins);
    machine.start_collectives(parts);
  }));
}

CollectiveResult take_part(const char* function, CollectivePart part) {
  ThreadGroup& group = thread_group();
  const CollectiveResult result =
      to_result(enter(function, [&](Machine& machine, const Call& call) {
        part.call = call;
        if (group.depth > 0) return group.parts.push_back(part);
        machine.start_collectives({part});
      }));
  if (group.depth > 0 && result != 0) group.failed = result;
  return result;
}

}  // namespace devrt::gpu_simulator
