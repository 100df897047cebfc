// The native client: devices, their memories and the transfers between host values and buffers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/client_options.hpp"
#include "client/device_backend.hpp"
#include "client/nodes.hpp"
#include "devrt/async/stream_queues.hpp"
#include "devrt/async/thread_pool.hpp"
#include "devrt/base/external_owner.hpp"
#include "devrt/base/fork_guard.hpp"
#include "devrt/base/live_registry.hpp"
#include "devrt/buffers/buffer.hpp"
#include "devrt/buffers/storage_order.hpp"
#include "devrt/buffers/strided_copy.hpp"
#include "devrt/memory/allocator.hpp"
#include "devrt/memory/limit_allocator.hpp"
#include "devrt/memory/memory_report.hpp"
#include "devrt/memory/memory_stats.hpp"
#include "devrt/memory/recycling_allocator.hpp"
#include "execution/temporary_memory.hpp"

namespace devrt::native {

class Client;
class Device;
struct DeviceCopies;
class Engine;
class Memory;
using Buffer = devrt::Buffer<Memory>;

/// Copies up to this size are made at once; larger ones leave the GIL, or go to a queue.
inline constexpr std::size_t kInlineCopyBytes = std::size_t{64} << 10;

/// What the caller promises about the source, numbered as `PJRT_HostBufferSemantics`.
enum class Semantics : int {
  kOnlyDuringCall = 0,
  kUntilTransferCompletes = 1,
  kZeroCopy = 2,
  kMutableZeroCopy = 3,
};

/// A view of a host array of a known element type.
struct HostArray {
  StridedView view;
  ElementType type = ElementType::kInvalid;
};

/// How a transfer may treat its source.
struct PutOptions {
  Semantics semantics = Semantics::kOnlyDuringCall;
  bool force_copy = false;
  /// The execution stream that a transfer in the background is ordered by.
  std::int64_t stream = 0;
  /// How the dimensions shall lie, from minor to major; empty for row-major.
  std::span<const std::int64_t> order = {};
};

/// One target of a batched transfer: where to, and the first element of the block.
struct Block {
  Memory* memory = nullptr;
  Dims offset;
};

struct External;
struct Assembly;

/// A filled buffer to be copied into an array of the host: where its first element goes.
struct Gathered {
  Ref<Storage> storage;
  Dims shape;
  Dims start;
  std::span<const std::int64_t> order;  ///< the buffer's, which must outlive this
};

/// Where the memories that have one allocator get their blocks.
struct MemorySource {
  std::shared_ptr<RecyclingAllocator> allocator;
  std::shared_ptr<const ReservedBytes> reserved;
};

/// One memory of one device.
class Memory {
 public:
  Memory(Device& device, const MemoryKind& kind, const MemorySource& source);

  const std::string& kind() const noexcept { return own_.kind; }
  /// Returns the address space: memories of one space may share storage.
  int space() const noexcept { return own_.space; }
  /// Returns whether the host reads and writes at the addresses of the storages.
  bool is_host_visible() const noexcept { return own_.is_host_visible; }
  /// Returns whether kernels of its device use those addresses.
  bool is_for_kernels() const noexcept { return own_.is_for_kernels || !own_.is_host_visible; }
  std::size_t alignment() const noexcept { return alignment_; }
  dlpack::Device dlpack_device() const noexcept { return own_.dlpack; }
  Device& device() const noexcept { return device_; }
  Client& client() const noexcept;
  const MemoryStats& stats() const noexcept { return *stats_; }
  const std::shared_ptr<MemoryStats>& shared_stats() const noexcept { return stats_; }
  /// Returns the page-locking allocator, or null where the memory has another.
  const PageLockedAllocator* page_locked() const noexcept { return page_locked_; }

