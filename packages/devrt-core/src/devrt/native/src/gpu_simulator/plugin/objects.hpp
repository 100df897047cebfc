// What the simulated plugin gives out: a client for the devices of the simulated machine, whose
// programs XLA's compiler for the CPU runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devrt/base/dims.hpp"
#include "devrt/base/element_type.hpp"
#include "devrt/pjrt/engine/executable.hpp"
#include "devrt/pjrt/engine/release.hpp"
#include "gpu_simulator/plugin/calls.hpp"

struct PJRT_DeviceDescription {
  int id = 0;  // what assignments have, as the compiler's does
};

struct PJRT_Device {
  PJRT_DeviceDescription description;
  PJRT_Client* client = nullptr;
  int number = 0;                             // the driver's
  devrt::gpu_simulator::Handle external = 0;  // the stream that waits for what views show
  devrt::gpu_simulator::Handle compute = 0;   // that programs run on
  devrt::gpu_simulator::Handle pool = 0;      // 0: memory comes from no pool
  bool owns_pool = false;
};

namespace devrt::gpu_simulator::plugin {

/// A place in the work of a stream, which other streams can wait for.
class Mark {
 public:
  Mark(const PJRT_Device& device, Handle stream);
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark();

  /// Has a stream of any device wait for it.
  void order(Handle stream) const;

 private:
  const int device_;
  Handle event_ = 0;
};

/// Memory of a device: the plugin's own, or what a view shows.
class Bytes {
 public:
  using OnDelete = void (*)(void* data, void* argument);

  /// Allocates. Throws RESOURCE_EXHAUSTED.
  Bytes(const PJRT_Device& device, std::size_t bytes);
  Bytes(const PJRT_Device& device, void* data, OnDelete on_delete, void* argument) noexcept;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes();

  Address address() const noexcept { return address_; }

 private:
  const PJRT_Device& device_;
  Address address_ = 0;
  const bool is_view_;
  const OnDelete on_delete_ = nullptr;
  void* const argument_ = nullptr;
};

/// Work of a device that the host can wait for.
class Work {
 public:
  using Callback = std::pair<PJRT_Event_OnReadyCallback, void*>;

  /// Says how it ended; calls those who wait for it.
  void end(const Status& status);
  bool has_ended();
  /// Waits; returns how it ended.
  Status wait();
  void on_end(Callback callback);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;
  Status status_;
  std::vector<Callback> callbacks_;
};

/// How a program ended, for others that take its results in stream order.
class Outcome {
 public:
  Status status() const;
  /// Keeps the first failure.
  void fail(const Status& status);

 private:
  mutable std::mutex mutex_;
  Status status_;
};

/// Opens the compiler, once. Throws FAILED_PRECONDITION where none was named, or what
/// `pjrt::Api::load` throws.
std::shared_ptr<const pjrt::Api> compiler();

/// Returns a copy of a status as the C API has errors; null for OK.
PJRT_Error* to_error(const Status& status);

/// Starts a program; the arguments of the C API are filled in.
void execute(PJRT_LoadedExecutable_Execute_Args& args);

/// Fills in the functions of clients and buffers; those of programs; those that the compiler has.
void fill_clients(PJRT_Api& table);
void fill_buffers(PJRT_Api& table);
void fill_programs(PJRT_Api& table);

}  // namespace devrt::gpu_simulator::plugin

struct PJRT_Event {
  std::shared_ptr<devrt::gpu_simulator::plugin::Work> work;
};

struct PJRT_Buffer {
  std::shared_ptr<devrt::gpu_simulator::plugin::Bytes> bytes;   // null: deleted or donated
  std::shared_ptr<devrt::gpu_simulator::plugin::Mark> filled;   // null: at once
  std::shared_ptr<devrt::gpu_simulator::plugin::Outcome> made;  // null: by no program
  devrt::ElementType type = devrt::ElementType::kInvalid;
  devrt::Dims dims;
  std::size_t size = 0;  // in bytes, one element a byte at least
};

struct PJRT_LoadedExecutable {
  PJRT_Client* client;
  devrt::Ref<devrt::pjrt::Executable> program;
  std::vector<PJRT_Device*> devices;
};

struct PJRT_Client {
  devrt::Ref<devrt::pjrt::Client> compiler;
  std::vector<PJRT_Device> devices;
  std::vector<PJRT_Device*> pointers;
  std::mutex launching;  // programs come to the streams of all their devices in one order
  std::mutex together;  // one program of several devices computes at a time: it needs a thread each
  std::unique_ptr<devrt::pjrt::ReleaseQueue> endings;  // where ends of work are reported
};
