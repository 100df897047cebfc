// Where in the caller's program a buffer was made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devrt/base/ref.hpp"

namespace devrt {

/// One call in a program, as a profile shows it.
struct SiteFrame {
  std::string file;
  std::string function;
  std::int64_t start_line = 0;  ///< of the function
  std::int64_t line = 0;
  bool is_internal = false;  ///< of the runtime itself, not of the program that uses it
};

/// A stack of calls. The language's binding derives from it and keeps one for each call site.
class AllocationSite : public RefCounted<AllocationSite> {
 public:
  virtual ~AllocationSite() = default;
  /// Returns the calls, the innermost first. Needs the lock of the language, where it has one.
  virtual const std::vector<SiteFrame>& frames() const = 0;
};

/// Returns the innermost call that is not of the runtime itself, or null.
inline const SiteFrame* user_frame(const AllocationSite* call_site) {
  if (!call_site) return nullptr;
  const std::vector<SiteFrame>& frames = call_site->frames();
  for (const SiteFrame& frame : frames) {
    if (!frame.is_internal) return &frame;
  }
  return frames.empty() ? nullptr : &frames.front();
}

}  // namespace devrt
