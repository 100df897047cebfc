// A call of a program: in stream order on each of its devices, computed by the compiler for the CPU
// from copies of the arguments.
#include <algorithm>
#include <span>

#include "gpu_simulator/kernel_run.hpp"
#include "gpu_simulator/plugin/kernel_calls.hpp"
#include "gpu_simulator/plugin/objects.hpp"

namespace devrt::gpu_simulator::plugin {

namespace {

constexpr char kExecute[] = "PJRT_LoadedExecutable_Execute";

/// What a shard reads or writes; kept until it has ended.
struct Operand {
  std::shared_ptr<Bytes> bytes;
  std::shared_ptr<Mark> filled;
  std::shared_ptr<Outcome> made;
  ElementType type;
  Dims dims;
  std::size_t size;
};

/// One device's part.
struct Shard {
  PJRT_Device* device = nullptr;
  std::vector<Operand> arguments;
  std::vector<Operand> outputs;
  std::vector<Ref<pjrt::Buffer>> given;  // to the compiler's program
  std::vector<Ref<pjrt::Buffer>> made;   // by it
  std::shared_ptr<Work> work = std::make_shared<Work>();
  std::vector<std::unique_ptr<PJRT_Buffer>> results;
};

/// Its shards wait for each other, each in the thread of its stream; the last one computes for all.
class Run : public std::enable_shared_from_this<Run> {
 public:
  explicit Run(const PJRT_LoadedExecutable_Execute_Args& args);

  /// Gives the work to the streams. Throws what the driver reports.
  void start();
  /// Hands out the outputs and events; takes the memory of what is donated.
  void hand_out(const PJRT_LoadedExecutable_Execute_Args& args);

 private:
  bool takes(std::size_t output) const;
  void check_withheld() const;
  void start(std::size_t index);
  void break_off(const Status& why);
  void perform(std::size_t index, Code code, KernelRun& memory) noexcept;
  void copy_in(Shard& shard, std::size_t device, KernelRun& memory) const;
  void copy_out(Shard& shard, KernelRun& memory) const;
  template <class Body>
  void attempt(const Body& body) noexcept;
  bool meet();
  void compute() noexcept;
  void call_program();
  void fail(const Status& status);
  void end(std::size_t index, Code code);

  PJRT_Client& client_;
  const Ref<pjrt::Executable> program_;
  const pjrt::Signature& signature_;
  const std::size_t first_;  // position among the program's devices
  const std::vector<std::int64_t> withheld_;
  PJRT_ExecuteContext* const context_;
  std::vector<Shard> shards_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;
  bool is_over_ = false;
  bool is_computing_ = false;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
};

std::size_t find_first(const PJRT_LoadedExecutable_Execute_Args& args) {
  if (!args.execute_device) return 0;
  const auto& devices = args.executable->devices;
  return static_cast<std::size_t>(std::ranges::find(devices, args.execute_device) -
                                  devices.begin());
}

Run::Run(const PJRT_LoadedExecutable_Execute_Args& args)
    : client_(*args.executable->client),
      program_(args.executable->program.share()),
      signature_(*program_->signature()),
      first_(find_first(args)),
      withheld_(args.options->non_donatable_input_indices,
                args.options->non_donatable_input_indices +
                    args.options->num_non_donatable_input_indices),
      context_(args.options->context),
      shards_(args.num_devices) {
  check_withheld();
  for (std::size_t d = 0; d < shards_.size(); ++d) {
    Shard& shard = shards_[d];
    shard.device = args.executable->devices.at(first_ + d);
    for (PJRT_Buffer* buffer : std::span(args.argument_lists[d], args.num_args)) {
      shard.arguments.push_back({buffer->bytes, buffer->filled, buffer->made, buffer->type,
                                 buffer->dims.copy(), buffer->size});
    }
    for (std::size_t i = 0; i < signature_.outputs.size(); ++i) {
      const pjrt::Tensor& tensor = signature_.outputs[i];
      auto bytes = takes(i) ? shard.arguments[static_cast<std::size_t>(tensor.donor)].bytes
                            : std::make_shared<Bytes>(*shard.device, tensor.bytes);
      shard.outputs.push_back(
          {std::move(bytes), {}, {}, tensor.type, tensor.dims.copy(), tensor.bytes});
    }
  }
}

/// Returns whether an output takes the memory of an argument.
bool Run::takes(std::size_t output) const {
  const int donor = signature_.outputs[output].donor;
  return donor >= 0 && std::ranges::find(withheld_, donor) == withheld_.end();
}

void Run::check_withheld() const {
  for (const std::int64_t index : withheld_) {
    if (!signature_.parameters.at(static_cast<std::size_t>(index)).is_must) continue;
    throw StatusError(Status(StatusCode::kInvalidArgument,
                             "parameter " + std::to_string(index) + " must be donated"));
  }
}

void Run::start() {
  const std::lock_guard lock(client_.launching);
  try {
    for (std::size_t i = 0; i < shards_.size(); ++i) start(i);
  } catch (const StatusError& error) {
    break_off(error.status());
    throw;
  } catch (...) {
    break_off(Status(StatusCode::kInternal, "It could not be started."));
    throw;
  }
}

/// Has the shards that were started do nothing. The caller gives its context up after that.
void Run::break_off(const Status& why) {
  fail(why);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_computing_; });
}

