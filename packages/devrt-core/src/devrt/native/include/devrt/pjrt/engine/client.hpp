// A plugin's client, and the buffers that it shares with devrt.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "devrt/base/dims.hpp"
#include "devrt/base/element_type.hpp"
#include "devrt/base/external_owner.hpp"
#include "devrt/base/fork_guard.hpp"
#include "devrt/buffers/attachment.hpp"
#include "devrt/memory/memory_stats.hpp"
#include "devrt/pjrt/engine/api.hpp"
#include "devrt/pjrt/engine/event.hpp"
#include "devrt/pjrt/engine/in_flight.hpp"
#include "devrt/pjrt/engine/key_value_store.hpp"
#include "devrt/pjrt/engine/release.hpp"

namespace devrt::pjrt {

class Client;

/// An option of a client.
struct Option {
  std::string name;
  std::variant<std::int64_t, bool, float, std::string, std::vector<std::int64_t>> value;

  /// Returns the option as a plugin reads it, valid while this one stays as it is.
  PJRT_NamedValue to_named_value() const {
    auto named = make_args<PJRT_NamedValue>();
    named.name = name.data();
    named.name_size = name.size();
    named.value_size = 1;
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      named.type = PJRT_NamedValue_kInt64;
      named.int64_value = *number;
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      named.type = PJRT_NamedValue_kBool;
      named.bool_value = *flag;
    } else if (const auto* real = std::get_if<float>(&value)) {
      named.type = PJRT_NamedValue_kFloat;
      named.float_value = *real;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      named.type = PJRT_NamedValue_kString;
      named.string_value = text->data();
      named.value_size = text->size();
    } else {
      const auto& list = std::get<std::vector<std::int64_t>>(value);
      named.type = PJRT_NamedValue_kInt64List;
      named.int64_array_value = list.data();
      named.value_size = list.size();
    }
    return named;
  }
};

/// A device of any process, as a plugin numbers it.
struct DeviceNumber {
  int id = 0;
  int process = 0;
};

/// A plugin's client. Destroyed with the last buffer and executable that hold a share of it.
class Client final : public RefCounted<Client> {
 public:
  /// Makes a client. With a store it is one of a job, which waits for the other processes' clients.
  static Ref<Client> make(std::shared_ptr<const Api> api, std::span<const Option> options,
                          std::shared_ptr<KeyValueStore> store = nullptr) {
    std::vector<PJRT_NamedValue> values;
    for (const Option& option : options) values.push_back(option.to_named_value());
    auto args = make_args<PJRT_Client_Create_Args>();
    args.create_options = values.data();
    args.num_options = values.size();
    if (store) use_store(args, *store);
    api->check<&PJRT_Api::PJRT_Client_Create>(args);
    return Ref<Client>::adopt(new Client(std::move(api), args.client, std::move(store)));
  }

  ~Client() {
    if (fork_.is_child()) {
      (void)releases_.release();  // its thread is the parent's, as the plugin's are
      return;
    }
    if (!is_in_callback()) {
      destroy(*api_, client_);
      return;
    }
    // The plugin would wait for the thread that this runs on.
    std::thread([api = api_, client = client_, store = store_] { destroy(*api, client); }).detach();
  }

  const Api& api() const noexcept { return *api_; }
  const std::shared_ptr<const Api>& shared_api() const noexcept { return api_; }
  PJRT_Client* get() const noexcept { return client_; }
  bool is_forked() const noexcept { return fork_.is_child(); }
  InFlight& in_flight() noexcept { return *in_flight_; }

  /// Destroys a buffer in a thread that may wait, and keeps the client until then. Never waits.
  void release_later(PJRT_Buffer* buffer) {
    // In the order of their ends: the buffer, the client's count, the client, the process's count.
    releases_->push([all = InFlight::of_process().hold(), self = Ref<Client>::share_of(this),
                     one = in_flight_->hold(), buffer]() mutable {
      destroy(self->api(), buffer);
      one = {};
      self.reset();
      all = {};
    });
  }
  std::span<PJRT_Device* const> devices() const noexcept { return devices_; }

  /// Returns the index of a device of this process, or the number of devices if it is none.
  std::size_t index_of(const PJRT_Device* device) const noexcept {
    std::size_t i = 0;
    while (i < devices_.size() && devices_[i] != device) ++i;
    return i;
  }

  /// Returns the plugin's number of a device.
  int id_of(PJRT_Device* device) const {
    auto args = make_args<PJRT_DeviceDescription_Id_Args>();
    args.device_description = description_of(device);
    api_->check<&PJRT_Api::PJRT_DeviceDescription_Id>(args);
    return args.id;
  }

