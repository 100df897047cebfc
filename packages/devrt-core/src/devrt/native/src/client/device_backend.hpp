// What the native client asks of the devices that it serves: one class, and two functions, for each
// backend. A backend whose memory the host reads and writes overrides `devices` only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/region_copy.hpp"
#include "devrt/async/ready_event.hpp"
#include "devrt/base/status.hpp"
#include "devrt/buffers/dlpack.hpp"
#include "devrt/memory/allocator.hpp"
#include "devrt/memory/memory_stats.hpp"
#include "devrt/memory/recycling_allocator.hpp"
#include "devrt/pjrt/engine/client.hpp"
#include "devrt/pjrt/engine/ffi.hpp"

namespace devrt::native {

struct ClientOptions;
struct CollectiveSource;
struct GroupSpan;
class Communicator;
class KernelModule;

/// One kind of memory of a device.
struct MemoryKind {
  std::string kind;
  /// The address space, from 0 on: buffers on memories of one space may share storage.
  int space = 0;
  /// Where its addresses come from. Devices whose memories have one allocator share what it holds.
  std::shared_ptr<HostAllocator> allocator;
  /// Whether the host reads and writes at the addresses. Copies between such memories are the
  /// client's own; all others, and no others, are made by `DeviceBackend::copy`.
  bool is_host_visible = true;
  /// Freed blocks from this size on are kept for reuse, if they are visible to the host.
  std::size_t smallest_recycled = RecyclingAllocator::kNever;
  /// How others see its buffers by DLPack.
  dlpack::Device dlpack{dlpack::kCpu, 0};
  /// Whether kernels of its device use the addresses too, though the host does.
  bool is_for_kernels = false;
  /// What its buffers and the programs of its device may use together, and which option says so;
  /// null where only the client has a limit.
  std::shared_ptr<ByteBudget> budget = nullptr;
  std::string limited_by = {};
};

/// What a device says of itself.
struct DeviceFacts {
  using Attribute = std::variant<std::int64_t, bool, float, std::string, std::vector<std::int64_t>>;

  int local_hardware_id = 0;
  std::string kind;
  std::vector<MemoryKind> memories;  ///< the default one first
  std::vector<std::pair<std::string, Attribute>> attributes;
};

/// How many bytes a memory has in all, and about how many nothing uses now, in one block where
/// that is known.
struct MemoryCapacity {
  std::int64_t total = 0;
  std::int64_t available = 0;
  std::int64_t held = 0;  ///< in use or not; 0 where that is what buffers use
};

/// Which way the copies of a queue go: most devices copy both ways at once.
/// `kExternal` has no work of the client's: others have it wait for what they filled. Of
/// `kCollective`, only stream 0 is used: devices must come to their collectives in one order.
enum class Lane { kToDevice, kFromDevice, kWithin, kExternal, kCollective };
inline constexpr std::size_t kLanes = 5;

/// An order of work: what is given to one queue is done in that order.
struct Queue {
  std::size_t device = 0;  ///< of this process, by number
  Lane lane = Lane::kWithin;
  std::int64_t stream = 0;
};

/// A stream of another library, on one device. Thread-safe.
class OtherStream {
 public:
  OtherStream() = default;
  OtherStream(const OtherStream&) = delete;
  OtherStream& operator=(const OtherStream&) = delete;
  virtual ~OtherStream() = default;

  /// Has what is given to it from now on begin after an event. Returns false where it cannot: then
  /// the caller waits.
  virtual bool wait(const ReadyEvent& event) = 0;
  /// Returns the event of what was given to it until now.
  virtual ReadyEvent record() = 0;
  /// The same for a stream whose owner may have destroyed it since: ready if that cannot be known.
  virtual ReadyEvent record_if_there() noexcept = 0;
};

/// Addresses of a device that belong together.
struct AddressRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};

/// Which protocol has the number of a stream: they differ in what the default stream is called.
enum class StreamProtocol { kDlpack, kArrayInterface };

