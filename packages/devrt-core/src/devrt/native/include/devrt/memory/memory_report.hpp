// What lives in memory, grouped: the substance of heap profiles and of out-of-memory errors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "devrt/base/element_type.hpp"
#include "devrt/base/ref.hpp"
#include "devrt/buffers/storage.hpp"
#include "devrt/memory/allocation_site.hpp"
#include "devrt/memory/memory_stats.hpp"

namespace devrt {

/// Live buffers of one shape and type on one memory that were made at one call site.
struct LiveGroup {
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< of their storages; one that was counted for an older buffer adds 0
  ElementType type = ElementType::kInvalid;
  std::vector<std::int64_t> shape;
  std::string device;
  std::string kind;
  bool is_lent = false;  ///< the bytes are another library's, shown without a copy
  std::string program;   ///< whose temporaries these are, if they are no buffers
  Ref<AllocationSite> call_site;
};

/// What a call of a program takes, in bytes, over all its devices.
struct ProgramNeeds {
  std::string name;
  std::size_t devices = 0;
  std::int64_t arguments = 0;
  std::int64_t outputs = 0;
  std::int64_t temporaries = 0;
};

/// What an out-of-memory error tells.
struct MemoryReport {
  std::int64_t requested = 0;
  std::int64_t limit = 0;
  std::string device;
  std::string kind;
  bool is_of_limit = false;  ///< the client's limit was met; else the device has no more
  MemorySnapshot stats;
  std::int64_t live_buffers = 0;
  std::int64_t live_bytes = 0;
  std::vector<LiveGroup> largest;
  std::optional<ProgramNeeds> program;  ///< the one that was called, if any was
};

/// Groups buffers, given oldest first; the group with the most bytes comes first.
template <class BufferRef>
std::vector<LiveGroup> group_live(std::span<const BufferRef> buffers) {
  using Key = std::tuple<const void*, const void*, ElementType, bool, std::vector<std::int64_t>>;
  std::map<Key, LiveGroup> groups;
  std::unordered_set<const Storage*> counted;
  for (const BufferRef& buffer : buffers) {
    const Ref<Storage> storage = buffer->storage();
    if (!storage) continue;  // deleted since
    const std::span<const std::int64_t> extents = buffer->shape().span();
    std::vector<std::int64_t> shape(extents.begin(), extents.end());
    const auto& memory = *buffer->memory();
    LiveGroup& group = groups[Key(buffer->call_site(), &memory, buffer->type(), storage->is_lent(),
                                  std::move(shape))];
    if (group.count++ == 0) {
      group.type = buffer->type();
      group.shape.assign(extents.begin(), extents.end());
      group.device = memory.device().name();
      group.kind = memory.kind();
      group.is_lent = storage->is_lent();
      group.call_site = Ref<AllocationSite>::share_of(buffer->call_site());
    }
    if (counted.insert(storage.get()).second) {
      group.bytes += static_cast<std::int64_t>(storage->bytes());
    }
  }
  std::vector<LiveGroup> sorted;
  sorted.reserve(groups.size());
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LiveGroup& a, const LiveGroup& b) { return a.bytes > b.bytes; });
  return sorted;
}

/// Returns a shape and type as people write them: ``float32[2,3]``; or whose temporaries it is.
inline std::string describe(const LiveGroup& group) {
  if (!group.program.empty()) return "temporaries of program '" + group.program + "'";
  std::string text(info(group.type).name);
  text += '[';
  for (std::size_t i = 0; i < group.shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(group.shape[i]);
  }
  text += ']';
  return text;
}

}  // namespace devrt
