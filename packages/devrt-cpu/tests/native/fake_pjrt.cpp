// A PJRT plugin of one page, whose programs do what their text says: for paths that a real compiler
// does not take when requested. "double" adds its argument to itself, in the caller; "later" does
// so in another thread; "donate" too, in its argument's memory; "fail" fails the call, "poison" its
// event; "second" donates on every device, and fails the call on all but the first; "hold" donates,
// runs in the one thread of a pool, and lets its argument's destruction wait for its end.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "devrt/pjrt/c_api/pjrt_c_api.h"

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};
struct PJRT_Device {
  int id;
};
struct PJRT_Client {
  std::vector<PJRT_Device> devices;
  std::vector<PJRT_Device*> pointers;
};

/// What an event and its worker share.
struct Moment {
  std::mutex mutex;
  bool is_ready = false;
  bool is_error = false;
  std::vector<std::function<void(bool)>> waiting;

  void set(bool error) {
    std::vector<std::function<void(bool)>> callbacks;
    {
      std::lock_guard lock(mutex);
      is_ready = true;
      is_error = error;
      callbacks.swap(waiting);
    }
    for (const auto& callback : callbacks) callback(error);
  }
};
struct PJRT_Event {
  std::shared_ptr<Moment> moment;
};

/// Memory of a view, or of the plugin's own.
struct Block {
  float* data = nullptr;
  void (*on_delete)(void*, void*) = nullptr;
  void* context = nullptr;
  bool is_own = false;
  std::shared_ptr<Moment> released;  // of memory that was given
  ~Block() {
    if (is_own) ::operator delete(data, std::align_val_t{64});
    if (on_delete) on_delete(data, context);
    if (released) released->set(false);
  }
};
struct PJRT_Buffer {
  std::shared_ptr<Block> block;
  std::shared_ptr<Moment> filled;  // null where it is from the start
  std::shared_ptr<Moment> taken;   // the end of the program that it was donated to
};
struct PJRT_LoadedExecutable {
  PJRT_Client* client;
  std::string kind;
};
struct PJRT_Executable {
  std::string kind;
};

namespace {

std::atomic<int> live_buffers{0};
std::mutex blocks;  // which block each buffer has

PJRT_Error* error(PJRT_Error_Code code, std::string message) {
  return new PJRT_Error{code, std::move(message)};
}

PJRT_Error* work_failed() { return error(PJRT_Error_Code_DATA_LOSS, "the fake's work failed"); }

std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

/// An HloModuleProtoWithConfig of one parameter and one result, f32[8].
std::string module_of(const std::string& kind) {
  const std::string shape = std::string("\x10\x0b", 2) + field(3, "\x08");
  std::string module = field(1, kind) + field(4, field(1, shape) + field(2, shape));
  if (kind == "donate" || kind == "second" || kind == "hold") module += field(8, field(1, ""));
  return field(1, module);
}

void run(const std::string& kind, const std::shared_ptr<Block>& in,
         const std::shared_ptr<Block>& out, const std::shared_ptr<Moment>& moment) {
  for (int i = 0; i < 8; ++i) out->data[i] = in->data[i] * 2;
  moment->set(kind.ends_with("poison"));
}

void wait_for(const std::shared_ptr<Moment>& moment) {
  const auto is_ready = [&] {
    std::lock_guard lock(moment->mutex);
    return moment->is_ready;
  };
  while (moment && !is_ready()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

/// One thread that does one thing after the other. Never destroyed.
class Pool {
 public:
  static Pool& get() {
    static auto* const pool = new Pool;
    return *pool;
  }
  void push(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_one();
  }

 private:
  Pool() {
    std::thread([this] { work(); }).detach();
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !queue_.empty(); });
      const std::function<void()> next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      next();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
};

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  const std::string& kind = args->executable->kind;
  const bool is_first = !args->execute_device || args->execute_device->id == 0;
  if (kind.ends_with("fail") || (kind == "second" && !is_first)) {
    return error(PJRT_Error_Code_INTERNAL, "the fake fails");
  }
  std::lock_guard lock(blocks);
  PJRT_Buffer* argument = args->argument_lists[0][0];
  const bool donates = kind == "donate" || kind == "second" || kind == "hold";
  const bool in_place = donates && args->options->num_non_donatable_input_indices == 0 &&
                        (argument->block->is_own || argument->block->released);
  const std::shared_ptr<Moment> filled = argument->filled;
  std::shared_ptr<Block> in = argument->block;
  std::shared_ptr<Block> out = in;
  if (!in_place) {
    out = std::make_shared<Block>();
    out->data = static_cast<float*>(::operator new(64, std::align_val_t{64}));
    out->is_own = true;
  }
  if (in_place) argument->block.reset();
  ++live_buffers;
  auto moment = std::make_shared<Moment>();
  args->output_lists[0][0] = new PJRT_Buffer{out, moment, nullptr};
  args->device_complete_events[0] = new PJRT_Event{moment};
  if (kind == "double") {
    wait_for(filled);
    run(kind, in, out, moment);
  } else if (kind == "hold") {
    argument->taken = moment;
    Pool::get().push([=] { run(kind, in, out, moment); });
  } else {
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      wait_for(filled);
      run(kind, in, out, moment);
    }).detach();
  }
  return nullptr;
}

