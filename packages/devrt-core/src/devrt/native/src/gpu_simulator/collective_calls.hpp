// What the functions of a simulated library for collectives are made of: calls between the start
// and the end of a group begin together. `collective_exports.inc` exports them by a vendor's names.
#pragma once

#include "gpu_simulator/collectives.hpp"
#include "gpu_simulator/entry.hpp"

namespace devrt::gpu_simulator {

/// How the library numbers its results.
using CollectiveResult = int;

CollectiveResult collective_version(int* version);
const char* collective_error_text(CollectiveResult result);
CollectiveResult connect_ranks(const char* function, Handle* ranks, int count, const int* devices);
CollectiveResult make_group_id(const char* function, GroupId* id);
/// Joins a group by its id, at the end of the thread's group of calls where there is one.
CollectiveResult join_group(const char* function, Handle* rank, int count, const GroupId& id,
                            int number);
CollectiveResult end_rank(const char* function, Handle rank, bool aborts);
CollectiveResult rank_error(const char* function, Handle rank, CollectiveResult* error);
CollectiveResult begin_group(const char* function);
CollectiveResult end_group(const char* function);
/// Adds a part to the thread's group, or starts it at once where there is none.
CollectiveResult take_part(const char* function, CollectivePart part);

}  // namespace devrt::gpu_simulator
