#include "gpu/kernels.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <variant>

#include "gpu/facts.hpp"

namespace devrt::gpu {

namespace {

using native::LaunchShape;

// Attributes of functions; the vendors number them alike.
constexpr int kMaxThreads = 0;
constexpr int kStaticSharedBytes = 1;
constexpr int kMaxDynamicSharedBytes = 8;
/// Those that are shown, by the drivers' names.
constexpr std::pair<const char*, int> kAttributes[] = {
    {"max_threads_per_block", kMaxThreads},
    {"shared_size_bytes", kStaticSharedBytes},
    {"const_size_bytes", 2},
    {"local_size_bytes", 3},
    {"num_regs", 4},
    {"max_dynamic_shared_size_bytes", kMaxDynamicSharedBytes},
};
// Options of loading.
constexpr int kErrorLog = 5;
constexpr int kErrorLogBytes = 6;
constexpr Result kNoImageForDevice = 209;

/// What a device allows of a launch; -1 where it does not say.
struct Limits {
  std::int64_t threads = -1;
  std::int64_t shared_bytes = -1;
  std::array<std::int64_t, 3> block{-1, -1, -1};
  std::array<std::int64_t, 3> grid{-1, -1, -1};

  explicit Limits(const GpuDevice& device) {
    const LaunchNumbers& numbers = device.driver().attributes.launch;
    const auto get = [&](int first, int offset = 0) -> std::int64_t {
      const int value = first < 0 ? -1 : device.attribute(first + offset);
      return value > 0 ? value : -1;
    };
    threads = get(numbers.threads_of_block);
    shared_bytes = std::max(get(numbers.shared_bytes), get(numbers.shared_bytes_on_request));
    for (int i = 0; i < 3; ++i) {
      block[static_cast<std::size_t>(i)] = get(numbers.first_of_block, i);
      grid[static_cast<std::size_t>(i)] = get(numbers.first_of_grid, i);
    }
  }
};

/// A module of the driver, unloaded with the last share. Launches in flight have one.
class Loaded {
 public:
  Loaded(std::shared_ptr<GpuDevice> device, ModuleHandle* handle) noexcept
      : device_(std::move(device)), handle_(handle) {}
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() {
    if (device_->is_forked()) return;
    const Current current(device_->driver(), device_->context());
    // Nothing was recorded of launches in programs, which may be another client's.
    if (is_lent_.load(std::memory_order_acquire)) (void)device_->driver().call.synchronize();
    (void)device_->driver().call.module_unload(handle_);
  }

  GpuDevice& device() const noexcept { return *device_; }
  ModuleHandle* handle() const noexcept { return handle_; }
  /// Notes that streams of others have launches of it.
  void lend() noexcept { is_lent_.store(true, std::memory_order_release); }

 private:
  const std::shared_ptr<GpuDevice> device_;
  ModuleHandle* const handle_;
  std::atomic<bool> is_lent_{false};
};

/// The last launch of each stream, which a module must not go before.
class LastLaunches {
 public:
  explicit LastLaunches(std::shared_ptr<Loaded> module) noexcept : module_(std::move(module)) {}
  LastLaunches(const LastLaunches&) = delete;
  LastLaunches& operator=(const LastLaunches&) = delete;
  ~LastLaunches() {
    if (module_->device().is_forked()) return;
    for (const auto& [stream, event] : events_) {
      try {
        event.on_ready([module = module_](const Status&) {});
      } catch (...) {
        (void)event.wait();  // no memory to wait elsewhere
      }
    }
  }

  Loaded& module() const noexcept { return *module_; }
  void add(const Stream& stream, const ReadyEvent& event) {
    std::lock_guard lock(mutex_);
    events_[&stream] = event;
  }

 private:
  const std::shared_ptr<Loaded> module_;
  std::mutex mutex_;
  std::map<const Stream*, ReadyEvent> events_;
};

class Function final : public native::KernelFunction {
 public:
  Function(std::shared_ptr<LastLaunches> launches, FunctionHandle* handle, std::string name)
      : launches_(std::move(launches)),
        device_(launches_->module().device()),
        handle_(handle),
        name_(std::move(name)),
        limits_(device_) {
    if (const int threads = get(kMaxThreads); threads > 0) limits_.threads = threads;
    static_shared_bytes_ = std::max<std::int64_t>(get(kStaticSharedBytes), 0);
    shared_bytes_now_ = get(kMaxDynamicSharedBytes);
    learn_parameters();
  }

