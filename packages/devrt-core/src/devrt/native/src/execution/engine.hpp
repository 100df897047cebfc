// The compiler behind a client: XLA as a PJRT plugin that shares the client's memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.hpp"
#include "devrt/base/live_registry.hpp"
#include "devrt/pjrt/engine/executable.hpp"
#include "execution/stream_order.hpp"

namespace devrt::native {

class Executable;

/// What passed between a client and its engine.
struct EngineCounters {
  std::atomic<std::int64_t> executions{0};    ///< calls, one for each device
  std::atomic<std::int64_t> views{0};         ///< buffers shown to the engine as they are
  std::atomic<std::int64_t> copies{0};        ///< buffers copied, since the engine needs them so
  std::atomic<std::int64_t> bytes_copied{0};  ///< bytes of those copies
};

/// Opens and initialises the library of an engine, once. Throws what `pjrt::Api::load` throws, and
/// INVALID_ARGUMENT for a plugin that is too old, or for devices of another platform.
std::shared_ptr<const pjrt::Api> load_engine(const std::string& library);

/// What an argument was made by failed: no fault of the call that takes it, also where memory was
/// lacking.
class FailedArgument final : public StatusError {
 public:
  using StatusError::StatusError;
};

/// A client's engine, made at its first compilation.
class Engine {
 public:
  /// Loads the plugin. With a store, the plugin's client is one of the job's and knows the devices
  /// of all its processes, for which it waits. Throws what `load_engine` and the plugin throw.
  Engine(const std::string& library, const Client& client,
         std::shared_ptr<pjrt::KeyValueStore> store);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  pjrt::Client& client() const noexcept { return *client_; }
  LiveRegistry<Executable>& executables() noexcept { return executables_; }
  EngineCounters& counters() noexcept { return counters_; }
  /// Returns whether shards that do not talk to each other may be called one after the other, which
  /// takes a fifth of the time: other engines begin a program once all its shards are there.
  bool takes_shards_apart() const noexcept {
    return client_->api().minor_version() <= platform().engine.last_minor_apart;
  }
  /// Returns which device of the client one of the engine's is.
  std::size_t local_of(std::size_t device) const noexcept { return local_of_[device]; }
  /// Returns the number that the engine has for each of this process's devices, in the client's
  /// order: assignments have those. `kLost` for a device that was lost before the engine was made.
  std::vector<std::int64_t> numbers() const;
  static constexpr std::int64_t kLost = -1;
  StreamOrder& streams() noexcept { return streams_; }

  /// Waits for what is in flight and unloads every executable; takes no more from then on.
  void close();

  /// Returns the engine's handle on a buffer: the one that it keeps, or a new one.
  ///
  /// Waits for a buffer that a transfer still fills, unless the engine does. Throws deleted, or the
  /// error of its work.
  Ref<pjrt::Buffer> view(Buffer& buffer);

  /// Gives the memory of a deleted buffer to the engine, for an output to take. Returns null unless
  /// it is devrt's own or the engine takes over views, `storage` is its only share, and the engine
  /// can use it as it is.
  Ref<pjrt::Buffer> give(const Buffer& buffer, const Ref<Storage>& storage);
  /// Gives a copy of a deleted buffer's memory, which somebody else still sees.
  Ref<pjrt::Buffer> give_copy(const Buffer& buffer, const Ref<Storage>& storage);
  /// Shows the memory of a deleted buffer to the engine.
  Ref<pjrt::Buffer> make_view(const Buffer& buffer, Ref<Storage> storage);
  /// Returns what may fail once a program has begun, though the engine takes its arguments for
  /// made.
  Dependencies dependencies_of(std::span<Buffer* const> arguments) const;

 private:
  PJRT_Device* device_of(const Buffer& buffer) const;
  Ref<pjrt::Buffer> give_always(const Buffer& buffer, const Ref<Storage>& storage);
  /// Waits for a buffer's data, or has the engine do it; then returns the stream that will. Throws
  /// `FailedArgument` if there is none.
  std::intptr_t await(const Buffer& buffer) const;

  static constexpr std::size_t kNone = SIZE_MAX;

  Ref<pjrt::Client> client_;
  std::vector<std::size_t> engine_of_;  // by device of the client; kNone for one it has not
  std::vector<std::size_t> local_of_;   // by device of the engine
  LiveRegistry<Executable> executables_;
  EngineCounters counters_;
  StreamOrder streams_;
};

}  // namespace devrt::native