  /// Throws RESOURCE_EXHAUSTED, with a report of what lives, when out of memory, even after the
  /// copies in flight are done.
  Ref<Storage> allocate(std::size_t bytes) const;
  /// The same without a wait for programs that run: for who keeps one of them from its end.
  Ref<Storage> allocate_at_once(std::size_t bytes) const;
  /// Returns what its buffers and programs may use: its own, or the client's; null without a limit.
  const std::shared_ptr<ByteBudget>& budget() const noexcept;
  /// Returns which option says so.
  std::string limited_by() const;
  /// Reserves what a program will allocate. Empty where there is no limit. Throws
  /// RESOURCE_EXHAUSTED, with a report that `describe_limit` completes. Does not wait for other
  /// programs.
  BudgetShare reserve(const ProgramNeeds& needs) const;
  /// Returns the error of what a program could not reserve, with what lives in this memory.
  Status describe_limit(const MemoryReport& lack) const;
  /// Returns the error of a program that the engine had no memory for, with what lives in this one.
  Status describe_lack(const ProgramNeeds& needs, const Status& reported) const;
  /// Returns that of a program that had begun. The plugin does not tell whether it is its own, or
  /// that of one whose results it takes.
  Status describe_end(const ProgramNeeds& needs, const Status& reported) const;
  /// Returns what the allocator tells about itself.
  std::vector<AllocatorFact> facts() const { return source_->facts(); }
  /// Gives back what is held and not in use.
  void trim() noexcept { source_->trim(); }
  /// Returns the memory as a share of its client.
  std::shared_ptr<Memory> shared();
  LiveRegistry<Buffer>& registry() const noexcept;
  bool is_forked() const noexcept;

 private:
  Ref<Storage> allocate(std::size_t bytes, bool waits_for_programs) const;

  Device& device_;
  const MemoryKind own_;
  const std::size_t alignment_;
  const std::shared_ptr<RecyclingAllocator> source_;
  const PageLockedAllocator* const page_locked_;
  const std::shared_ptr<MemoryStats> stats_;
  const std::shared_ptr<HostAllocator> allocator_;
};

/// One device.
class Device {
 public:
  /// The facts of another process's device have no memories.
  Device(Client& client, int id, int local_id, int process_index, DeviceFacts facts,
         std::span<const MemorySource> sources, std::shared_ptr<const ReservedBytes> reserved);

  int id() const noexcept { return id_; }
  /// Returns its number among the devices of its process.
  int local_id() const noexcept { return local_id_; }
  /// Returns what the device says of itself; of another process's, its kind and number at most.
  const DeviceFacts& facts() const noexcept { return facts_; }
  int process_index() const noexcept { return process_index_; }
  bool is_addressable() const noexcept { return !memories_.empty(); }
  Client& client() const noexcept { return client_; }
  const std::shared_ptr<MemoryStats>& stats() const noexcept { return stats_; }
  std::span<const std::unique_ptr<Memory>> memories() const noexcept { return memories_; }
  StreamQueues& queue() noexcept { return queue_; }
  std::string name() const { return platform().name + ":" + std::to_string(id_); }

  /// Returns the memory of a kind; throws INVALID_ARGUMENT, naming those that exist.
  Memory& memory(std::string_view kind) const;
  /// Returns the first memory; throws FAILED_PRECONDITION on another process's device.
  Memory& default_memory() const;
  std::shared_ptr<Device> shared();

 private:
  void check_addressable(const char* operation) const;
  int default_space() const noexcept;
  const std::shared_ptr<ByteBudget>& default_budget() const noexcept;