PJRT_Error* on_ready(PJRT_Event_OnReady_Args* args) {
  const auto call = [callback = args->callback, context = args->user_arg](bool is_error) {
    callback(is_error ? work_failed() : nullptr, context);
  };
  Moment& moment = *args->event->moment;
  bool is_error = false;
  {
    std::lock_guard lock(moment.mutex);
    if (!moment.is_ready) {
      moment.waiting.push_back(call);
      return nullptr;
    }
    is_error = moment.is_error;
  }
  call(is_error);
  return nullptr;
}

PJRT_Error* optimized_program(PJRT_Executable_OptimizedProgram_Args* args) {
  const std::string module = module_of(args->executable->kind);
  if (args->program->code) std::memcpy(args->program->code, module.data(), module.size());
  args->program->code_size = module.size();
  return nullptr;
}

/// Programs with 4 KiB of temporary memory have a name that begins so.
PJRT_Error* memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  if (args->executable->kind.starts_with("temporary")) args->temp_size_in_bytes = 4096;
  return nullptr;
}

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  const std::string kind(args->program->code, args->program->code_size);
  if (kind == "wrong") return error(PJRT_Error_Code_UNKNOWN, "-:1:1: error: wrong");
  args->executable = new PJRT_LoadedExecutable{args->client, kind};
  return nullptr;
}

PJRT_Error* create(PJRT_Client_Create_Args* args) {
  auto* client = new PJRT_Client;
  for (int i = 0; i < args->create_options[0].int64_value; ++i) client->devices.push_back({i});
  for (PJRT_Device& device : client->devices) client->pointers.push_back(&device);
  args->client = client;
  return nullptr;
}

PJRT_Error* view(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  auto block = std::make_shared<Block>();
  block->data = static_cast<float*>(args->device_buffer_ptr);
  block->on_delete = args->on_delete_callback;
  block->context = args->on_delete_callback_arg;
  ++live_buffers;
  args->buffer = new PJRT_Buffer{std::move(block), nullptr, nullptr};
  return nullptr;
}

PJRT_Error* give(PJRT_Client_BufferFromHostBuffer_Args* args) {
  if (args->host_buffer_semantics != PJRT_HostBufferSemantics_kMutableZeroCopy) {
    return error(PJRT_Error_Code_UNIMPLEMENTED, "the fake copies nothing");
  }
  auto block = std::make_shared<Block>();
  block->data = static_cast<float*>(const_cast<void*>(args->data));
  block->released = std::make_shared<Moment>();
  ++live_buffers;
  args->done_with_host_buffer = new PJRT_Event{block->released};
  args->buffer = new PJRT_Buffer{std::move(block), nullptr, nullptr};
  return nullptr;
}

