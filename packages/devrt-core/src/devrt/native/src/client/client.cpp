#include "client/client.hpp"

#include <malloc.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "devrt/memory/arena_allocator.hpp"
#include "devrt/memory/huge_page_allocator.hpp"
#include "execution/engine.hpp"
#include "execution/kernel_calls.hpp"

namespace devrt::native {

namespace {

constexpr std::size_t kQueueDepth = 64;
constexpr int kMaxDevices = 4096;
constexpr int kMaxDevicesOfAllNodes = 65536;
constexpr unsigned kMaxCopyThreads = 4;                         // a few saturate the memory
constexpr std::int64_t kNotedBytes = std::int64_t{256} << 10;   // made between two noted buffers
constexpr std::int64_t kNotedOverhead = std::int64_t{8} << 10;  // that a buffer counts for beside

/// Staging buffers from here on are kept for reuse; malloc does well with smaller ones.
constexpr std::size_t kSmallestStaging = std::size_t{64} << 10;
constexpr std::size_t kKeptHugePages = std::size_t{64} << 20;  // bytes, of those that are free

std::shared_ptr<HostAllocator> limited(std::shared_ptr<HostAllocator> source,
                                       const std::shared_ptr<ByteBudget>& budget) {
  if (!budget) return source;
  return std::make_shared<LimitAllocator>(std::move(source), budget);
}

std::string make_operation() { return "make_" + platform().name + "_client"; }

/// Blocks of devices whose memories have one allocator, made once.
class Sources {
 public:
  explicit Sources(std::shared_ptr<BlockCache> cache) : cache_(std::move(cache)) {}

  /// Returns what is held for a device and those that it shares the default memory with.
  std::shared_ptr<ReservedBytes> total_of(const DeviceFacts& device) {
    auto& total = totals_[device.memories.front().allocator.get()];
    if (!total) total = std::make_shared<ReservedBytes>();
    return total;
  }
  const MemorySource& of(const MemoryKind& kind, const DeviceFacts& device) {
    MemorySource& source = sources_[kind.allocator.get()];
    if (source.allocator) return source;
    auto held = std::make_shared<ReservedBytes>(total_of(device));
    const std::size_t smallest =
        kind.is_host_visible ? kind.smallest_recycled : RecyclingAllocator::kNever;
    source = {std::make_shared<RecyclingAllocator>(kind.allocator, cache_, held, smallest), held};
    return source;
  }

 private:
  const std::shared_ptr<BlockCache> cache_;
  std::map<const HostAllocator*, std::shared_ptr<ReservedBytes>> totals_;
  std::map<const HostAllocator*, MemorySource> sources_;
};

std::function<MemoryNow()> now_of(const Client& client, int space) {
  return [backend = client.shared_backend(), space]() -> MemoryNow {
    if (space == kHostSpace) return {0, available_memory_bytes()};
    const MemoryCapacity capacity = backend->capacity(space);
    return {capacity.held, capacity.available};
  };
}

}  // namespace

ReadyEvent DeviceBackend::copy(const Queue&, std::span<const RegionCopy>) {
  throw StatusError(Status(StatusCode::kUnimplemented,
                           "The " + platform().name +
                               " backend has memory that the host cannot reach and copies none. "
                               "Override DeviceBackend::copy.")
                        .during("copy"));
}

std::shared_ptr<KernelModule> DeviceBackend::load_kernels(std::size_t, const std::string&) {
  throw StatusError(
      Status(StatusCode::kUnimplemented, "The " + platform().name + " backend runs no kernels.")
          .during("compile"));
}

std::int64_t default_recycled_bytes() noexcept {
  return std::min(std::int64_t{1} << 30, physical_memory_bytes() / 16);
}

std::shared_ptr<HostAllocator> huge_page_arena() {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  return std::make_shared<ArenaAllocator>(
      std::make_shared<HugePageAllocator>(),
      ArenaOptions{.granule = kHugePage, .keep_bytes = kKeptHugePages});
}

Memory::Memory(Device& device, const MemoryKind& kind, const MemorySource& source)
    : device_(device),
      own_(kind),
      alignment_(device.client().backend().alignment()),
      source_(source.allocator),
      page_locked_(dynamic_cast<const PageLockedAllocator*>(&source_->upstream())),
      stats_(std::make_shared<MemoryStats>(device.client().bytes_limit(kind.space), device.stats(),
                                           source.reserved, device.client().budget(),
                                           now_of(device.client(), kind.space))),
      allocator_(std::make_shared<StatisticsAllocator>(limited(source_, device.client().budget()),
                                                       stats_)) {}

Client& Memory::client() const noexcept { return device_.client(); }
LiveRegistry<Buffer>& Memory::registry() const noexcept { return client().registry(); }
bool Memory::is_forked() const noexcept { return client().is_forked(); }

std::shared_ptr<Memory> Memory::shared() { return {client().shared(), this}; }

Device::Device(Client& client, int id, int local_id, int process_index, DeviceFacts facts,
               std::span<const MemorySource> sources, std::shared_ptr<const ReservedBytes> reserved)
    : client_(client),
      id_(id),
      local_id_(local_id),
      process_index_(process_index),
      facts_(std::move(facts)),
      stats_(std::make_shared<MemoryStats>(client.bytes_limit(default_space()), nullptr,
                                           std::move(reserved), client.budget(),
                                           now_of(client, default_space()))),
      queue_("devrt-" + name(), kQueueDepth) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    memories_.push_back(std::make_unique<Memory>(*this, facts_.memories[i], sources[i]));
  }
}

