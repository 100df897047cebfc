// Groups of simulated devices, and arrays on them.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/collectives.hpp"
#include "gpu_simulator/control.h"
#include "harness.hpp"
#include "seeds.hpp"

namespace devrt::gpu {

using namespace native;
using Buffer = native::Buffer;  // not the template

inline std::shared_ptr<Client> client_with(const std::string& settings) {
  const std::string all = "devices=4 " + settings;
  if (const char* problem = devrt_simulator_configure(all.c_str())) {
    throw std::runtime_error(problem);
  }
  ClientOptions options;
  options.backend_options = {{"library", std::string(SIMULATOR)}};
  return Client::make(std::move(options));
}

inline void no_reports() {
  const std::string reports = devrt_simulator_reports(1);
  if (!reports.empty()) throw std::runtime_error(reports);
}

inline const CollectiveSource kSource{SIMULATOR, "nccl"};

struct Group {
  Group(Client& client, const std::vector<std::size_t>& numbers) {
    communicator = connect(client, take(client, numbers), kSource);
  }
  Group(Client& client, const std::vector<std::size_t>& numbers, const GroupSpan& span) {
    communicator = connect_across(client, take(client, numbers), kSource, span);
  }

  std::vector<const Device*> take(Client& client, const std::vector<std::size_t>& numbers) {
    std::vector<const Device*> pointers;
    for (const std::size_t number : numbers) {
      devices.push_back(client.local_devices()[number]->shared());
      pointers.push_back(devices.back().get());
    }
    return pointers;
  }

  std::vector<Ref<Buffer>> reduce(std::span<const Ref<Buffer>> arguments) const {
    std::vector<const Buffer*> pointers;
    for (const Ref<Buffer>& each : arguments) pointers.push_back(each.get());
    return start_collective(devices, communicator, {}, {pointers, arguments[0]->shape().copy()});
  }

  std::vector<std::shared_ptr<Device>> devices;
  std::shared_ptr<Communicator> communicator;
};

inline std::vector<Ref<Buffer>> put_on(const Group& group, const std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t stride = sizeof(float);
  HostArray source;
  source.type = ElementType::kFloat32;
  source.view = {reinterpret_cast<const std::byte*>(values.data()),
                 {&count, 1},
                 {&stride, 1},
                 sizeof(float),
                 1};
  std::vector<Ref<Buffer>> made;
  for (const auto& device : group.devices) {
    ExternalOwner none;
    made.push_back(device->client().put(device->default_memory(), source, none, {}));
  }
  return made;
}

inline std::vector<float> read(const Buffer& buffer) {
  Client& client = buffer.memory()->client();
  const Client::Fetched fetched =
      client.fetch(*buffer.memory(), client.storage_of(buffer, "fetch"), buffer.ready());
  raise_if_error(fetched.ready.wait());
  std::vector<float> values(buffer.bytes() / sizeof(float));
  std::memcpy(values.data(), fetched.storage->data(), buffer.bytes());
  return values;
}

}  // namespace devrt::gpu
