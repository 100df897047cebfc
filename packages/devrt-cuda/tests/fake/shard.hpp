// Clients, programs and buffers of the fake plugin, and what one device does in a call.
#pragma once

#include <algorithm>
#include <span>

#include "calls.hpp"
#include "devrt/pjrt/engine/proto_reader.hpp"
#include "job.hpp"
#include "objects.hpp"

struct PJRT_Buffer {
  std::shared_ptr<Bytes> bytes;
  std::shared_ptr<Work> filled;  // null where it is there
  std::shared_ptr<Work> used;
  std::size_t size = 0;
};
struct PJRT_Executable {
  std::string name, module, text, target;  // of a custom call, if it makes one
};
struct PJRT_LoadedExecutable {
  PJRT_Executable executable;
  std::vector<PJRT_Device*> devices;  // of this process, in the order of the assignment
};
struct PJRT_Client {
  std::vector<PJRT_Device> devices;
  std::vector<PJRT_Device*> pointers;
  std::vector<PJRT_Device> others;  // of other processes
  std::vector<PJRT_Device*> all;
  Job job;
};

/// Numbers the devices of all processes, one process after the other.
inline void number_devices(PJRT_Client& client) {
  const std::vector<int> counts = client.job.exchange(static_cast<int>(client.devices.size()));
  std::vector<int> owners;
  for (int process = 0; process < static_cast<int>(counts.size()); ++process) {
    owners.insert(owners.end(), static_cast<std::size_t>(counts[static_cast<std::size_t>(process)]),
                  process);
  }
  client.others.reserve(owners.size());
  auto next = client.devices.begin();
  for (int id = 0; id < static_cast<int>(owners.size()); ++id) {
    const int process = owners[static_cast<std::size_t>(id)];
    PJRT_Device& device =
        process == client.job.node ? *next++ : client.others.emplace_back(PJRT_Device{});
    device.id = id;
    device.process = process;
    client.all.push_back(&device);
  }
}

/// What one device does in a call.
struct Call {
  PJRT_Device& device;
  std::span<PJRT_Buffer* const> arguments;

  void wait_for_arguments() const {
    if (has_fault("before")) return;
    for (PJRT_Buffer* argument : arguments) {
      if (argument->filled) {
        drive("cuStreamWaitEvent", device.compute, argument->filled->event, 0U);
      }
    }
  }
  PJRT_Buffer* output() const {
    auto bytes = std::make_shared<Bytes>();
    bytes->device = &device;
    drive("cuMemAllocAsync", &bytes->address, arguments[0]->size, device.compute);
    return new PJRT_Buffer{std::move(bytes), nullptr, nullptr, arguments[0]->size};
  }
  PJRT_Buffer* add() const {
    PJRT_Buffer* to = output();
    std::uint64_t count = to->size / sizeof(float);
    void* given[] = {&arguments[0]->bytes->address, &arguments[1]->bytes->address,
                     &to->bytes->address, &count};
    drive("cuLaunchKernel", device.kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, device.compute,
          static_cast<void**>(given), static_cast<void**>(nullptr));
    return to;
  }
  PJRT_Buffer* copy() const {
    PJRT_Buffer* to = output();
    drive("cuMemcpyDtoDAsync_v2", to->bytes->address, arguments[0]->bytes->address, to->size,
          device.compute);
    return to;
  }
  /// Has a handler fill the result.
  PJRT_Buffer* custom(const PJRT_Executable& program, PJRT_ExecuteContext* context,
                      std::string& error) const {
    PJRT_Buffer* to = output();
    std::vector<std::uintptr_t> addresses;
    for (PJRT_Buffer* argument : arguments) addresses.push_back(argument->bytes->address);
    error = call_handler(program.target, program.text, device.compute,
                         context ? &context->user_data : nullptr, addresses, to->bytes->address,
                         static_cast<std::int64_t>(to->size / sizeof(float)));
    return to;
  }
  std::vector<float> fetch() const {
    std::vector<float> values(arguments[0]->size / sizeof(float));
    drive("cuMemcpyDtoHAsync_v2", static_cast<void*>(values.data()), arguments[0]->bytes->address,
          arguments[0]->size, device.compute);
    drive("cuStreamSynchronize", device.compute);
    return values;
  }
  PJRT_Buffer* fill(const std::vector<float>& values) const {
    PJRT_Buffer* to = output();
    drive("cuMemcpyHtoDAsync_v2", to->bytes->address, static_cast<const void*>(values.data()),
          to->size, device.compute);
    drive("cuStreamSynchronize", device.compute);
    return to;
  }
  /// Takes the argument's memory, and writes to it, so that a reader that nothing orders is seen.
  PJRT_Buffer* take() const {
    PJRT_Buffer* from = arguments[0];
    auto* to = new PJRT_Buffer{std::move(from->bytes), nullptr, nullptr, from->size};
    drive("cuMemsetD8Async", to->bytes->address, static_cast<unsigned char>(0), to->size,
          device.compute);
    return to;
  }
};

/// Calls a function with each field of a number in a message.
template <class Function>
void for_fields(std::string_view message, std::uint32_t number, const Function& function) {
  devrt::pjrt::ProtoReader reader(message);
  for (devrt::pjrt::ProtoField field; reader.next(field);) {
    if (field.number == number) function(field.bytes);
  }
}

/// Returns the devices of this process that a CompileOptionsProto assigns.
inline std::vector<PJRT_Device*> assigned(const PJRT_Client& client, std::string_view options) {
  std::vector<PJRT_Device*> found;
  const auto add = [&](std::string_view packed) {
    for (devrt::pjrt::ProtoReader ids(packed); !ids.is_done();) {
      PJRT_Device* device = client.all.at(static_cast<std::size_t>(ids.varint()));
      if (device->process == client.job.node) found.push_back(device);
    }
  };
  for_fields(options, 3, [&](std::string_view build) {
    for_fields(build, 9, [&](std::string_view assignment) {
      for_fields(assignment, 3, [&](std::string_view column) { for_fields(column, 1, add); });
    });
  });
  return found;
}