int Device::default_space() const noexcept {
  return facts_.memories.empty() ? kHostSpace : facts_.memories.front().space;
}

std::shared_ptr<Device> Device::shared() { return {client_.shared(), this}; }

void Device::check_addressable(const char* operation) const {
  if (is_addressable()) return;
  throw StatusError(Status(StatusCode::kFailedPrecondition,
                           name() + " belongs to process " + std::to_string(process_index_) +
                               " and cannot be addressed from this one. Use a device from "
                               "client.local_devices().")
                        .during(operation)
                        .on(name()));
}

Memory& Device::default_memory() const {
  check_addressable("default_memory");
  return *memories_.front();
}

Memory& Device::memory(std::string_view kind) const {
  check_addressable("memory");
  std::string known;
  for (const auto& memory : memories_) {
    if (memory->kind() == kind) return *memory;
    known += (known.empty() ? "" : ", ") + memory->kind();
  }
  throw StatusError(Status(StatusCode::kInvalidArgument, name() + " has no memory of kind '" +
                                                             std::string(kind) +
                                                             "'. Use one of: " + known + ".")
                        .during("memory")
                        .on(name()));
}

Status Client::wait(const ReadyEvent& event) const {
  using namespace std::chrono_literals;
  for (;;) {
    if (const std::optional<Status> status = event.wait_for(100ms)) return *status;
    check_signals();
  }
}

namespace {

void check_total(std::int64_t total) {
  if (total <= kMaxDevicesOfAllNodes) return;
  raise_invalid(
      "The devices of all nodes (num_devices * num_nodes, if each has as many) must be at most " +
          std::to_string(kMaxDevicesOfAllNodes) + ", not " + std::to_string(total) + ".",
      make_operation());
}

}  // namespace

void Client::check(const ClientOptions& options) {
  const std::string operation = make_operation();
  const auto in_range = [&operation](const char* name, int value, int least, int limit) {
    if (value < least || value >= limit) {
      raise_invalid(std::string(name) + " must be at least " + std::to_string(least) +
                        " and below " + std::to_string(limit) + ", not " + std::to_string(value) +
                        ".",
                    operation);
    }
  };
  in_range("num_devices", options.num_devices, 1, kMaxDevices + 1);
  in_range("num_nodes", options.num_nodes, 1, (1 << 30) / kMaxDevices);
  in_range("node_id", options.node_id, 0, options.num_nodes);
  if (options.execution_timeout <= std::chrono::milliseconds(0)) {
    raise_invalid("execution_timeout must be a number of seconds above 0.", operation);
  }
  if (options.recycled_bytes < 0) {
    raise_invalid("recycled_bytes must not be negative, and is " +
                      std::to_string(options.recycled_bytes) + ". Pass 0 to keep nothing.",
                  operation);
  }
  if (options.memory_limit && *options.memory_limit < 1) {
    raise_invalid("memory_limit_bytes must be at least 1, and is " +
                      std::to_string(*options.memory_limit) + ". Leave it out for no limit.",
                  operation);
  }
}

