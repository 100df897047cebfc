// What work depends on beyond its own device: that may fail while the device goes on.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "devrt/base/status.hpp"
#include "devrt/base/unique_function.hpp"

namespace devrt {

/// Work that other work uses the result of, and whose failure does not stop that. Thread-safe.
class Dependency {
 public:
  Dependency() = default;
  Dependency(const Dependency&) = delete;
  Dependency& operator=(const Dependency&) = delete;
  virtual ~Dependency() = default;

  /// Returns whether it may still fail.
  virtual bool is_open() const noexcept = 0;
  /// Returns its error; OK if there is none, or none yet.
  virtual Status status() const = 0;
  /// Returns whether it ends well only if another does.
  virtual bool covers(const Dependency& /*other*/) const noexcept { return false; }

  /// Returns whether work that uses the result must wait for this too: its own end may come before
  /// the error does. Most errors are known by then.
  virtual bool is_awaited() const noexcept { return false; }
  /// Waits for at most `timeout` until that is over; returns whether it is.
  virtual bool wait_for(std::chrono::nanoseconds /*timeout*/) const { return true; }
  /// Has `over` called once when that is over, in this thread or another.
  virtual void on_over(UniqueFunction<void()> over) const { over(); }
};

using Dependencies = std::vector<std::shared_ptr<const Dependency>>;

/// Returns the first error among them.
inline Status first_error_of(const Dependencies& dependencies) {
  for (const auto& each : dependencies) {
    if (Status status = each->status(); !status.ok()) return status;
  }
  return {};
}

/// Adds one, unless it has ended well or another covers it.
inline void add_dependency(const std::shared_ptr<const Dependency>& added, Dependencies& to) {
  if (!added->is_open() && added->status().ok()) return;
  const auto has_it = [&](const auto& each) { return each == added || each->covers(*added); };
  if (std::ranges::any_of(to, has_it)) return;
  std::erase_if(to, [&](const auto& each) { return added->covers(*each); });
  to.push_back(added);
}

inline void add_dependencies(const Dependencies& added, Dependencies& to) {
  for (const auto& each : added) add_dependency(each, to);
}

}  // namespace devrt
