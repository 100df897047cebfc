// Streams' places, memory and events of the simulated plugin.
#include "gpu_simulator/plugin/objects.hpp"

namespace devrt::gpu_simulator::plugin {

namespace {

StatusCode code_of(Code code) noexcept {
  switch (code) {
    case Code::kOutOfMemory:
      return StatusCode::kResourceExhausted;
    case Code::kDeviceLost:
    case Code::kNotInitialized:
    case Code::kDeinitialized:
      return StatusCode::kUnavailable;
    case Code::kNotSupported:
      return StatusCode::kUnimplemented;
    default:
      return StatusCode::kInternal;
  }
}

}  // namespace

Status status_of(Code code, const char* function) {
  return {code_of(code),
          std::string(function) + ": the simulated driver reports " + std::string(code_name(code))};
}

PJRT_Error* to_error(const Status& status) {
  return status.ok() ? nullptr : new PJRT_Error{status};
}

Mark::Mark(const PJRT_Device& device, Handle stream) : device_(device.number) {
  call_driver("PJRT_Event", device_, [&](Machine& machine, const Call& call) {
    event_ = machine.make_event(false);
    machine.record(call, event_, stream);
  });
}

Mark::~Mark() {
  try_driver("PJRT_Event_Destroy", device_,
             [&](Machine& machine, const Call& call) { machine.destroy_event(call, event_); });
}

void Mark::order(Handle stream) const {
  call_driver("wait_stream", [&](Machine& machine, const Call& call) {
    machine.wait_event(call, stream, event_);
  });
}

Bytes::Bytes(const PJRT_Device& device, std::size_t bytes) : device_(device), is_view_(false) {
  // What is empty has an address of its own, too.
  const std::size_t size = bytes ? bytes : 1;
  call_driver("PJRT_Buffer", device.number, [&](Machine& machine, const Call& call) {
    address_ = device.pool ? machine.allocate_async(call, device.pool, size, device.compute)
                           : machine.allocate(call, Space::kDevice, size);
  });
}

Bytes::Bytes(const PJRT_Device& device, void* data, OnDelete on_delete, void* argument) noexcept
    : device_(device),
      address_(reinterpret_cast<Address>(data)),
      is_view_(true),
      on_delete_(on_delete),
      argument_(argument) {}

Bytes::~Bytes() {
  if (is_view_) {
    if (on_delete_) on_delete_(reinterpret_cast<void*>(address_), argument_);
    return;
  }
  if (!address_) return;
  try_driver("PJRT_Buffer_Destroy", device_.number, [&](Machine& machine, const Call& call) {
    if (device_.pool) return machine.free_async(call, address_, device_.compute);
    machine.free(call, address_);
  });
}

void Work::end(const Status& status) {
  std::vector<Callback> called;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    status_ = status;
    called.swap(callbacks_);
    changed_.notify_all();
  }
  for (auto [callback, argument] : called) callback(to_error(status), argument);
}

bool Work::has_ended() {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

Status Work::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_ended_; });
  return status_;
}

void Work::on_end(Callback callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!has_ended_) return callbacks_.push_back(callback);
  }
  callback.first(to_error(wait()), callback.second);
}

Status Outcome::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Outcome::fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
}

void fill_buffers(PJRT_Api& table) {
  table.PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args* args) -> PJRT_Error* {
    delete args->buffer;
    return nullptr;
  };
  table.PJRT_Buffer_IsDeleted = [](PJRT_Buffer_IsDeleted_Args* args) -> PJRT_Error* {
    args->is_deleted = !args->buffer->bytes;
    return nullptr;
  };
  table.PJRT_Buffer_UnsafePointer = [](PJRT_Buffer_UnsafePointer_Args* args) {
    return guard([&] {
      if (!args->buffer->bytes) {
        throw StatusError(Status(StatusCode::kInvalidArgument, "the buffer was donated"));
      }
      args->buffer_pointer = args->buffer->bytes->address();
    });
  };
  table.PJRT_Event_Destroy = [](PJRT_Event_Destroy_Args* args) -> PJRT_Error* {
    delete args->event;
    return nullptr;
  };
  table.PJRT_Event_IsReady = [](PJRT_Event_IsReady_Args* args) -> PJRT_Error* {
    args->is_ready = args->event->work->has_ended();
    return nullptr;
  };
  table.PJRT_Event_Error = [](PJRT_Event_Error_Args* args) {
    return to_error(args->event->work->wait());
  };
  table.PJRT_Event_Await = [](PJRT_Event_Await_Args* args) {
    return to_error(args->event->work->wait());
  };
  table.PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args* args) -> PJRT_Error* {
    args->event->work->on_end({args->callback, args->user_arg});
    return nullptr;
  };
}

}  // namespace devrt::gpu_simulator::plugin