/// The devices of this process. Made for each client, which shares it with what it allocates from
/// it: every allocator of a backend must stay usable as long as somebody has a share of it.
/// Thread-safe. Destroyed with work in flight, it waits for it.
class DeviceBackend {
 public:
  DeviceBackend() = default;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;
  virtual ~DeviceBackend() = default;

  /// Returns the devices, at least one, in the order of their ids. Called once.
  virtual std::vector<DeviceFacts> devices() = 0;

  /// Says which id the client has given to the first of the devices, which have ids in a row: by
  /// them errors name devices. Called once, before any work.
  virtual void set_first_id(int /*id*/) {}

  /// Returns whether devices say which partition of all nodes' devices they are in.
  virtual bool has_partitions() const noexcept { return false; }
  /// Returns the alignment of every allocation, a power of two.
  virtual std::size_t alignment() const noexcept { return kAlignment; }
  /// Returns where the client gets host memory from that goes to a device, or comes from it.
  virtual std::shared_ptr<HostAllocator> staging() { return std::make_shared<AlignedAllocator>(); }

  /// Starts copies and returns the event of their end. The client keeps both sides alive until
  /// that event; of most copies the host can reach one side at most. Throws if none was started.
  virtual ReadyEvent copy(const Queue& queue, std::span<const RegionCopy> copies);
  /// Returns up to how many bytes `copy` has read from a host address when it returns: for so few
  /// the client makes no copy of what its caller may change.
  virtual std::size_t read_at_once() const noexcept { return 0; }
  /// Has what is given to a queue from now on begin after an event. Returns false where the device
  /// cannot, or would go on after a failure: then the client waits, in a thread of its own.
  virtual bool wait(const Queue&, const ReadyEvent&) { return false; }
  /// Returns whether what is given to a queue from now on begins after an event as it is, and fails
  /// where that does. Asks no device.
  virtual bool is_behind(const Queue&, const ReadyEvent&) const { return false; }
  /// Loads an image of kernels. Throws UNIMPLEMENTED where the devices run none.
  virtual std::shared_ptr<KernelModule> load_kernels(std::size_t device, const std::string& image);
  /// Returns the group of these devices, by rank; the same for the same devices. Throws
  /// UNIMPLEMENTED where devices have no collectives, UNAVAILABLE where the library does not open.
  virtual std::shared_ptr<Communicator> connect(std::span<const std::size_t> devices,
                                                const CollectiveSource& source);
  /// Connects these devices with those of other processes, and waits for these; throws as `connect`
  /// does.
  virtual std::shared_ptr<Communicator> connect_across(std::span<const std::size_t> devices,
                                                       const CollectiveSource& source,
                                                       const GroupSpan& span);
  /// Returns the id of a new group, for one of its processes to hand to the others.
  virtual std::string new_group_id(const CollectiveSource& source);
  /// Returns whether nothing that was given to any queue is under way.
  virtual bool is_idle() const noexcept { return true; }
  /// Waits for all that was given to any queue, and for the callbacks of its events.
  virtual void drain() noexcept {}

  /// Gives back what is held and not in use: the client is closed, and starts nothing more. What
  /// was lent out may still come back later.
  virtual void close() noexcept {}

  /// Returns what a memory has, for its limit, its statistics and errors.
  virtual MemoryCapacity capacity(int /*space*/) const noexcept {
    return {physical_memory_bytes(), available_memory_bytes()};
  }
  /// Returns why a device takes no more work; OK while it does.
  virtual Status health(std::size_t /*device*/) const noexcept { return {}; }

  /// Does the same, and looks at the device: an error of its work may not be known yet.
  virtual Status probe(std::size_t device) const noexcept { return health(device); }

