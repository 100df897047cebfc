// Devices of a client, and their memories.
#include <utility>

#include "client/client.hpp"

namespace devrt::native {

namespace {

constexpr std::size_t kQueueDepth = 64;

std::shared_ptr<HostAllocator> limited(std::shared_ptr<HostAllocator> source,
                                       const std::shared_ptr<ByteBudget>& budget) {
  if (!budget) return source;
  return std::make_shared<LimitAllocator>(std::move(source), budget);
}

const std::shared_ptr<ByteBudget>& budget_of(const Client& client, const MemoryKind& kind) {
  return kind.budget ? kind.budget : client.budget();
}

std::function<MemoryNow()> now_of(const Client& client, int space) {
  return [backend = client.shared_backend(), space]() -> MemoryNow {
    if (space == kHostSpace) return {0, available_memory_bytes()};
    const MemoryCapacity capacity = backend->capacity(space);
    return {capacity.held, capacity.available};
  };
}

}  // namespace

Memory::Memory(Device& device, const MemoryKind& kind, const MemorySource& source)
    : device_(device),
      own_(kind),
      alignment_(device.client().backend().alignment()),
      source_(source.allocator),
      page_locked_(dynamic_cast<const PageLockedAllocator*>(&source_->upstream())),
      stats_(std::make_shared<MemoryStats>(device.client().bytes_limit(kind.space), device.stats(),
                                           source.reserved, budget_of(device.client(), kind),
                                           now_of(device.client(), kind.space))),
      allocator_(std::make_shared<StatisticsAllocator>(
          limited(source_, budget_of(device.client(), kind)), stats_)) {}

Client& Memory::client() const noexcept { return device_.client(); }
LiveRegistry<Buffer>& Memory::registry() const noexcept { return client().registry(); }
const std::shared_ptr<ByteBudget>& Memory::budget() const noexcept {
  return budget_of(client(), own_);
}
std::string Memory::limited_by() const {
  if (own_.budget) return own_.limited_by;
  return "memory_limit_bytes (option " + platform().name + "_memory_limit)";
}
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
                                           std::move(reserved), default_budget(),
                                           now_of(client, default_space()))),
      queue_("devrt-" + name(), kQueueDepth) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    memories_.push_back(std::make_unique<Memory>(*this, facts_.memories[i], sources[i]));
  }
}

int Device::default_space() const noexcept {
  return facts_.memories.empty() ? kHostSpace : facts_.memories.front().space;
}

const std::shared_ptr<ByteBudget>& Device::default_budget() const noexcept {
  return facts_.memories.empty() ? client_.budget() : budget_of(client_, facts_.memories.front());
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

}  // namespace devrt::native