  /// Returns the numbers of the devices of all processes.
  std::vector<DeviceNumber> all_numbers() const {
    auto args = make_args<PJRT_Client_Devices_Args>();
    args.client = client_;
    api_->check<&PJRT_Api::PJRT_Client_Devices>(args);
    std::vector<DeviceNumber> found;
    for (PJRT_Device* device : std::span(args.devices, args.num_devices)) {
      auto process = make_args<PJRT_DeviceDescription_ProcessIndex_Args>();
      process.device_description = description_of(device);
      api_->check<&PJRT_Api::PJRT_DeviceDescription_ProcessIndex>(process);
      found.push_back({id_of(device), process.process_index});
    }
    return found;
  }

  /// Records that a call on several devices failed, after which the next would hang.
  void set_stuck() noexcept { is_stuck_.store(true, std::memory_order_release); }
  /// Throws FAILED_PRECONDITION if a call on several devices would hang.
  void check_not_stuck() const {
    if (!is_stuck_.load(std::memory_order_acquire)) return;
    throw StatusError(
        Status(StatusCode::kFailedPrecondition,
               "An earlier call on several devices failed within the engine, which then hangs in "
               "the next one. Programs on one device still run; make a new client for the others.")
            .during("execute_sharded"));
  }

  /// Returns what the plugin calls the kind of device that it is for.
  std::string platform_name() const {
    auto args = make_args<PJRT_Client_PlatformName_Args>();
    args.client = client_;
    api_->check<&PJRT_Api::PJRT_Client_PlatformName>(args);
    return {args.platform_name, args.platform_name_size};
  }

 private:
  Client(std::shared_ptr<const Api> api, PJRT_Client* client, std::shared_ptr<KeyValueStore> store)
      : api_(std::move(api)), store_(std::move(store)), client_(client) {
    auto args = make_args<PJRT_Client_AddressableDevices_Args>();
    args.client = client_;
    api_->check<&PJRT_Api::PJRT_Client_AddressableDevices>(args);
    devices_.assign(args.addressable_devices,
                    args.addressable_devices + args.num_addressable_devices);
    in_flight_ = std::make_unique<InFlight>(devices_.size());
  }

  PJRT_DeviceDescription* description_of(PJRT_Device* device) const {
    auto args = make_args<PJRT_Device_GetDescription_Args>();
    args.device = device;
    api_->check<&PJRT_Api::PJRT_Device_GetDescription>(args);
    return args.device_description;
  }

  friend class Buffer;
  static void destroy(const Api& api, PJRT_Buffer* buffer) noexcept {
    auto args = make_args<PJRT_Buffer_Destroy_Args>();
    args.buffer = buffer;
    api.dispose<&PJRT_Api::PJRT_Buffer_Destroy>(args);
  }
  static void destroy(const Api& api, PJRT_Client* client) noexcept {
    auto args = make_args<PJRT_Client_Destroy_Args>();
    args.client = client;
    api.dispose<&PJRT_Api::PJRT_Client_Destroy>(args);
  }

  const std::shared_ptr<const Api> api_;
  const std::shared_ptr<KeyValueStore> store_;  // null for a client of this process alone
  PJRT_Client* const client_;
  std::vector<PJRT_Device*> devices_;
  std::unique_ptr<InFlight> in_flight_;
  std::unique_ptr<ReleaseQueue> releases_ = std::make_unique<ReleaseQueue>();
  std::atomic<bool> is_stuck_{false};
  ForkGuard fork_;
};

/// Owner of a buffer of the plugin: a view of memory of devrt's, or memory of the plugin's own.
class Buffer final : public Attachment {
 public:
  /// What a buffer shows: memory of the plugin's, of somebody else's, or of somebody else's who
  /// gave it up, so that outputs may take it.
  enum class Memory { kOwn, kView, kGiven };

  Buffer(Ref<Client> client, PJRT_Buffer* buffer, Memory memory) noexcept
      : client_(std::move(client)), buffer_(buffer), memory_(memory) {}
  ~Buffer() override {
    if (client_->is_forked()) {
      client_.leak();
      return;
    }
    if (is_in_callback() || is_donated_.load(std::memory_order_relaxed)) {
      client_->release_later(buffer_);
    } else {
      Client::destroy(client_->api(), buffer_);
    }
  }

  PJRT_Buffer* get() const noexcept { return buffer_; }
  /// Says that a program which still runs took it: to destroy it is to wait for that program.
  void set_donated() noexcept { is_donated_.store(true, std::memory_order_relaxed); }
  /// Keeps bytes of a budget taken for as long as the memory is there.
  void reserve(BudgetShare bytes) noexcept { reserved_ = std::move(bytes); }
  /// Gives up what it keeps, for an output that took the memory.
  BudgetShare take_reserved() noexcept { return std::exchange(reserved_, BudgetShare()); }
  bool is_view() const noexcept { return memory_ == Memory::kView; }
  Memory memory() const noexcept { return memory_; }
  const Client& client() const noexcept { return *client_; }

  /// Returns the address of the data; waits until it has one, which it has once it is ready.
  std::byte* data() const {
    auto args = make_args<PJRT_Buffer_UnsafePointer_Args>();
    args.buffer = buffer_;
    client_->api().check<&PJRT_Api::PJRT_Buffer_UnsafePointer>(args);
    return reinterpret_cast<std::byte*>(args.buffer_pointer);
  }