void Run::start(std::size_t index) {
  Shard& shard = shards_[index];
  const PJRT_Device& device = *shard.device;
  for (const Operand& argument : shard.arguments) {
    if (argument.filled) argument.filled->order(device.compute);
  }
  call_driver(kExecute, device.number, [&](Machine& machine, const Call& call) {
    machine.run(call, device.compute,
                [self = shared_from_this(), index](Code code, KernelRun& memory) {
                  self->perform(index, code, memory);
                });
  });
  const auto filled = std::make_shared<Mark>(device, device.compute);
  for (const Operand& output : shard.outputs) {
    shard.results.emplace_back(new PJRT_Buffer{output.bytes, filled, outcome_, output.type,
                                               output.dims.copy(), output.size});
  }
  call_driver(kExecute, device.number, [&](Machine& machine, const Call& call) {
    machine.call_host(call, device.compute, true, [self = shared_from_this(), index](Code code) {
      self->client_.endings->push([self, index, code] { self->end(index, code); });
    });
  });
}

void Run::hand_out(const PJRT_LoadedExecutable_Execute_Args& args) {
  for (std::size_t d = 0; d < shards_.size(); ++d) {
    for (std::size_t i = 0; i < shards_[d].results.size(); ++i) {
      const auto donor = static_cast<std::size_t>(signature_.outputs[i].donor);
      if (takes(i)) args.argument_lists[d][donor]->bytes.reset();
      args.output_lists[d][i] = shards_[d].results[i].release();
    }
    if (args.device_complete_events) {
      args.device_complete_events[d] = new PJRT_Event{shards_[d].work};
    }
  }
}

/// Does a shard's work, in the thread of its stream.
void Run::perform(std::size_t index, Code code, KernelRun& memory) noexcept {
  Shard& shard = shards_[index];
  const std::size_t device = program_->devices()[first_ + index];
  attempt([&] {
    raise_if_error(code == Code::kSuccess ? Status() : status_of(code, kExecute));
    copy_in(shard, device, memory);
  });
  if (meet()) return attempt([&] { copy_out(shard, memory); });
  for (const Operand& output : shard.outputs) memory.leave(output.bytes->address(), output.size);
}

/// Does a part of the work, and keeps how it failed.
template <class Body>
void Run::attempt(const Body& body) noexcept {
  try {
    body();
  } catch (const StatusError& error) {
    fail(error.status());
  } catch (const std::exception& error) {
    fail(Status(StatusCode::kInternal, error.what()));
  }
}

void Run::copy_in(Shard& shard, std::size_t device, KernelRun& memory) const {
  pjrt::Client& compiler = *client_.compiler;
  for (const Operand& argument : shard.arguments) {
    if (argument.made) raise_if_error(argument.made->status());
    std::vector<std::byte> bytes(argument.size);
    if (argument.size) memory.read(argument.bytes->address(), bytes.data(), bytes.size());
    shard.given.push_back(pjrt::Buffer::copy(compiler, compiler.devices()[device], bytes.data(),
                                             argument.type, argument.dims.span()));
  }
}

void Run::copy_out(Shard& shard, KernelRun& memory) const {
  for (std::size_t i = 0; i < shard.outputs.size(); ++i) {
    const Operand& output = shard.outputs[i];
    if (!output.size) continue;
    std::vector<std::byte> bytes(output.size);
    raise_if_error(shard.made[i]->copy_to(bytes.data(), bytes.size(), output.dims.size()).wait());
    memory.write(output.bytes->address(), bytes.data(), bytes.size());
  }
}

/// Waits until all shards have come here, and the program has run. Returns whether it has.
bool Run::meet() {
  std::unique_lock lock(mutex_);
  if (++arrived_ < shards_.size()) {
    changed_.wait(lock, [this] { return is_over_; });
    return outcome_->status().ok();
  }
  is_computing_ = outcome_->status().ok();
  if (is_computing_) {
    lock.unlock();
    compute();
    lock.lock();
  }
  is_computing_ = false;
  is_over_ = true;
  changed_.notify_all();
  return outcome_->status().ok();
}

void Run::compute() noexcept {
  attempt([this] { call_program(); });
  for (Shard& shard : shards_) shard.given.clear();
}

void Run::call_program() {
  if (context_) tell_kernel_calls(*context_, client_);
  std::vector<std::vector<PJRT_Buffer*>> raw;
  for (Shard& shard : shards_) {
    std::vector<PJRT_Buffer*>& arguments = raw.emplace_back();
    for (const auto& each : shard.given) arguments.push_back(each->get());
    raw.emplace_back(shard.outputs.size());
  }
  std::vector<pjrt::ShardCall> calls;
  for (std::size_t i = 0; i < raw.size(); i += 2) calls.push_back({raw[i], raw[i + 1], {}});
  std::vector<pjrt::Event> events;
  std::unique_lock together(client_.together, std::defer_lock);
  if (calls.size() > 1) {
    together.lock();
    events = program_->execute_all(calls, context_);
  } else {
    events.push_back(program_->execute_one(first_, calls.front(), context_));
  }
  Status status;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    for (PJRT_Buffer* buffer : raw[2 * i + 1]) {
      shards_[i].made.push_back(pjrt::Buffer::own(*client_.compiler, buffer));
    }
    const Status ended = events[i].wait();
    if (status.ok()) status = ended;
  }
  raise_if_error(std::move(status));
}

void Run::fail(const Status& status) {
  outcome_->fail(status);
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

/// Says that a shard has ended, in a thread that may call the driver.
void Run::end(std::size_t index, Code code) {
  Shard& shard = shards_[index];
  Status status = outcome_->status();
  if (status.ok() && code != Code::kSuccess) status = status_of(code, kExecute);
  const std::shared_ptr<Work> work = shard.work;
  shard.made.clear();
  shard.arguments.clear();  // before anybody learns of it: what is ready may be donated
  shard.outputs.clear();
  work->end(status);
}

}  // namespace

void execute(PJRT_LoadedExecutable_Execute_Args& args) {
  const auto run = std::make_shared<Run>(args);
  run->start();
  run->hand_out(args);
}

}  // namespace devrt::gpu_simulator::plugin