  Client& client_;
  const int id_;
  const int local_id_;
  const int process_index_;
  const DeviceFacts facts_;
  const std::shared_ptr<MemoryStats> stats_;
  std::vector<std::unique_ptr<Memory>> memories_;
  StreamQueues queue_;
};

/// The live connection. Made by `make`; kept alive by every device, memory and buffer handle.
class Client {
 public:
  /// Makes a client. Without an exchange every node has as many devices as this one.
  static std::shared_ptr<Client> make(ClientOptions options, const NodesExchange& exchange = {});
  /// Throws INVALID_ARGUMENT if no client can be made with the options.
  static void check(const ClientOptions& options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  std::span<const std::unique_ptr<Device>> devices() const noexcept { return devices_; }
  std::span<const std::unique_ptr<Device>> local_devices() const noexcept;
  const ClientOptions& options() const noexcept { return options_; }
  int process_index() const noexcept { return options_.node_id; }
  /// Keeps an object of the language binding with the client; null keeps none. Under its lock.
  void attach(void* object, ExternalOwner owner) noexcept {
    attached_ = object;
    attached_owner_ = std::move(owner);
  }
  void* attached() const noexcept { return attached_; }
  std::shared_ptr<Client> shared() const { return self_.lock(); }
  const std::weak_ptr<Client>& unowned() const noexcept { return self_; }
  /// Returns how many own the client.
  long owners() const noexcept { return self_.use_count(); }
  LiveRegistry<Buffer>& registry() noexcept { return registry_; }
  /// Returns whether to note where a new buffer of `bytes` was made. Under the binding's lock.
  ///
  /// Noting takes a fraction of a microsecond. With `kSampled` that is spent on every buffer that
  /// takes long to fill anyway, and on about one in 32 of the smallest.
  bool notes_calls(std::size_t bytes) noexcept;
  /// Returns what the buffers of all memories may take together; null if there is no limit.
  const std::shared_ptr<ByteBudget>& budget() const noexcept { return budget_; }
  DeviceBackend& backend() const noexcept { return *backend_; }
  const std::shared_ptr<DeviceBackend>& shared_backend() const noexcept { return backend_; }
  /// Returns that limit, or else the bytes that a memory of an address space has.
  std::int64_t bytes_limit(int space) const noexcept;
  /// Returns true the first time: the caller is the one to warn of memory that is not locked.
  bool take_unlocked_warning() noexcept { return !unlocked_warned_.exchange(true); }
  /// Waits for the copies in flight, which keep what was deleted meanwhile. Not within a program:
  /// they may wait for its end.
  void wait_for_memory() const;
  /// Waits for the programs in flight, whose end frees what was deleted meanwhile. Not within one.
  void wait_for_programs_to_end() const;
  /// Waits for programs that hold temporary memory until `bytes` of a budget are free, if they are
  /// not and the end of programs can free as many. Returns whether that came. Does not wait within
  /// a program.
  bool wait_for_programs(const ByteBudget& budget, std::size_t bytes) const;
  /// Calls a function that waits, without the locks of the language binding.
  void wait_unlocked(const std::function<void()>& wait) const {
    options_.wait_unlocked ? options_.wait_unlocked(wait) : wait();
  }
  /// Throws what a signal raises that came meanwhile; for calls that wait, every now and then.
  void check_signals() const {
    if (options_.check_signals) options_.check_signals();
  }
  /// Waits for an event as long as no signal raises anything.
  Status wait(const ReadyEvent& event) const;
  std::chrono::milliseconds execution_timeout() const noexcept {
    return options_.execution_timeout;
  }
  /// Returns the temporary memory of programs.
  ClientTemporaries& temporaries() const noexcept { return *temporaries_; }
  const std::shared_ptr<ClientTemporaries>& shared_temporaries() const noexcept {
    return temporaries_;
  }
  /// Keeps no more freed blocks than the limit leaves.
  void trim_to_limit() noexcept;

  bool is_closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  bool is_forked() const noexcept { return fork_.is_child(); }
  /// Throws the closed error, or the one of a forked child.
  void check_open(const char* operation) const;
  /// Waits for the work in flight, or drops what has not started, and deletes every buffer.
  /// Idempotent. What is dropped fails with CANCELLED for those who wait for it already.
  void close(WorkQueue::OnClose pending = WorkQueue::OnClose::kDrain);
  /// Gives the freed blocks that are kept for reuse back to the system.
  void defragment();

  /// Returns the compiler, made at the first call from the plugin at `library`; with a store, as
  /// one of the job's.
  std::shared_ptr<Engine> engine(const std::string& library,
                                 std::shared_ptr<pjrt::KeyValueStore> store = nullptr);
  /// Returns the compiler, or null if nothing was compiled yet.
  std::shared_ptr<Engine> engine() const;

  /// Starts the transfer of a host array. Takes `hold`, which keeps the source alive, if it still
  /// needs the source after it returns; else leaves it.
  Ref<Buffer> put(Memory& memory, const HostArray& source, ExternalOwner& hold, PutOptions options);

  /// Starts the transfer of one block to each target; equal blocks on one kind are made once.
  std::vector<Ref<Buffer>> put_blocks(const HostArray& source, std::span<const Block> blocks,
                                      std::span<const std::int64_t> shape, ExternalOwner& hold,
                                      PutOptions options);

  /// Starts a copy to another memory of this client, or shares the storage where that is allowed.
  Ref<Buffer> copy(const Buffer& source, Memory& target, bool may_alias, std::int64_t stream = 0);
  /// Starts a copy into a storage of that memory.
  Ref<Buffer> copy_into(Ref<Storage> copied, const Buffer& source, Memory& target,
                        std::int64_t stream = 0);

  /// Starts making blocks out of pieces of buffers; equal blocks on one kind are made once. With
  /// `may_alias`, a block that is one aligned run of a source on its kind shows the source's bytes.
  std::vector<Ref<Buffer>> assemble(std::span<const Buffer* const> buffers,
                                    const Assembly& assembly, std::span<Memory* const> targets,
                                    bool may_alias, std::int64_t stream = 0);

  /// Writes filled buffers into a dense array of the host; each must lie within `shape`.
  void gather(std::span<const Gathered> parts, std::byte* out, std::span<const std::int64_t> shape,
              std::size_t itemsize);

  /// Shows an array of another library, or starts a copy of it.
  Ref<Buffer> take_over(Memory& memory, External&& source, std::int64_t stream);
  /// Does the same by way of the host, and waits for what lies there.
  Ref<Buffer> take_over_by_host(Memory& memory, External&& source, std::int64_t stream);

  /// A storage that the host can read once it is ready.
  struct Fetched {
    Ref<Storage> storage;
    ReadyEvent ready;
  };
  /// Starts a copy of a buffer's storage to the host; shares it where the host can read it.
  Fetched fetch(const Memory& memory, Ref<Storage> storage, const ReadyEvent& ready);

  /// Returns another buffer on the same storage.
  Ref<Buffer> clone(const Buffer& source);

  /// Returns the storage of a buffer that may be used; throws deleted, closed or forked.
  Ref<Storage> storage_of(const Buffer& buffer, const char* operation) const;

 private:
  Client(ClientOptions options, const NodesExchange& exchange);

  Ref<Storage> fill_later(Device& device, Ref<Storage> storage, const StridedView& view,
                          ExternalOwner hold, ReadyEvent& ready, std::int64_t stream);

  /// Starts a copy of an array of another library, which has so many bytes.
  Ref<Buffer> copied(Memory& memory, External&& source, std::size_t bytes, std::int64_t stream);
  // Of memory that the host cannot reach. The events fail where those that come before do; a client
  // that is not asynchronous waits for the end.
  ReadyEvent copy_by_device(DeviceCopies work);
  /// Copies from the source itself if `hold` keeps it and it is dense, else from a copy of it.
  ReadyEvent put_by_device(const Memory& memory, const StridedView& view, ExternalOwner hold,
                           const Ref<Storage>& storage, const PutOptions& options);
  ReadyEvent move_by_device(const Memory& from, const Ref<Storage>& source, ReadyEvent ready,
                            const Memory& to, const Ref<Storage>& target, std::int64_t stream);
  Ref<Storage> allocate_staging(std::size_t bytes) const;

  std::vector<DeviceFacts> ask_for_devices() const;
  std::vector<NodeFacts> ask_other_nodes(std::span<const DeviceFacts> local,
                                         const NodesExchange& exchange) const;
  void make_devices(const NodesExchange& exchange);

  const ClientOptions options_;
  const std::shared_ptr<DeviceBackend> backend_;
  const std::size_t read_at_once_;
  void* attached_ = nullptr;
  ExternalOwner attached_owner_;
  std::weak_ptr<Client> self_;
  ForkGuard fork_;
  const std::shared_ptr<ByteBudget> budget_;
  const std::shared_ptr<ClientTemporaries> temporaries_;
  const std::shared_ptr<BlockCache> cache_;
  const std::shared_ptr<HostAllocator> staging_;
  ThreadPool pool_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> unlocked_warned_{false};
  std::int64_t until_noted_ = 0;  // bytes, under the binding's lock
  LiveRegistry<Buffer> registry_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::size_t first_local_ = 0;
  std::size_t num_local_ = 0;
  mutable std::mutex engine_mutex_;
  std::shared_ptr<Engine> engine_;
};

/// Returns the package's version and the compiler, for people to read; defined by the backend.
const char* platform_version() noexcept;

}  // namespace devrt::native