std::shared_ptr<Client> Client::make(ClientOptions options, const NodesExchange& exchange) {
  check(options);
  std::shared_ptr<Client> client(new Client(std::move(options), exchange));
  client->self_ = client;
  return client;
}

Client::Client(ClientOptions options, const NodesExchange& exchange)
    : options_(std::move(options)),
      backend_(options_.backend ? options_.backend : make_backend(options_)),
      read_at_once_(backend_->read_at_once()),
      budget_(options_.memory_limit
                  ? std::make_shared<ByteBudget>(static_cast<std::size_t>(*options_.memory_limit))
                  : nullptr),
      temporaries_(std::make_shared<ClientTemporaries>()),
      cache_(std::make_shared<BlockCache>(static_cast<std::size_t>(options_.recycled_bytes))),
      staging_(std::make_shared<StatisticsAllocator>(
          std::make_shared<RecyclingAllocator>(backend_->staging(), cache_,
                                               std::make_shared<ReservedBytes>(), kSmallestStaging),
          std::make_shared<MemoryStats>(physical_memory_bytes()))),
      pool_("devrt-" + platform().name + ":copy", std::min(usable_processors(), kMaxCopyThreads)) {
  make_devices(exchange);
}

std::vector<DeviceFacts> Client::ask_for_devices() const {
  std::vector<DeviceFacts> found = backend_->devices();
  int next_space = 0;
  for (const DeviceFacts& device : found) {
    for (const MemoryKind& kind : device.memories)
      next_space = std::max(next_space, kind.space + 1);
  }
  // Memory of the host, which the devices share. Whether it is worth keeping, only the plugin
  // knows.
  for (const AddedKind& added : options_.added_kinds) {
    for (DeviceFacts& device : found) {
      device.memories.push_back({added.kind, next_space, added.allocator});
    }
    ++next_space;
  }
  return found;
}

/// Returns every node's devices; those of this node say nothing that `local` does not.
NodesDevices Client::ask_other_nodes(std::span<const DeviceFacts> local,
                                     const NodesExchange& exchange) const {
  NodesDevices found;
  if (exchange) {
    found = exchange(local);
  } else {
    check_total(static_cast<std::int64_t>(local.size()) * options_.num_nodes);
    std::vector<NodeDevice> alike(local.size());
    for (std::size_t i = 0; i < alike.size(); ++i) alike[i].local_hardware_id = static_cast<int>(i);
    found.assign(static_cast<std::size_t>(options_.num_nodes), alike);
  }
  const auto here = static_cast<std::size_t>(options_.node_id);
  if (found.size() != static_cast<std::size_t>(options_.num_nodes) ||
      found[here].size() != local.size()) {
    raise_invalid("The devices of every node, and of this one all, must be given.",
                  make_operation());
  }
  std::int64_t total = 0;
  for (const auto& node : found) total += static_cast<std::int64_t>(node.size());
  check_total(total);
  return found;
}