/// A function of the table that does one thing and succeeds.
#define ANSWER(...)            \
  [](auto* a) -> PJRT_Error* { \
    __VA_ARGS__;               \
    return nullptr;            \
  }

PJRT_Api make_table() {
  PJRT_Api api{};
  api.struct_size = sizeof(PJRT_Api);
  // A version whose plugins are called for one shard after the other, which is what the fake does.
  api.pjrt_api_version = {sizeof(PJRT_Api_Version), nullptr, PJRT_API_MAJOR, 81};
  api.PJRT_Error_Destroy = [](auto* a) { delete a->error; };
  api.PJRT_Error_Message = [](auto* a) {
    a->message = a->error->message.data();
    a->message_size = a->error->message.size();
  };
  api.PJRT_Error_GetCode = ANSWER(a->code = a->error->code);
  api.PJRT_Plugin_Initialize = [](auto*) -> PJRT_Error* { return nullptr; };
  api.PJRT_Event_Destroy = ANSWER(delete a->event);
  api.PJRT_Event_IsReady = ANSWER(std::lock_guard lock(a->event->moment->mutex);
                                  a->is_ready = a->event->moment->is_ready);
  api.PJRT_Event_Await = [](auto* a) -> PJRT_Error* {
    wait_for(a->event->moment);
    std::lock_guard lock(a->event->moment->mutex);
    return a->event->moment->is_error ? work_failed() : nullptr;
  };
  api.PJRT_Event_OnReady = on_ready;
  api.PJRT_Client_Create = create;
  api.PJRT_Client_Destroy = ANSWER(delete a->client);
  api.PJRT_Client_PlatformName =
      ANSWER(a->platform_name = "cpu"; a->platform_name_size = std::strlen(a->platform_name));
  api.PJRT_Client_AddressableDevices =
      ANSWER(a->addressable_devices = a->client->pointers.data();
             a->num_addressable_devices = a->client->pointers.size());
  api.PJRT_Client_Compile = compile;
  api.PJRT_Client_BufferFromHostBuffer = give;
  api.PJRT_Client_CreateViewOfDeviceBuffer = view;
  api.PJRT_Buffer_Destroy = ANSWER(wait_for(a->buffer->taken); delete a->buffer; --live_buffers);
  api.PJRT_Buffer_IsDeleted =
      ANSWER(std::lock_guard lock(blocks); a->is_deleted = !a->buffer->block);
  api.PJRT_Buffer_UnsafePointer =
      ANSWER(std::lock_guard lock(blocks);
             if (!a->buffer->block) return error(PJRT_Error_Code_INVALID_ARGUMENT, "deleted");
             a->buffer_pointer = reinterpret_cast<uintptr_t>(a->buffer->block->data));
  api.PJRT_LoadedExecutable_GetExecutable =
      ANSWER(a->executable = new PJRT_Executable{a->loaded_executable->kind});
  api.PJRT_LoadedExecutable_AddressableDevices =
      ANSWER(a->addressable_devices = a->executable->client->pointers.data();
             a->num_addressable_devices =
                 a->executable->kind == "second" ? a->executable->client->pointers.size() : 1);
  api.PJRT_LoadedExecutable_Destroy = ANSWER(delete a->executable);
  api.PJRT_Executable_Destroy = ANSWER(delete a->executable);
  api.PJRT_Executable_NumReplicas = ANSWER(a->num_replicas = 1);
  api.PJRT_Executable_NumPartitions = ANSWER(a->num_partitions = 1);
  api.PJRT_Executable_OptimizedProgram = optimized_program;
  api.PJRT_Executable_GetCompiledMemoryStats = memory_stats;
  api.PJRT_LoadedExecutable_Execute = execute;
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api table = make_table();
  return &table;
}

/// Returns how many buffers of the plugin are alive.
extern "C" __attribute__((visibility("default"))) int fake_live_buffers() { return live_buffers; }
