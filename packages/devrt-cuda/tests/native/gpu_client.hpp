// A client of simulated GPUs for each test, and what tests do with it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "client/assembly.hpp"
#include "client/client.hpp"
#include "client/kernels.hpp"
#include "gpu/backend.hpp"
#include "gpu_simulator/control.h"
#include "harness.hpp"
#include "seeds.hpp"

namespace devrt::gpu {

using namespace native;
using Buffer = native::Buffer;  // not the template

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kCount = 300'000;  // float: more than the arena in front of a pool takes

inline void configure(const std::string& settings) {
  const char* const problem = devrt_simulator_configure(settings.c_str());
  if (problem) throw std::runtime_error(problem);
}

inline ClientOptions options_with(std::vector<pjrt::Option> own = {}) {
  ClientOptions options;
  own.push_back({"library", std::string(SIMULATOR)});
  options.backend_options = std::move(own);
  return options;
}

inline std::shared_ptr<Client> client_on(const std::string& settings,
                                         std::vector<pjrt::Option> own = {}) {
  configure(settings);
  return Client::make(options_with(std::move(own)));
}

/// Throws what the simulator found wrong with the client.
inline void check_no_reports(const std::string& about = {}) {
  const std::string reports = devrt_simulator_reports(1);
  if (!reports.empty()) throw std::runtime_error(about + " " + reports);
}

inline Memory& memory_of(Client& client, std::size_t device = 0, const char* kind = "device") {
  return client.local_devices()[device]->memory(kind);
}

inline std::vector<float> counting(std::size_t count, float first = 1) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Puts a copy of values, which is destroyed at the end of the transfer.
inline Ref<Buffer> put(Client& client, Memory& memory, const std::vector<float>& values,
                       std::int64_t stream = 0) {
  auto* const kept = new std::vector<float>(values);
  ExternalOwner hold(kept,
                     [](void* held) noexcept { delete static_cast<std::vector<float>*>(held); });
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t stride = sizeof(float);
  HostArray source;
  source.type = ElementType::kFloat32;
  source.view = {reinterpret_cast<const std::byte*>(kept->data()),
                 {&count, 1},
                 {&stride, 1},
                 sizeof(float),
                 1};
  return client.put(memory, source, hold,
                    {.semantics = Semantics::kUntilTransferCompletes, .stream = stream});
}

inline std::vector<float> fetch(Client& client, const Buffer& buffer) {
  const Client::Fetched fetched =
      client.fetch(*buffer.memory(), client.storage_of(buffer, "fetch"), buffer.ready());
  raise_if_error(fetched.ready.wait());
  std::vector<float> values(buffer.bytes() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), fetched.storage->data(), buffer.bytes());
  return values;
}

/// Assembles one block for one target. `numbers` is the packed form of the assembly.
inline Ref<Buffer> assemble(Client& client, std::vector<const Buffer*> sources, Memory& target,
                            const std::vector<std::int64_t>& numbers, bool may_alias = false) {
  Memory* const targets[] = {&target};
  return std::move(client.assemble(sources, Assembly::read(numbers), targets, may_alias).front());
}

/// Returns the kernels of the tests.
inline std::string kernels_image() {
  std::ifstream file(KERNELS, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::shared_ptr<KernelFunction> kernel(const Client& client, std::size_t device,
                                              const std::string& name) {
  return load_kernels(client, *client.local_devices()[device], kernels_image())->function(name);
}

inline KernelScalar scalar(std::uint64_t value) {
  KernelScalar made;
  std::memcpy(made.bytes.data(), &value, sizeof value);
  made.size = sizeof value;
  return made;
}

/// Launches `sum` on two arrays.
inline Ref<Buffer> sum(Client& client, std::size_t device,
                       const std::shared_ptr<KernelFunction>& function, const Buffer& a,
                       const Buffer& b, std::int64_t stream = 0) {
  const auto count = static_cast<std::int64_t>(a.bytes() / sizeof(float));
  std::vector<KernelArgument> arguments;
  arguments.emplace_back(&a);
  arguments.emplace_back(&b);
  arguments.emplace_back(KernelOutput{ElementType::kFloat32, Dims({&count, 1})});
  arguments.emplace_back(scalar(static_cast<std::uint64_t>(count)));
  return std::move(
      launch_kernel(*client.local_devices()[device], function, {}, arguments, stream).front());
}

}  // namespace devrt::gpu
