#include "execution/engine.hpp"

#include <algorithm>
#include <utility>

#include "client/ending.hpp"
#include "devrt/pjrt/engine/streams.hpp"
#include "execution/executable.hpp"

namespace devrt::native {

namespace {

[[noreturn]] void refuse(const std::string& library, const std::string& why) {
  raise_invalid(library + " is no engine for the " + platform().name + " platform: " + why + " " +
                    std::string(platform().engine.remedy),
                "compile_and_load");
}

/// Refuses what cannot be an engine before it is initialised, which takes some minutes.
void check_engine(const pjrt::Api& api) {
  const EnginePolicy& policy = platform().engine;
  if (api.minor_version() < policy.oldest_minor) {
    refuse(api.path(), "it has version 0." + std::to_string(api.minor_version()) +
                           " of the PJRT C API, and devrt needs 0." +
                           std::to_string(policy.oldest_minor) + " or later.");
  }
  for (const int type : policy.other_extensions) {
    if (!api.extension(static_cast<PJRT_Extension_Type>(type))) continue;
    refuse(api.path(), "it is a plugin for " + std::string(policy.others) + ".");
  }
}

/// Returns the devices of this process that an engine is given: not those that are lost, of which
/// it could make none, unless all are. A job's processes have agreed on all of them.
std::vector<const Device*> usable_devices(const Client& client, bool takes_lost) {
  std::vector<const Device*> found;
  for (const auto& device : client.local_devices()) {
    const auto local = static_cast<std::size_t>(device->local_id());
    if (takes_lost || client.backend().probe(local).ok()) found.push_back(device.get());
  }
  return found.empty() && !takes_lost ? usable_devices(client, true) : found;
}

std::vector<DeviceFacts> facts_of(std::span<const Device* const> devices) {
  std::vector<DeviceFacts> facts;
  for (const Device* device : devices) facts.push_back(device->facts());
  return facts;
}

/// Returns why the plugin made no client: its words do not name the device that is lost.
Status describe_refusal(const Status& reported, const Client& owner) {
  for (const auto& device : owner.local_devices()) {
    const Status health = owner.backend().probe(static_cast<std::size_t>(device->local_id()));
    if (health.ok()) continue;
    return Status(StatusCode::kDataLoss,
                  "compile_and_load failed: the compiler takes the devices of the client at its "
                  "first program, and " +
                      device->name() +
                      " is lost. Close the client and make one without it (option " +
                      platform().name +
                      "_visible_devices). The compiler's plugin reports: " + reported.message())
        .during("compile_and_load")
        .on(device->name());
  }
  return reported;
}

Ref<pjrt::Client> start_plugin(const std::shared_ptr<const pjrt::Api>& api,
                               std::span<const pjrt::Option> options, const Client& owner,
                               std::shared_ptr<pjrt::KeyValueStore> store) {
  try {
    return pjrt::Client::make(api, options, std::move(store));
  } catch (const StatusError& error) {
    throw StatusError(describe_refusal(error.status(), owner));
  }
}

Ref<pjrt::Client> make_client(const std::string& library, const Client& owner,
                              std::span<const Device* const> devices,
                              std::shared_ptr<pjrt::KeyValueStore> store) {
  const EnginePolicy& policy = platform().engine;
  std::vector<pjrt::Option> options;
  if (policy.options) options = policy.options(facts_of(devices), owner.options());
  if (store) {
    options.push_back({"node_id", std::int64_t{owner.options().node_id}});
    options.push_back({"num_nodes", std::int64_t{owner.options().num_nodes}});
  }
  const std::shared_ptr<const pjrt::Api> api = load_engine(library);
  finish_before_exit();  // after the library's own handlers, so that it comes before them
  Ref<pjrt::Client> client = start_plugin(api, options, owner, std::move(store));
  owner.backend().engine_was_made();
  const std::string found = client->platform_name();
  if (found != policy.platform) refuse(library, "its platform is '" + found + "'.");
  if (client->devices().size() == devices.size()) return client;
  throw StatusError(Status(StatusCode::kInternal, "The plugin " + library + " made " +
                                                      std::to_string(client->devices().size()) +
                                                      " devices instead of " +
                                                      std::to_string(devices.size()) + ".")
                        .during("compile_and_load"));
}

std::vector<std::size_t> find_order(const pjrt::Client& engine,
                                    std::span<const Device* const> devices) {
  if (platform().engine.order) return platform().engine.order(engine, facts_of(devices));
  std::vector<std::size_t> same(devices.size());
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = i;
  return same;
}

/// Lets the engine hold a share of a storage.
ExternalOwner share_for_engine(Ref<Storage> storage) {
  Storage* held = storage.get();
  storage.leak();
  return {held, [](void* context) noexcept { static_cast<Storage*>(context)->release(); }};
}

}  // namespace

std::shared_ptr<const pjrt::Api> load_engine(const std::string& library) {
  if (platform().engine.fill) pjrt::ffi::set_fill(platform().engine.fill);
  return pjrt::Api::load(library, &check_engine);
}

Engine::Engine(const std::string& library, const Client& client,
               std::shared_ptr<pjrt::KeyValueStore> store) {
  const std::vector<const Device*> devices = usable_devices(client, store != nullptr);
  client_ = make_client(library, client, devices, std::move(store));
  const std::vector<std::size_t> order = find_order(*client_, devices);
  engine_of_.assign(client.local_devices().size(), kNone);
  local_of_.resize(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto local = static_cast<std::size_t>(devices[i]->local_id());
    engine_of_[local] = order[i];
    local_of_[order[i]] = local;
  }
}

std::vector<std::int64_t> Engine::numbers() const {
  std::vector<std::int64_t> found;
  for (const std::size_t index : engine_of_) {
    found.push_back(index == kNone ? kLost : client_->id_of(client_->devices()[index]));
  }
  return found;
}

void Engine::close() {
  executables_.close();
  client_->in_flight().wait_for_all();
  for (const Ref<Executable>& executable : executables_.snapshot()) executable->remove();
}

Ref<pjrt::Buffer> Engine::view(Buffer& buffer) {
  if (Ref<Attachment> kept = buffer.attachment()) {
    auto* known = static_cast<pjrt::Buffer*>(kept.get());
    kept.leak();
    return Ref<pjrt::Buffer>::adopt(known);
  }
  Ref<Storage> storage = buffer.memory()->client().storage_of(buffer, "execute");
  Ref<pjrt::Buffer> made = make_view(buffer, std::move(storage));
  buffer.attach(Ref<Attachment>::share_of(made.get()));
  return made;
}

std::intptr_t Engine::await(const Buffer& buffer) const {
  Client& client = buffer.memory()->client();
  const ReadyEvent& ready = buffer.ready();
  // Of what goes through chunks, the driver has only a part yet, and no event of its end: the host
  // waits for that, as for the work of hosts.
  if (!ready.is_ready()) {
    const auto stream = client.backend().order_engine(*client_, device_of(buffer), ready);
    if (stream) return *stream;
  }
  const Status status = client.wait(ready);
  if (!status.ok()) throw FailedArgument(status);
  return 0;
}

Dependencies Engine::dependencies_of(std::span<Buffer* const> arguments) const {
  Dependencies found;
  for (const Buffer* argument : arguments) {
    const ReadyEvent& ready = argument->ready();
    if (ready.is_known() && ready.error().ok()) continue;
    if (!pjrt::streams_of(client_->api())) return {};  // the host has waited for all others
    if (!ready.source()) {  // of a program that calls functions: the plugin alone has its errors
      add_dependencies(ready.dependencies(), found);
      continue;
    }
    const Memory& memory = *argument->memory();
    const auto device = static_cast<std::size_t>(memory.device().local_id());
    memory.client().backend().add_dependencies(device, ready, found);
  }
  return found;
}

PJRT_Device* Engine::device_of(const Buffer& buffer) const {
  return client_
      ->devices()[engine_of_[static_cast<std::size_t>(buffer.memory()->device().local_id())]];
}

/// Returns whether the engine takes the memory of a buffer as it lies there.
static bool is_usable(const Buffer& buffer, const Storage& storage) noexcept {
  const std::size_t alignment = buffer.memory()->alignment();
  return reinterpret_cast<std::uintptr_t>(storage.data()) % alignment == 0 &&
         !pjrt::detail::is_packed(buffer.type());
}

Ref<pjrt::Buffer> Engine::give(const Buffer& buffer, const Ref<Storage>& storage) {
  // The program begins behind what fills the buffer, so that may be under way.
  if (storage->is_external() || storage->bytes() == 0 || !storage->is_sole_share(buffer.ready()) ||
      !is_usable(buffer, *storage)) {
    return {};
  }
  return give_always(buffer, storage);
}

Ref<pjrt::Buffer> Engine::give_always(const Buffer& buffer, const Ref<Storage>& storage) {
  PJRT_Device* device = device_of(buffer);
  const std::span<const std::int64_t> dims = buffer.shape().span();
  ExternalOwner share = share_for_engine(storage.share());
  if (!platform().engine.donates_views) {
    return pjrt::Buffer::give(*client_, device, storage->data(), buffer.type(), dims,
                              std::move(share));
  }
  const std::intptr_t stream = await(buffer);
  return pjrt::Buffer::view(*client_, device, storage->data(), buffer.type(), dims,
                            std::move(share), stream, pjrt::Buffer::Memory::kGiven);
}

Ref<pjrt::Buffer> Engine::give_copy(const Buffer& buffer, const Ref<Storage>& storage) {
  const Ref<Buffer> source = Buffer::make(buffer.memory(), buffer.type(), buffer.shape().copy(),
                                          storage.share(), buffer.ready());
  Memory& memory = *buffer.memory();
  // The call has its slots already, which a wait for what is in flight would be for.
  const Ref<Buffer> copied =
      memory.client().copy_into(memory.allocate_at_once(storage->bytes()), *source, memory);
  counters_.copies.fetch_add(1, std::memory_order_relaxed);
  counters_.bytes_copied.fetch_add(static_cast<std::int64_t>(storage->bytes()),
                                   std::memory_order_relaxed);
  return give_always(*copied, copied->storage());
}

Ref<pjrt::Buffer> Engine::make_view(const Buffer& buffer, Ref<Storage> storage) {
  const std::intptr_t stream = await(buffer);
  PJRT_Device* device = device_of(buffer);
  const std::span<const std::int64_t> dims = buffer.shape().span();
  if (is_usable(buffer, *storage)) {
    counters_.views.fetch_add(1, std::memory_order_relaxed);
    std::byte* data = storage->data();
    return pjrt::Buffer::view(*client_, device, data, buffer.type(), dims,
                              share_for_engine(std::move(storage)), stream);
  }
  counters_.copies.fetch_add(1, std::memory_order_relaxed);
  counters_.bytes_copied.fetch_add(static_cast<std::int64_t>(storage->bytes()),
                                   std::memory_order_relaxed);
  Client::Fetched fetched =
      buffer.memory()->client().fetch(*buffer.memory(), std::move(storage), buffer.ready());
  raise_if_error(buffer.memory()->client().wait(fetched.ready));
  return pjrt::Buffer::copy(*client_, device, fetched.storage->data(), buffer.type(), dims);
}

}  // namespace devrt::native
