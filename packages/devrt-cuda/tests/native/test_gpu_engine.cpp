// Programs on simulated devices, by a plugin that has streams of its own: what the client orders
// and keeps, and a plugin that does not do its part.
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "client/nodes.hpp"
#include "execution/executable.hpp"
#include "gate.hpp"
#include "gpu_client.hpp"

namespace devrt::gpu {

namespace {

std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

/// Returns an HloModuleProtoWithConfig of a program on arrays of `kCount` floats.
std::string module_of(const std::string& name, int parameters) {
  static_assert(kCount == 0xe0 - 0x80 + ((0xa7 - 0x80) << 7) + (0x12 << 14));  // the varint below
  const std::string shape = std::string("\x10\x0b", 2) + field(3, "\xe0\xa7\x12");
  std::string types;
  for (int i = 0; i < parameters; ++i) types += field(1, shape);
  std::string module = field(1, name) + field(4, types + field(2, shape));
  if (name == "same") module += field(8, field(1, std::string("\x20\x01", 2)));
  return field(1, module);
}

/// A folder of what the plugin's programs were compiled to, and the plugin's environment.
struct Plugin {
  explicit Plugin(const char* faults = "") {
    std::filesystem::create_directory(folder);
    std::ofstream(folder / "add.hlo", std::ios::binary) << module_of("add", 2);
    std::ofstream(folder / "same.hlo", std::ios::binary) << module_of("same", 1);
    setenv("FAKE_GPU_DRIVER", SIMULATOR, 1);
    setenv("FAKE_GPU_KERNELS", FAKE_KERNELS, 1);
    setenv("FAKE_GPU_MODULES", folder.c_str(), 1);
    setenv("FAKE_GPU_FAULTS", faults, 1);
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  ~Plugin() { std::filesystem::remove_all(folder); }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("gpu_modules_" + std::to_string(getpid()));
};

Ref<Executable> compile(Client& client, const std::string& name) {
  return Executable::compile(client, FAKE_PLUGIN, {"module @" + name + " {}", "mlir", ""});
}

Ref<Buffer> call(const Executable& executable, std::vector<Buffer*> arguments) {
  const std::span<Buffer* const> row(arguments);
  (void)executable.check({&row, 1}, "execute");
  Ref<Buffer> result;
  executable.execute({&row, 1}, {&result, 1});
  return result;
}

void run_programs(Client& client, const Executable& add, const Executable& same) {
  const std::vector<float> values = counting(kCount);
  const Ref<Buffer> pinned = put(client, memory_of(client, 0, "pinned_host"), values);
  Ref<Buffer> x = client.copy(*pinned, memory_of(client), false);
  Ref<Buffer> y = call(add, {x.get(), x.get()});
  x.reset();  // its memory stays until the program has ended
  const Ref<Buffer> z = call(add, {y.get(), y.get()});
  const Ref<Buffer> there = client.copy(*z, memory_of(client, 1), false);
  Ref<Buffer> kept = client.copy(*y, memory_of(client), false, 2);
  const Ref<Buffer> taken = call(same, {y.get()});  // behind who reads it
  CHECK(y->is_deleted());
  const std::vector<float> came = fetch(client, *there);
  CHECK(came[0] == 4 && came[kCount - 1] == 4 * values[kCount - 1]);
  CHECK(fetch(client, *kept)[9] == 20);
  CHECK(fetch(client, *taken).size() == kCount);
}

std::string reports_of(const char* faults, int calls) {
  const Plugin plugin(faults);
  const auto client = client_on("devices=2 delay=300");
  {
    const Ref<Executable> add = compile(*client, "add");
    const Ref<Executable> same = compile(*client, "same");
    for (int i = 0; i < calls; ++i) {
      try {
        run_programs(*client, *add, *same);
      } catch (const std::exception&) {
        if (!*faults) throw;
      }
    }
  }
  client->close();
  return devrt_simulator_reports(1);
}

/// The keys of a job whose processes are threads.
class SharedKeys final : public pjrt::KeyValueStore {
 public:
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    // A system-clock wait: gcc 12's TSan misses the steady one.
    const auto until = std::chrono::system_clock::now() + timeout;
    if (changed_.wait_until(lock, until, [&] { return values_.contains(key); })) {
      return values_.find(key)->second;
    }
    throw StatusError(Status(StatusCode::kDeadlineExceeded, "nobody set " + std::string(key)));
  }
  std::string try_get(std::string_view key) override {
    std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    throw StatusError(Status(StatusCode::kNotFound, "it is not set"));
  }
  void set(std::string_view key, std::string_view value) override {
    if (is_full) throw std::runtime_error("no more keys");
    std::lock_guard lock(mutex_);
    values_[std::string(key)] = value;
    changed_.notify_all();
  }

