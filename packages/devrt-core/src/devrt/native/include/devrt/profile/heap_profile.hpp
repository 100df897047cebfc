// The heap profile of a client: its live buffers as a pprof profile.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devrt/memory/memory_report.hpp"
#include "devrt/profile/pprof.hpp"

namespace devrt {

/// Returns the profile of the groups, not compressed: values `objects` and `space`, labels for
/// device, memory kind, array, and whose the bytes are. Needs what `AllocationSite::frames` needs.
inline std::string heap_profile(std::span<const LiveGroup> groups, std::int64_t time_nanos) {
  static const std::vector<SiteFrame> unknown = {{"", "<not recorded>", 0, 0}};
  PprofProfile profile;
  profile.add_sample_type("objects", "count");
  profile.add_sample_type("space", "bytes");
  for (const LiveGroup& group : groups) {
    const SiteFrame* frame = user_frame(group.call_site.get());
    std::array<std::pair<std::string_view, std::string>, 5> labels = {{
        {"device", group.device},
        {"memory_kind", group.kind},
        {"array", describe(group)},
        {"owner", group.is_lent ? "lender" : "client"},
        {"call_site", frame ? frame->file + ":" + std::to_string(frame->line) : std::string()},
    }};
    const std::array<std::int64_t, 2> values = {group.count, group.bytes};
    profile.add_sample(group.call_site ? group.call_site->frames() : unknown, values,
                       std::span(labels).first(frame ? 5 : 4));
  }
  return profile.finish(time_nanos, "space");
}

}  // namespace devrt