  /// Returns a stream of another library by its number; without one, the default stream. `is_kept`
  /// says that it will be there for as long as the result. Null where devices have no streams;
  /// throws for a number that stands for none.
  virtual std::shared_ptr<OtherStream> other_stream(std::size_t /*device*/,
                                                    std::optional<std::intptr_t> /*number*/,
                                                    StreamProtocol, bool /*is_kept*/) {
    return nullptr;
  }
  /// Returns the handle of a queue's stream, for other libraries; nothing where there are none.
  virtual std::optional<std::intptr_t> stream_handle(const Queue&) { return std::nullopt; }
  /// Returns the event of what a queue was given until now, by others too.
  virtual ReadyEvent end_of(const Queue&) { return {}; }
  /// Returns which of the devices an address belongs to; nothing for any other.
  virtual std::optional<std::size_t> device_at(const void* /*address*/) const noexcept {
    return std::nullopt;
  }

  /// Returns about how many calls of its driver copies within a device take.
  virtual std::size_t calls_of(std::span<const RegionCopy> copies) const noexcept {
    return copies.size();
  }

  /// Returns the allocation that an address of a device lies in, of any owner; no bytes where
  /// that is not known.
  virtual AddressRange range_at(const void* /*address*/) const noexcept { return {}; }

  /// Has the work of an engine on a device begin after an event, and returns the engine's stream
  /// for a view of what the event fills; nothing where the client must wait.
  virtual std::optional<std::intptr_t> order_engine(const pjrt::Client&, PJRT_Device*,
                                                    const ReadyEvent&) {
    return std::nullopt;
  }
  /// Adds what work depends on that a device begins behind an event, and whose error it would not
  /// meet: what the event depends on, and its own work where that is another device's.
  virtual void add_dependencies(std::size_t /*device*/, const ReadyEvent& event,
                                Dependencies& to) const {
    devrt::add_dependencies(event.dependencies(), to);
  }
  /// Waits for all work on the devices, also that of the engine and of other libraries.
  virtual void synchronize() noexcept {}
  /// Called once an engine's client was made, which may have changed what the two share.
  virtual void engine_was_made() {}
};

/// How a backend uses the PJRT plugin that compiles for it.
struct EnginePolicy {
  /// What the plugin says that it is for.
  std::string_view platform;
  /// The oldest minor version of the C API that works, and the devices' way with views needs.
  int oldest_minor = 54;
  /// Extensions that only plugins for other devices have, by number, and what those are.
  std::span<const int> other_extensions = {};
  std::string_view others = {};
  /// What a user is to do about a plugin that cannot be the engine.
  std::string_view remedy = {};
  /// The platform that custom calls are registered for.
  const char* ffi_platform = "Host";
  /// The options to make the plugin's client with, by those of the client.
  std::vector<pjrt::Option> (*options)(std::span<const DeviceFacts> devices,
                                       const ClientOptions& given) = nullptr;
  /// Returns for each device which of the plugin's it is; null where the orders are the same.
  std::vector<std::size_t> (*order)(const pjrt::Client&, std::span<const DeviceFacts>) = nullptr;
  /// The last minor version of the C API whose plugins run shards that do not talk to each other
  /// one after the other, which takes a fifth of the time; -1 for none.
  int last_minor_apart = -1;
  /// Fills memory that a custom call was given, in the order of the program's work; null for the
  /// host's memset.
  pjrt::ffi::Fill fill = nullptr;
  /// Whether the plugin takes over views of what a program donates, as it does on GPUs. Else it is
  /// given the memory. Such a plugin may also give up other views before a program has ended.
  bool donates_views = false;
  /// Whether a device's programs run one after the other, also where a function that one calls
  /// starts another.
  bool is_in_order = false;
};

/// What is the same for all clients of a backend. Defined by the backend.
struct Platform {
  std::string name;  ///< begins the names of its options, devices and threads
  EnginePolicy engine;
};
const Platform& platform();
/// Returns what errors call the function that makes the backend's clients.
inline std::string make_operation() { return "make_" + platform().name + "_client"; }

/// Makes the devices of a client. Defined by the backend. Throws what is wrong with the options.
std::shared_ptr<DeviceBackend> make_backend(const ClientOptions& options);

}  // namespace devrt::native
