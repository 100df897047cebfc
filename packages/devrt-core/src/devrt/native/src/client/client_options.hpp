// What a native client is made with.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "devrt/memory/allocator.hpp"
#include "devrt/pjrt/engine/client.hpp"

namespace devrt::native {

class DeviceBackend;

/// A memory kind that a plugin adds, with the allocator that it brings.
struct AddedKind {
  std::string kind;
  std::shared_ptr<HostAllocator> allocator;
};

/// For which buffers to note where the program made them.
enum class Traceback { kOff, kSampled, kAll };

/// Returns 1 GiB, or a sixteenth of the physical memory where that is less.
std::int64_t default_recycled_bytes() noexcept;

/// Returns huge pages in an arena, which maps none before the first allocation.
std::shared_ptr<HostAllocator> huge_page_arena();

/// What a client is made with.
struct ClientOptions {
  bool asynchronous = true;
  /// How many devices of this process are requested.
  int num_devices = 1;
  int node_id = 0;
  int num_nodes = 1;
  std::vector<AddedKind> added_kinds;
  /// How many bytes of freed blocks to keep for reuse.
  std::int64_t recycled_bytes = default_recycled_bytes();
  /// How many bytes the buffers may take together, over all memories; 0 for all there are.
  std::optional<std::int64_t> memory_limit;
  Traceback traceback = Traceback::kSampled;
  /// Calls a function that waits, without the locks of the language binding; null if it has none.
  void (*wait_unlocked)(const std::function<void()>& wait) = nullptr;
  /// Throws what the language binding's handlers of signals raise; null if it has none.
  void (*check_signals)() = nullptr;
  /// For how long a call waits for a device on which no execution ends.
  std::chrono::milliseconds execution_timeout = std::chrono::minutes(10);
  /// What the caller gave for the backend alone.
  std::vector<pjrt::Option> backend_options;
  /// The devices; null for those that `make_backend` makes.
  std::shared_ptr<DeviceBackend> backend;

  /// Returns one of the backend's options, if it was given as a `Value`.
  template <class Value>
  std::optional<Value> backend_option(std::string_view name) const {
    for (const pjrt::Option& option : backend_options) {
      const Value* value = option.name == name ? std::get_if<Value>(&option.value) : nullptr;
      if (value) return *value;
    }
    return std::nullopt;
  }
};

}  // namespace devrt::native
