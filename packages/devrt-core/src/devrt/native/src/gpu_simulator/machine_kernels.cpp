// Modules and launches: functions of the host, called for each block of a grid; and programs.
#include <cstring>

#include "gpu_simulator/kernel_run.hpp"
#include "gpu_simulator/program_call.hpp"

namespace devrt::gpu_simulator {
namespace {

constexpr unsigned kMaxThreads = 1024;

/// What a kernel that a program calls finds at addresses: the call's arrays.
class ProgramMemory {
 public:
  explicit ProgramMemory(const ProgramCall& call) noexcept : call_(call) {}

  std::byte* bytes(Address address, std::size_t count, bool writes) {
    if (std::byte* const found = call_.find(address, count, writes)) return found;
    faults_.push_back((writes ? "writes " : "reads ") + std::to_string(count) + " bytes at " +
                      hex(address) + ", which are no " + (writes ? "result" : "array") +
                      " of the program's call");
    return nowhere_.emplace_back(count).data();
  }
  const std::vector<std::string>& faults() const noexcept { return faults_; }

 private:
  const ProgramCall& call_;
  std::vector<std::string> faults_;
  std::deque<std::vector<std::byte>> nowhere_;
};

/// Calls a kernel for each block of a grid; `memory` finds its bytes.
template <class Memory>
void run_blocks(const Kernel& kernel, const Launch& launch,
                std::vector<std::vector<std::byte>>& parameters, Memory& memory) {
  std::vector<void*> pointers;
  for (auto& each : parameters) pointers.push_back(each.data());
  devrt_simulator_launch block{};
  block.struct_size = sizeof(block);
  block.shared_bytes = launch.shared_bytes;
  block.context = &memory;
  block.read = [](void* context, std::uint64_t address, std::size_t bytes) -> const void* {
    return static_cast<Memory*>(context)->bytes(address, bytes, false);
  };
  block.write = [](void* context, std::uint64_t address, std::size_t bytes) -> void* {
    return static_cast<Memory*>(context)->bytes(address, bytes, true);
  };
  std::copy(launch.grid.begin(), launch.grid.end(), block.grid);
  std::copy(launch.block.begin(), launch.block.end(), block.block);
  auto& at = block.block_index;
  for (at[2] = 0; at[2] < block.grid[2]; ++at[2]) {
    for (at[1] = 0; at[1] < block.grid[1]; ++at[1]) {
      for (at[0] = 0; at[0] < block.grid[0]; ++at[0]) {
        std::vector<std::byte> shared(launch.shared_bytes);
        block.shared = shared.data();
        kernel.run(&block, pointers.data());
      }
    }
  }
}

/// Copies a launch's parameters: the caller may change its own when the call has returned.
std::vector<std::vector<std::byte>> copy_parameters(const Launch& launch,
                                                    const std::vector<std::size_t>& sizes) {
  std::vector<std::vector<std::byte>> copies;
  const auto* packed = static_cast<const std::byte*>(launch.packed);
  std::size_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t bytes = sizes[i];
    if (packed) at = (at + bytes - 1) / bytes * bytes;
    if (packed ? at + bytes > launch.packed_bytes : !launch.parameters || !launch.parameters[i]) {
      throw Failure{Code::kInvalidValue};
    }
    const std::byte* from = packed ? packed + at : static_cast<std::byte*>(launch.parameters[i]);
    copies.emplace_back(from, from + bytes);
    at += bytes;
  }
  return copies;
}

/// Says that a kernel that does not run writes nothing, wherever its parameters point.
void leave_all(KernelRun memory, const std::vector<std::vector<std::byte>>& parameters) {
  for (const auto& each : parameters) {
    Address address = 0;
    if (each.size() != sizeof(address)) continue;
    std::memcpy(&address, each.data(), sizeof(address));
    memory.leave(address, SIZE_MAX - address);
  }
}

}  // namespace

Handle Machine::load_module(const void* image) {
  const Lock lock(state_);
  usable_device();
  const Handle handle = new_handle();
  modules_[handle] = std::make_shared<Module>(image, current());
  return handle;
}

void Machine::unload_module(const Call& call, Handle handle) {
  const Lock lock(state_);
  const auto found = modules_.find(handle);
  if (found == modules_.end()) refuse_handle(call, handle, "module");
  std::erase_if(kernels_, [&](const auto& each) { return each.second.module == found->second; });
  modules_.erase(found);
}

