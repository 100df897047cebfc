#include "client/client.hpp"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "client/ending.hpp"
#include "execution/engine.hpp"
#include "execution/kernel_calls.hpp"

namespace devrt::native {

namespace {

constexpr int kMaxDevices = 4096;
constexpr unsigned kMaxCopyThreads = 4;                         // a few saturate the memory
constexpr std::int64_t kNotedBytes = std::int64_t{256} << 10;   // made between two noted buffers
constexpr std::int64_t kNotedOverhead = std::int64_t{8} << 10;  // that a buffer counts for beside

/// Staging buffers from here on are kept for reuse; malloc does well with smaller ones.
constexpr std::size_t kSmallestStaging = std::size_t{64} << 10;

}  // namespace

Status Client::wait(const ReadyEvent& event) const {
  using namespace std::chrono_literals;
  for (;;) {
    if (const std::optional<Status> status = event.wait_for(100ms)) return *status;
    check_signals();
  }
}

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
  // The engine frees in the order of streams of its own. Nothing is given back at the exit.
  if (engine && !is_exiting()) backend_->synchronize();
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
  const bool waits = !pjrt::is_in_callback();
  // Devices free in the order of their work: first what buffers and programs had, then what an
  // arena gives back.
  for (int i = 0; i < 2; ++i) {
    if (waits) {
      wait_for_programs_to_end();
      wait_for_memory();
      wait_unlocked([this] { backend_->synchronize(); });
    }
    for (const auto& device : local_devices()) {
      for (const auto& memory : device->memories()) memory->trim();
    }
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