  bool is_full = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

/// Makes the client of one of two processes that have equal devices.
std::shared_ptr<Client> client_of_node(int node) {
  ClientOptions options = options_with();
  options.node_id = node;
  options.num_nodes = 2;
  return Client::make(std::move(options), [](std::span<const DeviceFacts> local) {
    std::vector<NodeDevice> mine;
    for (const DeviceFacts& device : local) mine.push_back({device.local_hardware_id, device.kind});
    return std::vector<NodeFacts>{{mine, 0}, {mine, 0}};
  });
}

std::string numbers_of(const native::Engine& engine) {
  std::string text;
  for (const std::int64_t number : engine.numbers()) text += std::to_string(number) + " ";
  for (const pjrt::DeviceNumber& device : engine.client().all_numbers()) {
    text += std::to_string(device.process) + ":" + std::to_string(device.id) + " ";
  }
  return text;
}

}  // namespace

TEST_CASE(gpu_engines_of_a_job_know_the_devices_of_all_processes) {
  const Plugin plugin;
  configure("devices=2 delay=0");
  const auto keys = std::make_shared<SharedKeys>();
  std::string found[2];
  std::vector<std::thread> threads;
  for (int node = 0; node < 2; ++node) {
    threads.emplace_back([&, node] {
      const auto client = client_of_node(node);
      found[node] = numbers_of(*client->engine(FAKE_PLUGIN, keys));
      client->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(found[0] == "0 1 0:0 0:1 1:2 1:3 ");
  CHECK(found[1] == "2 3 0:0 0:1 1:2 1:3 ");
  check_no_reports();
}

TEST_CASE(gpu_engine_of_a_job_has_the_error_of_its_keys) {
  const Plugin plugin;
  configure("devices=2 delay=0");
  setenv("FAKE_GPU_TIMEOUT", "20", 1);
  const auto keys = std::make_shared<SharedKeys>();
  const auto client = client_of_node(0);
  for (const bool is_full : {false, true}) {
    keys->is_full = is_full;
    try {
      (void)client->engine(FAKE_PLUGIN, keys);
      CHECK(false);
    } catch (const StatusError& error) {
      const StatusCode code = error.status().code();
      CHECK(code == (is_full ? StatusCode::kInternal : StatusCode::kDeadlineExceeded));
      const std::string_view words = is_full ? "no more keys" : "nobody set fake/local/1";
      CHECK(error.status().message().find(words) != std::string::npos);
    }
  }
  client->close();
  unsetenv("FAKE_GPU_TIMEOUT");
}

TEST_CASE(gpu_programs_are_ordered_and_keep_what_they_use) {
  for (const char* plugin : {"", "early"}) {  // older ones give up views early
    const std::string reports = reports_of(plugin, seeds(10));
    if (!reports.empty()) throw std::runtime_error(plugin + (": " + reports));
  }
}

TEST_CASE(gpu_array_whose_copy_is_under_way_is_donated_and_one_that_is_read_is_not) {
  const Plugin plugin;
  const auto client = client_on("devices=2 delay=0");
  for (const bool is_read : {false, true}) {
    const Ref<Executable> same = compile(*client, "same");
    const std::vector<float> values = counting(kCount);
    const Ref<Buffer> pinned = put(*client, memory_of(*client, 0, "pinned_host"), values);
    raise_if_error(pinned->ready().wait());
    const native::Queue held{0, is_read ? native::Lane::kFromDevice : native::Lane::kToDevice, 0};
    Gate gate(reinterpret_cast<void*>(*client->backend().stream_handle(held)));
    const Ref<Buffer> x = client->copy(*pinned, memory_of(*client), false);
    const std::byte* const address = x->storage()->data();
    Ref<Buffer> read;
    if (is_read) read = client->copy(*x, memory_of(*client, 0, "pinned_host"), false);
    const Ref<Buffer> taken = call(*same, {x.get()});
    CHECK(x->is_deleted());
    gate.open();
    CHECK(fetch(*client, *taken)[5] == (is_read ? values[5] : 0));  // written over where taken
    CHECK((taken->storage()->data() == address) != is_read);
    if (is_read) CHECK(fetch(*client, *read) == values);
    raise_if_error(taken->ready().wait());  // the plugin's thread uses the machine until then
  }
  client->close();
  check_no_reports();
}

TEST_CASE(gpu_program_fails_with_the_lost_device_that_its_argument_came_from) {
  const Plugin plugin;
  const auto client = client_on("devices=2 delay=0");
  const Ref<Executable> add = compile(*client, "add");
  const Ref<Buffer> there = put(*client, memory_of(*client, 1), counting(kCount));
  const Ref<Buffer> here = put(*client, memory_of(*client), counting(kCount));
  raise_if_error(there->ready().wait());
  Gate gate(
      reinterpret_cast<void*>(*client->backend().stream_handle({1, native::Lane::kWithin, 0})));
  const Ref<Buffer> moved = client->copy(*there, memory_of(*client), false);
  const Ref<Buffer> once = call(*add, {moved.get(), here.get()});
  const Ref<Buffer> twice = call(*add, {once.get(), once.get()});
  const Ref<Buffer> copied = client->copy(*twice, memory_of(*client), false, 2);
  const Ref<Buffer> other = call(*add, {here.get(), here.get()});
  devrt_simulator_lose(1);
  gate.open();
  for (const Buffer* lost : {moved.get(), once.get(), twice.get(), copied.get()}) {
    const Status status = lost->ready().wait();
    CHECK(status.code() == StatusCode::kDataLoss && status.device() == "cuda:1");
  }
  CHECK(fetch(*client, *other)[5] == 12);
  client->close();
  check_no_reports();
}

TEST_CASE(gpu_plugin_that_waits_for_nothing_is_found) {
  for (const char* fault : {"before", "after"}) {
    if (reports_of(fault, 10).empty()) throw std::runtime_error(std::string(fault) + " is unseen");
  }
}

}  // namespace devrt::gpu