Handle Machine::function(const Call& call, Handle module, const char* name) {
  const Lock lock(state_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) refuse_handle(call, module, "module");
  Kernel kernel{found->second, nullptr, {}};
  kernel.run = reinterpret_cast<devrt_simulator_kernel>(kernel.module->symbol(name));
  const std::string sizes = std::string(name) + "_parameters";
  const auto* size = static_cast<const unsigned*>(kernel.module->symbol(sizes.c_str()));
  if (!kernel.run || !size) throw Failure{Code::kNotFound};
  for (; *size; ++size) kernel.parameters.push_back(*size);
  const Handle handle = new_handle();
  kernels_[handle] = std::move(kernel);
  return handle;
}

void Machine::check_function(Handle handle) {
  const Lock lock(state_);
  if (!kernels_.contains(handle)) throw Failure{Code::kInvalidHandle};
}

std::size_t Machine::parameter_bytes(Handle handle, std::size_t index) {
  const Lock lock(state_);
  const auto found = kernels_.find(handle);
  if (found == kernels_.end()) throw Failure{Code::kInvalidHandle};
  const std::vector<std::size_t>& sizes = found->second.parameters;
  if (index >= sizes.size()) throw Failure{Code::kInvalidValue};
  return sizes[index];
}

Kernel Machine::kernel_for(const Call& call, const Launch& launch, Handle handle) {
  const auto found = kernels_.find(handle);
  if (found == kernels_.end()) refuse_handle(call, handle, "function");
  const auto [x, y, z] = launch.block;
  const auto [width, height, depth] = launch.grid;
  const bool fits = x && y && z && width && height && depth && height <= 65535 && depth <= 65535;
  if (!fits || std::uint64_t{x} * y * z > kMaxThreads) throw Failure{Code::kInvalidValue};
  if (launch.shared_bytes > static_cast<std::size_t>(model_.shared_bytes_per_block)) {
    throw Failure{Code::kInvalidValue};
  }
  return found->second;
}

void Machine::launch(const Call& call, const Launch& launch, Handle handle, Handle stream_handle) {
  if (stream_handle == kProgramStream) return launch_in_program(call, launch, handle);
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, stream_handle, true);
  const Kernel kernel = kernel_for(call, launch, handle);
  if (kernel.module->context != stream->context) throw Failure{Code::kInvalidHandle};
  auto parameters = copy_parameters(launch, kernel.parameters);
  std::vector<Point> waits = join_default(*stream);
  const MomentRef moment = moment_on(call, *stream);
  ++running_kernels_;
  const auto run = [this, moment, launch, kernel,
                    parameters = std::move(parameters)](Code error) mutable {
    if (error == Code::kSuccess) {
      run_kernel(kernel, launch, parameters, moment);
    } else {
      leave_all(KernelRun(*this, moment->device, moment), parameters);
    }
    const Lock state(state_);
    --running_kernels_;
  };
  enqueue(stream, moment, std::move(waits), run, true);
}

void Machine::launch_in_program(const Call& call, const Launch& launch, Handle handle) {
  const ProgramCall* const made = ProgramCall::current();
  if (!made) throw Failure{Code::kInvalidHandle};
  Kernel kernel;
  {
    const Lock lock(state_);
    if (usable_device() != made->device()) throw Failure{Code::kInvalidHandle};
    kernel = kernel_for(call, launch, handle);
    if (kernel.module->context != current()) throw Failure{Code::kInvalidHandle};
  }
  auto parameters = copy_parameters(launch, kernel.parameters);
  ProgramMemory memory(*made);
  run_blocks(kernel, launch, parameters, memory);
  if (memory.faults().empty()) return;
  const Lock bytes(bytes_);
  const Lock lock(state_);
  for (const std::string& fault : memory.faults()) {
    reports_.add("illegal address", std::string(call.function) + " (call " +
                                        std::to_string(call.number) + ") of a program " + fault);
    devices_[static_cast<std::size_t>(made->device())].error = Code::kIllegalAddress;
  }
}

void Machine::run(const Call& call, Handle stream_handle,
                  std::function<void(Code, KernelRun&)> work) {
  const Lock lock(state_);
  const StreamRef stream = stream_of(call, stream_handle, true);
  std::vector<Point> waits = join_default(*stream);
  const MomentRef moment = moment_on(call, *stream);
  ++running_kernels_;
  const auto run = [this, moment, work = std::move(work)](Code error) {
    KernelRun memory(*this, moment->device, moment);
    work(error, memory);
    const Lock state(state_);
    --running_kernels_;
  };
  enqueue(stream, moment, std::move(waits), run, true);
}

void Machine::run_kernel(const Kernel& kernel, const Launch& launch,
                         std::vector<std::vector<std::byte>>& parameters, const MomentRef& moment) {
  const Lock memory(bytes_);
  KernelRun run(*this, moment->device, moment);
  run_blocks(kernel, launch, parameters, run);
}

}  // namespace devrt::gpu_simulator
