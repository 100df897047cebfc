// Launches: what is checked before one, and the order that it has with what fills its arrays.
#include "client/kernels.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "client/device_work.hpp"

namespace devrt::native {

namespace {

constexpr const char* kOperation = "launch";

/// A launch, which may have to wait.
struct KernelWork {
  Queue queue;
  std::shared_ptr<KernelFunction> function;
  LaunchShape shape;
  std::vector<KernelScalar> parameters = {};
  std::vector<Ref<Storage>> storages = {};
  std::vector<ReadyEvent> after = {};

  void add(const void* data, std::size_t bytes) {
    std::memcpy(parameters.emplace_back().bytes.data(), data, bytes);
    parameters.back().size = bytes;
  }

  void add(Ref<Storage> storage) {
    const std::byte* data = storage->data();
    add(&data, sizeof data);
    storages.push_back(std::move(storage));
  }

  ReadyEvent start(DeviceBackend&) const {
    std::vector<void*> pointers;
    for (const KernelScalar& each : parameters) {
      pointers.push_back(const_cast<std::byte*>(each.bytes.data()));
    }
    return function->launch(queue, shape, pointers);
  }
};

void check_argument(const Device& device, const Buffer& buffer, std::size_t number) {
  const Memory& memory = *buffer.memory();
  if (&memory.device() == &device && memory.is_for_kernels()) return;
  throw StatusError(Status(StatusCode::kInvalidArgument,
                           "launch failed: argument " + std::to_string(number) + " lies in " +
                               memory.kind() + " of " + memory.device().name() +
                               ", and the kernel runs on " + device.name() +
                               ". Put it into that device's memory first.")
                        .during(kOperation)
                        .on(device.name()));
}

std::vector<std::size_t> sizes_of(std::span<const KernelArgument> arguments) {
  std::vector<std::size_t> sizes;
  for (const KernelArgument& argument : arguments) {
    const auto* scalar = std::get_if<KernelScalar>(&argument);
    sizes.push_back(scalar ? scalar->size : sizeof(void*));
  }
  return sizes;
}

/// Adds an argument to a launch; returns the storage of one that it makes.
Ref<Storage> add_argument(KernelWork& work, Device& device, const KernelArgument& argument,
                          std::size_t number) {
  if (const auto* scalar = std::get_if<KernelScalar>(&argument)) {
    work.add(scalar->bytes.data(), scalar->size);
    return {};
  }
  if (const auto* given = std::get_if<const Buffer*>(&argument)) {
    const Buffer& buffer = **given;
    Ref<Storage> storage = buffer.memory()->client().storage_of(buffer, kOperation);
    check_argument(device, buffer, number);
    work.after.push_back(buffer.ready());
    work.add(std::move(storage));
    return {};
  }
  const auto& output = std::get<KernelOutput>(argument);
  Ref<Storage> made =
      device.default_memory().allocate(checked_bytes(output.shape.span(), itemsize(output.type)));
  work.add(made.share());
  return made;
}

}  // namespace

std::shared_ptr<KernelModule> load_kernels(const Client& client, const Device& device,
                                           const std::string& image) {
  client.check_open("compile");
  (void)device.default_memory();  // throws on another process's
  const auto number = static_cast<std::size_t>(device.local_id());
  raise_if_error(client.backend().health(number));
  return client.backend().load_kernels(number, image);
}

std::vector<Ref<Buffer>> launch_kernel(Device& device,
                                       const std::shared_ptr<KernelFunction>& function,
                                       const LaunchShape& shape,
                                       std::span<KernelArgument> arguments, std::int64_t stream) {
  Client& client = device.client();
  client.check_open(kOperation);
  function->check(shape, sizes_of(arguments));
  KernelWork work{
      {static_cast<std::size_t>(device.local_id()), Lane::kWithin, stream}, function, shape};
  std::vector<Ref<Storage>> made;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (Ref<Storage> storage = add_argument(work, device, arguments[i], i)) {
      made.push_back(std::move(storage));
    }
  }
  const ReadyEvent ready = start_in_order(client.shared_backend(), device, std::move(work));
  std::vector<Ref<Buffer>> results;
  for (KernelArgument& argument : arguments) {
    auto* output = std::get_if<KernelOutput>(&argument);
    if (!output) continue;
    results.push_back(Buffer::make(device.default_memory().shared(), output->type,
                                   std::move(output->shape), std::move(made[results.size()]),
                                   ready));
  }
  return results;
}

}  // namespace devrt::native