  /// Returns whether its memory was given up, most often to an output by donation.
  bool is_deleted() const {
    auto args = make_args<PJRT_Buffer_IsDeleted_Args>();
    args.buffer = buffer_;
    return !client_->api().call<&PJRT_Api::PJRT_Buffer_IsDeleted>(args).ok() || args.is_deleted;
  }

  /// Starts a copy to host memory in row-major order, one element a byte at least.
  Event copy_to(std::byte* to, std::size_t bytes, std::size_t dims) const {
    std::vector<std::int64_t> minor_to_major(dims);
    for (std::size_t i = 0; i < dims; ++i)
      minor_to_major[i] = static_cast<std::int64_t>(dims - 1 - i);
    auto layout = make_args<PJRT_Buffer_MemoryLayout>();
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled = make_args<PJRT_Buffer_MemoryLayout_Tiled>();
    layout.tiled.minor_to_major = minor_to_major.data();
    layout.tiled.minor_to_major_size = dims;
    auto args = make_args<PJRT_Buffer_ToHostBuffer_Args>();
    args.src = buffer_;
    args.host_layout = &layout;
    args.dst = to;
    args.dst_size = bytes;
    client_->api().check<&PJRT_Api::PJRT_Buffer_ToHostBuffer>(args);
    return {client_->api(), args.event};
  }

  /// Shows row-major memory to the engine, whose work on `stream` may use it from now on. `owner`
  /// is released when the last work that uses it ends, in a thread of the plugin or of the caller;
  /// at once if this throws.
  static Ref<Buffer> view(Client& client, PJRT_Device* device, void* data, ElementType type,
                          std::span<const std::int64_t> dims, ExternalOwner owner,
                          std::intptr_t stream = 0, Memory memory = Memory::kView) {
    auto held = std::make_unique<ExternalOwner>(std::move(owner));
    auto args = make_args<PJRT_Client_CreateViewOfDeviceBuffer_Args>();
    args.client = client.get();
    args.device_buffer_ptr = data;
    args.dims = dims.data();
    args.num_dims = dims.size();
    args.element_type = static_cast<PJRT_Buffer_Type>(type);
    args.device = device;
    args.stream = stream;
    args.on_delete_callback = [](void*, void* context) {
      const CallbackScope scope;
      delete static_cast<ExternalOwner*>(context);
    };
    args.on_delete_callback_arg = held.get();
    client.api().check<&PJRT_Api::PJRT_Client_CreateViewOfDeviceBuffer>(args);
    (void)held.release();
    return own(client, args.buffer, memory);
  }

  /// Gives row-major memory, aligned to 64 bytes, to the engine: it may write there, and pass it on
  /// to outputs. `owner` is released when the last of them is, in a thread of the plugin or of the
  /// caller; at once if this throws.
  static Ref<Buffer> give(Client& client, PJRT_Device* device, void* data, ElementType type,
                          std::span<const std::int64_t> dims, ExternalOwner owner) {
    auto args = to_args(client, device, data, type, dims);
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kMutableZeroCopy;
    client.api().check<&PJRT_Api::PJRT_Client_BufferFromHostBuffer>(args);
    Ref<Buffer> made = own(client, args.buffer, Memory::kGiven);
    when_ready(Event(client.api(), args.done_with_host_buffer),
               [kept = std::move(owner)](const Status&) mutable { kept.reset(); });
    return made;
  }

  /// Copies row-major memory, one element a byte at least, into memory of the engine's own.
  static Ref<Buffer> copy(Client& client, PJRT_Device* device, const void* data, ElementType type,
                          std::span<const std::int64_t> dims) {
    auto args = to_args(client, device, data, type, dims);
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    client.api().check<&PJRT_Api::PJRT_Client_BufferFromHostBuffer>(args);
    Ref<Buffer> made = own(client, args.buffer);
    raise_if_error(Event(client.api(), args.done_with_host_buffer).wait());
    return made;
  }

  /// Takes over a buffer that the plugin gave.
  static Ref<Buffer> own(Client& client, PJRT_Buffer* buffer, Memory memory = Memory::kOwn) {
    return Ref<Buffer>::adopt(new Buffer(Ref<Client>::share_of(&client), buffer, memory));
  }

 private:
  static PJRT_Client_BufferFromHostBuffer_Args to_args(const Client& client, PJRT_Device* device,
                                                       const void* data, ElementType type,
                                                       std::span<const std::int64_t> dims) {
    auto args = make_args<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client.get();
    args.data = data;
    args.type = static_cast<PJRT_Buffer_Type>(type);
    args.dims = dims.data();
    args.num_dims = dims.size();
    args.device = device;
    return args;
  }

  Ref<Client> client_;
  PJRT_Buffer* const buffer_;
  const Memory memory_;
  std::atomic<bool> is_donated_{false};
  BudgetShare reserved_;
};

}  // namespace devrt::pjrt