void Client::make_devices(const NodesExchange& exchange) {
  const std::vector<DeviceFacts> local = ask_for_devices();
  const NodesDevices nodes = ask_other_nodes(local, exchange);
  num_local_ = local.size();
  Sources sources(cache_);
  for (int node = 0; node < options_.num_nodes; ++node) {
    const bool is_here = node == options_.node_id;
    if (is_here) first_local_ = devices_.size();
    const std::vector<NodeDevice>& own = nodes[static_cast<std::size_t>(node)];
    for (std::size_t i = 0; i < own.size(); ++i) {
      std::vector<MemorySource> memories;
      if (is_here) {
        for (const MemoryKind& kind : local[i].memories) {
          memories.push_back(sources.of(kind, local[i]));
        }
      }
      devices_.push_back(std::make_unique<Device>(
          *this, static_cast<int>(devices_.size()), static_cast<int>(i), node,
          is_here ? local[i] : DeviceFacts{own[i].local_hardware_id, own[i].kind, {}, {}}, memories,
          is_here ? sources.total_of(local[i]) : nullptr));
    }
  }
}

Client::~Client() { cache_->close(); }  // a view that is still out must not bring its block here

std::span<const std::unique_ptr<Device>> Client::local_devices() const noexcept {
  return devices().subspan(first_local_, num_local_);
}

std::int64_t Client::bytes_limit(int space) const noexcept {
  if (budget_) return static_cast<std::int64_t>(budget_->limit());
  return space == kHostSpace ? physical_memory_bytes() : backend_->capacity(space).total;
}

bool Client::notes_calls(std::size_t bytes) noexcept {
  if (options_.traceback != Traceback::kSampled) return options_.traceback == Traceback::kAll;
  until_noted_ -= static_cast<std::int64_t>(bytes) + kNotedOverhead;
  if (until_noted_ > 0) return false;
  until_noted_ = kNotedBytes;
  return true;
}

void Client::trim_to_limit() noexcept {
  if (budget_) cache_->trim_to(budget_->left());
}

void Client::check_open(const char* operation) const {
  if (is_closed()) [[unlikely]] {
    throw StatusError(Status(StatusCode::kFailedPrecondition,
                             std::string(operation) + " failed: the " + platform().name +
                                 " client is closed. Make a new client.")
                          .because(Reason::kClosed)
                          .during(operation));
  }
  fork_.check(operation);
}

void Client::close(WorkQueue::OnClose pending) {
  if (closed_.exchange(true, std::memory_order_acq_rel) || is_forked()) return;
  registry_.close();
  if (pending == WorkQueue::OnClose::kCancel) {
    // All of them first: a copy on one queue may wait for one on another.
    for (const auto& device : devices_) device->queue().cancel();
  }
  for (const auto& device : devices_) device->queue().close(pending);
  backend_->drain();
  std::shared_ptr<Engine> engine;  // unloaded without the lock
  {
    std::lock_guard lock(engine_mutex_);
    engine.swap(engine_);
  }
  if (engine) engine->close();
  forget_kernels(*this);  // which programs called
  for (const Ref<Buffer>& buffer : registry_.snapshot()) buffer->remove();
  cache_->close();
  backend_->close();
  pool_.close();
}

std::shared_ptr<Engine> Client::engine(const std::string& library,
                                       std::shared_ptr<pjrt::KeyValueStore> store) {
  check_open("compile_and_load");
  std::lock_guard lock(engine_mutex_);
  if (!engine_) engine_ = std::make_shared<Engine>(library, *this, std::move(store));
  return engine_;
}

std::shared_ptr<Engine> Client::engine() const {
  std::lock_guard lock(engine_mutex_);
  return engine_;
}

void Client::defragment() {
  check_open("defragment");
  for (const auto& device : local_devices()) {
    for (const auto& memory : device->memories()) memory->trim();
  }
  malloc_trim(0);  // the C library's heap keeps what is freed as well
}

Ref<Storage> Client::storage_of(const Buffer& buffer, const char* operation) const {
  check_open(operation);
  Ref<Storage> storage = buffer.storage();
  if (!storage) [[unlikely]] {
    throw StatusError(Status(StatusCode::kFailedPrecondition,
                             std::string(operation) +
                                 " failed: the buffer was deleted or donated. Use the data before "
                                 "deleting it, or keep a clone().")
                          .because(Reason::kDeleted)
                          .during(operation)
                          .on(buffer.memory()->device().name()));
  }
  return storage;
}

}  // namespace devrt::native