  void check(const LaunchShape& shape, std::span<const std::size_t> sizes) const override {
    static constexpr const char* kAxes[] = {"x", "y", "z"};
    std::uint64_t threads = 1;
    for (std::size_t i = 0; i < 3; ++i) {
      need(std::string("grid.") + kAxes[i], shape.grid[i], limits_.grid[i]);
      need(std::string("block.") + kAxes[i], shape.block[i], limits_.block[i]);
      threads *= shape.block[i];
    }
    need("threads of a block", threads, limits_.threads);
    const std::int64_t left =
        limits_.shared_bytes < 0 ? -1 : limits_.shared_bytes - static_shared_bytes_;
    need("shared_bytes", shape.shared_bytes, left, 0);
    check_sizes(sizes);
  }

  ReadyEvent launch(const native::Queue& queue, const LaunchShape& shape,
                    std::span<void*> parameters) override {
    Stream& stream = device_.stream(queue.lane, queue.stream);
    const ReadyEvent ended =
        device_.start(stream, [&] { start(stream.handle(), shape, parameters); });
    launches_->add(stream, ended);
    return ended;
  }

  void launch_in(void* stream, const LaunchShape& shape, std::span<void*> parameters) override {
    const Current current(device_.driver(), device_.context());
    device_.check(current.result(), "set_current");
    launches_->module().lend();
    start(static_cast<StreamHandle*>(stream), shape, parameters);
  }

  bool is_current() const noexcept override {
    gpu::Context current = 0;
    return !device_.is_forked() && device_.driver().get_current(&current) == kSuccess &&
           current == device_.context();
  }

  std::vector<std::pair<std::string, std::int64_t>> attributes() const override {
    std::vector<std::pair<std::string, std::int64_t>> found;
    for (const auto& [name, number] : kAttributes) {
      if (const int value = get(number); value >= 0) found.emplace_back(name, value);
    }
    return found;
  }

  std::pair<int, int> suggest_block(std::size_t shared_bytes) const override {
    const Current current(device_.driver(), device_.context());
    device_.check(current.result(), "set_current");
    int grid = 0;
    int block = 0;
    device_.check(device_.driver().suggest_block(handle_, shared_bytes, &grid, &block),
                  "suggest_block");
    return {block, grid};
  }

 private:
  /// Gives it to a stream.
  void start(StreamHandle* stream, const LaunchShape& shape, std::span<void*> parameters) {
    allow_shared(shape.shared_bytes);
    const auto& [x, y, z] = shape.grid;
    const auto& [width, height, depth] = shape.block;
    device_.check(device_.call([&] {
      return device_.driver().call.launch(handle_, x, y, z, width, height, depth,
                                          shape.shared_bytes, stream, parameters.data(), nullptr);
    }),
                  "launch");
  }

  int get(int attribute) const {
    int value = -1;
    (void)device_.driver().call.function_attribute(&value, attribute, handle_);
    return value;
  }

  /// Learns the sizes of the parameters where the driver tells them.
  void learn_parameters() {
    const auto ask = device_.driver().call.function_parameter;
    if (!ask) return;
    std::size_t offset = 0;
    std::size_t bytes = 0;
    for (std::size_t i = 0; ask(handle_, i, &offset, &bytes) == kSuccess; ++i) {
      parameters_.push_back(bytes);
    }
  }

  /// Lets the function have more shared memory than it has without a request.
  void allow_shared(unsigned bytes) {
    const auto set = device_.driver().call.function_set_attribute;
    if (!set) return;
    std::lock_guard lock(mutex_);
    if (static_cast<std::int64_t>(bytes) <= shared_bytes_now_) return;
    const auto size = static_cast<int>(bytes);
    device_.check(device_.call([&] { return set(handle_, kMaxDynamicSharedBytes, size); }),
                  "launch");
    shared_bytes_now_ = bytes;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw StatusError(Status(StatusCode::kInvalidArgument,
                             "launch of '" + name_ + "' failed on " + device_.name() + ": " + why)
                          .during("launch")
                          .on(device_.name()));
  }

