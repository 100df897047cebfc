#include "execution/engine.hpp"

#include <utility>

#include "client/ending.hpp"
#include "execution/executable.hpp"

namespace devrt::native {

namespace {

constexpr int kOldestMinor = 54;  // of the C API; the loader needs no older one either

/// The extensions that only plugins for other devices than the CPU have, by their numbers.
constexpr int kOfOtherDevices[] = {0, 7, 16, 17, 18};

[[noreturn]] void refuse(const std::string& library, const std::string& why) {
  raise_invalid(library + " is no engine for the cpu platform: " + why +
                    " Name one of XLA's compilers for the CPU, or leave cpu_engine out.",
                "compile_and_load");
}

/// Refuses what cannot be an engine before it is initialised, which takes some minutes.
void check_engine(const pjrt::Api& api) {
  if (api.minor_version() < kOldestMinor) {
    refuse(api.path(), "it has version 0." + std::to_string(api.minor_version()) +
                           " of the PJRT C API, and devrt needs 0." + std::to_string(kOldestMinor) +
                           " or later.");
  }
  for (const int type : kOfOtherDevices) {
    if (!api.extension(static_cast<PJRT_Extension_Type>(type))) continue;
    refuse(api.path(), "it is a plugin for GPUs or TPUs.");
  }
}

Ref<pjrt::Client> make_client(const std::string& library, std::size_t num_devices) {
  const pjrt::Option count{"cpu_device_count", static_cast<std::int64_t>(num_devices)};
  const std::shared_ptr<const pjrt::Api> api = load_engine(library);
  finish_before_exit();  // after the library's own handlers, so that it comes before them
  Ref<pjrt::Client> client = pjrt::Client::make(api, {&count, 1});
  const std::string platform = client->platform_name();
  if (platform != "cpu") refuse(library, "its platform is '" + platform + "'.");
  if (client->devices().size() == num_devices) return client;
  throw StatusError(Status(StatusCode::kInternal, "The plugin " + library + " made " +
                                                      std::to_string(client->devices().size()) +
                                                      " devices instead of " +
                                                      std::to_string(num_devices) + ".")
                        .during("compile_and_load"));
}

/// Lets the engine hold a share of a storage.
ExternalOwner share_for_engine(Ref<Storage> storage) {
  Storage* held = storage.get();
  storage.leak();
  return {held, [](void* context) noexcept { static_cast<Storage*>(context)->release(); }};
}

}  // namespace

std::shared_ptr<const pjrt::Api> load_engine(const std::string& library) {
  return pjrt::Api::load(library, &check_engine);
}

Engine::Engine(const std::string& library, std::size_t num_devices)
    : client_(make_client(library, num_devices)) {}

void Engine::close() {
  executables_.close();
  client_->in_flight().wait();
  for (const Ref<Executable>& executable : executables_.snapshot()) executable->remove();
}

Ref<pjrt::Buffer> Engine::view(Buffer& buffer) {
  if (Ref<Attachment> kept = buffer.attachment()) {
    auto* known = static_cast<pjrt::Buffer*>(kept.get());
    kept.leak();
    return Ref<pjrt::Buffer>::adopt(known);
  }
  Ref<Storage> storage = buffer.memory()->client().storage_of(buffer, "execute");
  raise_if_error(buffer.memory()->client().wait(buffer.ready()));
  Ref<pjrt::Buffer> made = make_view(buffer, std::move(storage));
  buffer.attach(Ref<Attachment>::share_of(made.get()));
  return made;
}

PJRT_Device* Engine::device_of(const Buffer& buffer) const {
  return client_->devices()[static_cast<std::size_t>(buffer.memory()->device().local_id())];
}

/// Returns whether the engine takes the memory of a buffer as it lies there.
static bool is_usable(const Buffer& buffer, const Storage& storage) noexcept {
  return reinterpret_cast<std::uintptr_t>(storage.data()) % kAlignment == 0 &&
         !pjrt::detail::is_packed(buffer.type());
}

Ref<pjrt::Buffer> Engine::give(const Buffer& buffer, const Ref<Storage>& storage) {
  if (storage->is_external() || storage->bytes() == 0 || !storage->is_sole_share() ||
      !is_usable(buffer, *storage)) {
    return {};
  }
  return pjrt::Buffer::give(*client_, device_of(buffer), storage->data(), buffer.type(),
                            buffer.shape().span(), share_for_engine(storage.share()));
}

Ref<pjrt::Buffer> Engine::make_view(const Buffer& buffer, Ref<Storage> storage) {
  PJRT_Device* device = device_of(buffer);
  const std::span<const std::int64_t> dims = buffer.shape().span();
  if (is_usable(buffer, *storage)) {
    counters_.views.fetch_add(1, std::memory_order_relaxed);
    std::byte* data = storage->data();
    return pjrt::Buffer::view(*client_, device, data, buffer.type(), dims,
                              share_for_engine(std::move(storage)));
  }
  counters_.copies.fetch_add(1, std::memory_order_relaxed);
  counters_.bytes_copied.fetch_add(static_cast<std::int64_t>(storage->bytes()),
                                   std::memory_order_relaxed);
  return pjrt::Buffer::copy(*client_, device, storage->data(), buffer.type(), dims);
}

}  // namespace devrt::native
