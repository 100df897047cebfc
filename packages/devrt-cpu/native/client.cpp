#include "client.hpp"

#include <utility>

namespace devrt::cpu {

namespace {

constexpr const char* kDevice = "device";
constexpr const char* kPinnedHost = "pinned_host";
constexpr const char* kUnpinnedHost = "unpinned_host";
constexpr std::size_t kQueueDepth = 64;
constexpr int kMaxDevices = 4096;

void check_options(const ClientOptions& options) {
  const auto in_range = [](const char* name, int value, int least, int limit) {
    if (value < least || value >= limit) {
      raise_invalid(std::string(name) + " must be at least " + std::to_string(least) +
                        " and below " + std::to_string(limit) + ", not " + std::to_string(value) +
                        ".",
                    "make_cpu_client");
    }
  };
  in_range("num_devices", options.num_devices, 1, kMaxDevices + 1);
  in_range("num_nodes", options.num_nodes, 1, (1 << 30) / kMaxDevices);
  in_range("node_id", options.node_id, 0, options.num_nodes);
}

}  // namespace

Memory::Memory(Device& device, std::size_t kind_index, std::string kind,
               std::shared_ptr<HostAllocator> source)
    : device_(device),
      kind_index_(kind_index),
      kind_(std::move(kind)),
      source_(std::move(source)),
      stats_(std::make_shared<MemoryStats>(physical_memory_bytes(), device.stats())),
      allocator_(std::make_shared<StatisticsAllocator>(source_, stats_)) {}

Client& Memory::client() const noexcept { return device_.client(); }
LiveRegistry<Buffer>& Memory::registry() const noexcept { return client().registry(); }
bool Memory::is_forked() const noexcept { return client().is_forked(); }

std::shared_ptr<Memory> Memory::shared() { return {client().shared(), this}; }

const PageLockedAllocator* Memory::page_locked() const noexcept {
  return dynamic_cast<const PageLockedAllocator*>(source_.get());
}

Device::Device(Client& client, int id, int local_id, int process_index,
               const ClientOptions& options)
    : client_(client),
      id_(id),
      local_id_(local_id),
      process_index_(process_index),
      stats_(std::make_shared<MemoryStats>(physical_memory_bytes())),
      queue_("devrt-cpu:" + std::to_string(id), kQueueDepth) {
  if (process_index != options.node_id) return;
  const auto add = [&](std::string kind, std::shared_ptr<HostAllocator> source) {
    memories_.push_back(
        std::make_unique<Memory>(*this, memories_.size(), std::move(kind), std::move(source)));
  };
  add(kDevice, std::make_shared<AlignedAllocator>());
  add(kPinnedHost, std::make_shared<PageLockedAllocator>());
  add(kUnpinnedHost, std::make_shared<AlignedAllocator>());
  for (const AddedKind& added : options.added_kinds) add(added.kind, added.allocator);
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

std::shared_ptr<Client> Client::make(ClientOptions options) {
  check_options(options);
  std::shared_ptr<Client> client(new Client(std::move(options)));
  client->self_ = client;
  return client;
}

Client::Client(ClientOptions options) : options_(std::move(options)) {
  const int count = options_.num_devices;
  devices_.reserve(static_cast<std::size_t>(count) * static_cast<std::size_t>(options_.num_nodes));
  for (int id = 0; id < count * options_.num_nodes; ++id) {
    devices_.push_back(std::make_unique<Device>(*this, id, id % count, id / count, options_));
  }
}

Client::~Client() = default;

std::span<const std::unique_ptr<Device>> Client::local_devices() const noexcept {
  const auto count = static_cast<std::size_t>(options_.num_devices);
  return devices().subspan(count * static_cast<std::size_t>(options_.node_id), count);
}

void Client::check_open(const char* operation) const {
  if (is_closed()) [[unlikely]] {
    throw StatusError(
        Status(StatusCode::kFailedPrecondition,
               std::string(operation) + " failed: the cpu client is closed. Make a new client.")
            .because(Reason::kClosed)
            .during(operation));
  }
  fork_.check(operation);
}

void Client::close() {
  if (closed_.exchange(true, std::memory_order_acq_rel) || is_forked()) return;
  registry_.close();
  for (const auto& device : devices_) device->queue().close(WorkQueue::OnClose::kDrain);
  for (const Ref<Buffer>& buffer : registry_.snapshot()) buffer->remove();
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

const char* platform_version() noexcept {
  return "devrt-cpu " DEVRT_CPU_VERSION " (g++-compatible " __VERSION__ ", C++20)";
}

}  // namespace devrt::cpu
