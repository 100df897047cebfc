// A vendor's library for collectives: the functions that this client calls, by neutral names. The
// vendors' libraries declare them alike and differ in the names' prefix at most.
#pragma once

#include <cstddef>
#include <string>

#include "client/collectives.hpp"
#include "gpu/driver.hpp"

namespace devrt::gpu {

struct RankHandle;

/// What tells a group that spans processes from all others; its bytes mean something to the
/// library.
struct GroupId {
  char bytes[128];
};

struct CollectiveFunctions {
  Result (*version)(int* version);
  const char* (*error_text)(Result result);
  Result (*connect_all)(RankHandle** ranks, int count, const int* devices);
  Result (*make_id)(GroupId* id);
  Result (*connect_rank)(RankHandle** rank, int count, GroupId id, int number);
  Result (*destroy)(RankHandle* rank);
  Result (*abort)(RankHandle* rank);
  Result (*async_error)(RankHandle* rank, Result* error);
  Result (*group_start)();
  Result (*group_end)();
  Result (*all_reduce)(const void* from, void* to, std::size_t count, int type, int reduction,
                       RankHandle* rank, StreamHandle* stream);
  Result (*reduce_scatter)(const void* from, void* to, std::size_t count, int type, int reduction,
                           RankHandle* rank, StreamHandle* stream);
  Result (*all_gather)(const void* from, void* to, std::size_t count, int type, RankHandle* rank,
                       StreamHandle* stream);
  Result (*broadcast)(const void* from, void* to, std::size_t count, int type, int root,
                      RankHandle* rank, StreamHandle* stream);
  Result (*send)(const void* from, std::size_t count, int type, int peer, RankHandle* rank,
                 StreamHandle* stream);
  Result (*receive)(void* to, std::size_t count, int type, int peer, RankHandle* rank,
                    StreamHandle* stream);
};

/// One library, loaded for the rest of the process.
class CollectiveLibrary {
 public:
  /// Throws UNAVAILABLE where it does not open, FAILED_PRECONDITION where it is too old or lacks a
  /// function.
  explicit CollectiveLibrary(const native::CollectiveSource& source);

  CollectiveFunctions call{};

  std::string version_text() const;
  std::string new_id() const;
  /// Returns the error of a call; OK for success.
  Status status(Result result, const char* operation) const;
  void check(Result result, const char* operation) const {
    if (result != kSuccess) [[unlikely]]
      raise_if_error(status(result, operation));
  }

 private:
  template <class Function>
  void get(Function*& slot, const char* name);
  void check_complete();

  const native::CollectiveSource source_;
  void* handle_ = nullptr;
  int version_ = 0;
  std::string missing_;
};

/// Returns the library at a path, loaded once for the process.
const CollectiveLibrary& collective_library(const native::CollectiveSource& source);

}  // namespace devrt::gpu
