// Collectives as the client sees them: groups of devices, and what their ranks do together.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/client.hpp"

namespace devrt::native {

enum class CollectiveKind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kPermute,
};
inline constexpr std::size_t kCollectiveKinds = 6;
/// Returns what users call it.
const char* collective_name(CollectiveKind kind) noexcept;

enum class Reduction { kSum, kProduct, kMax, kMin, kAverage };

/// What all ranks of a group do; each has an argument of one size.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ElementType type = ElementType::kUint8;  ///< of the elements, where they are reduced
  Reduction reduction = Reduction::kSum;
  std::size_t count = 0;  ///< of the argument's elements; of its bytes, where nothing is reduced
  std::size_t root = 0;   ///< of a broadcast
  std::vector<std::pair<std::size_t, std::size_t>> pairs = {};  ///< of a permutation: from, to
};

/// The memory of one rank, and what fills it before.
struct RankMemory {
  const std::byte* from = nullptr;  ///< null where a rank gives nothing
  std::byte* to = nullptr;
  std::span<const ReadyEvent> after = {};
};

/// The vendor's library for collectives.
struct CollectiveSource {
  std::string library;  ///< its path
  std::string prefix;   ///< of the names of its functions
};

/// A group that spans processes, as one of them sees it.
struct GroupSpan {
  std::string id;                  ///< `DeviceBackend::new_group_id`'s, the same in every process
  std::size_t size = 0;            ///< of the whole group
  std::vector<std::size_t> ranks;  ///< of this process's devices
};

/// The devices of a group, which a library connects at the first collective, or in a group that
/// spans processes when it is made. Thread-safe.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  /// Returns the library's version, for people to read.
  virtual std::string version() const = 0;
  /// Returns whether some ranks are of other processes, which count on the order of calls.
  virtual bool spans_processes() const = 0;
  /// Starts a collective on all ranks of this process, and returns the event of each one's end: all
  /// fail where one does. Nothing where a device cannot wait for one of the events itself. Throws
  /// where none is under way.
  virtual std::optional<std::vector<ReadyEvent>> start(const Collective& collective,
                                                       std::span<const RankMemory> ranks) = 0;

  /// Returns since when the oldest collective is under way; nothing where none is.
  virtual std::optional<std::chrono::steady_clock::time_point> busy_since() const = 0;
  /// Has all that is under way fail, and in a group that spans processes all that comes.
  virtual void break_off(const Status& why) = 0;
};

/// What one call gives all ranks.
struct CollectiveArguments {
  std::span<const Buffer* const> buffers;  ///< of each rank; null where it gives nothing
  Dims result;                             ///< the shape of each rank's result
  bool is_donated = false;  ///< whether the arguments are given up, and their memory may be used
  std::int64_t stream = 0;
};

/// Returns the group of some devices of a client; throws INVALID_ARGUMENT for those of others, or
/// twice the same.
std::shared_ptr<Communicator> connect(Client& client, std::span<const Device* const> devices,
                                      const CollectiveSource& source);

/// As `connect`, with devices of other processes, of which each calls this.
std::shared_ptr<Communicator> connect_across(Client& client, std::span<const Device* const> devices,
                                             const CollectiveSource& source, const GroupSpan& span);

/// Starts a collective behind what fills the arguments; returns each rank's result.
std::vector<Ref<Buffer>> start_collective(std::span<const std::shared_ptr<Device>> devices,
                                          const std::shared_ptr<Communicator>& communicator,
                                          Collective collective, CollectiveArguments arguments);

}  // namespace devrt::native