  void need(const std::string& what, std::uint64_t given, std::int64_t most,
            std::uint64_t least = 1) const {
    if (given >= least && (most < 0 || given <= static_cast<std::uint64_t>(most))) return;
    refuse(what + " is " + std::to_string(given) + ", and must be at least " +
           std::to_string(least) + (most < 0 ? "." : " and at most " + std::to_string(most) + "."));
  }

  void check_sizes(std::span<const std::size_t> sizes) const {
    if (!device_.driver().call.function_parameter) return;
    if (sizes.size() != parameters_.size()) {
      refuse("it takes " + std::to_string(parameters_.size()) + " parameters, and " +
             std::to_string(sizes.size()) + " are given.");
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == parameters_[i]) continue;
      refuse("argument " + std::to_string(i) + " has " + std::to_string(sizes[i]) +
             " bytes, and the parameter " + std::to_string(parameters_[i]) +
             ". Give an array, or a NumPy scalar of the parameter's type.");
    }
  }

  const std::shared_ptr<LastLaunches> launches_;
  GpuDevice& device_;
  FunctionHandle* const handle_;
  const std::string name_;
  Limits limits_;
  std::int64_t static_shared_bytes_ = 0;
  std::vector<std::size_t> parameters_;
  std::mutex mutex_;
  std::int64_t shared_bytes_now_ = -1;
};

class Module final : public native::KernelModule {
 public:
  explicit Module(std::shared_ptr<Loaded> loaded)
      : launches_(std::make_shared<LastLaunches>(std::move(loaded))) {}

  std::shared_ptr<native::KernelFunction> function(const std::string& name) override {
    const Loaded& module = launches_->module();
    const GpuDevice& device = module.device();
    const Current current(device.driver(), device.context());
    device.check(current.result(), "set_current");
    FunctionHandle* found = nullptr;
    const Result result =
        device.driver().call.module_function(&found, module.handle(), name.c_str());
    if (result != kSuccess) {
      const Status status = device.status(result, "function");
      throw StatusError(
          Status(status.code(), "The module has no kernel '" + name +
                                    "'. C++ changes names: declare it extern \"C\". " +
                                    status.message())
              .during("function")
              .on(device.name()));
    }
    return std::make_shared<Function>(launches_, found, name);
  }

 private:
  const std::shared_ptr<LastLaunches> launches_;
};

/// Returns what a device is, for errors: its kind, and its architecture where that is known.
std::string kind_of(const GpuDevice& device) {
  const native::DeviceFacts facts = facts_of(device, {});
  std::string kind = facts.kind;
  for (const auto& [name, value] : facts.attributes) {
    const auto* text = std::get_if<std::string>(&value);
    if (name == "architecture" && text) kind += ", " + *text;
  }
  return kind;
}

}  // namespace

std::shared_ptr<native::KernelModule> load_module(std::shared_ptr<GpuDevice> device,
                                                  const std::string& image) {
  const Current current(device->driver(), device->context());
  device->check(current.result(), "set_current");
  std::string log(8192, '\0');
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  ModuleHandle* handle = nullptr;
  // A std::string ends with a null, which PTX must.
  const Result result =
      device->driver().call.module_load(&handle, image.c_str(), 2, options, values);
  if (result != kSuccess) {
    const Status status = device->status(result, "compile");
    log.resize(std::min(log.find('\0'), log.size()));
    const bool is_other = result == kNoImageForDevice;
    const std::string why =
        is_other ? " The image has nothing for this device: " + kind_of(*device) + "." : "";
    throw StatusError(Status(status.code(), status.message() + why +
                                                (log.empty() ? "" : " The driver's log:\n" + log))
                          .during("compile")
                          .on(device->name()));
  }
  return std::make_shared<Module>(std::make_shared<Loaded>(std::move(device), handle));
}

}  // namespace devrt::gpu
