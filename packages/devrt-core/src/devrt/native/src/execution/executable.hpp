// Compiled programs, bound to the devices of a client.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.hpp"
#include "devrt/base/live_registry.hpp"
#include "devrt/base/small_array.hpp"
#include "devrt/pjrt/engine/holding_context.hpp"
#include "execution/donations.hpp"
#include "execution/engine.hpp"
#include "execution/temporary_memory.hpp"

namespace devrt::native {

struct Reservation;

/// A program and its serialised CompileOptionsProto.
struct ProgramText {
  std::string_view code;
  std::string_view format;
  std::string_view options;
};

/// A loaded executable. Thread-safe; a call in flight keeps what it needs.
class Executable final : public RefCounted<Executable>, public LiveLink {
 public:
  /// Compiles a program on a client's engine. Throws INVALID_ARGUMENT with the compiler's words if
  /// the program is wrong, UNIMPLEMENTED if its parameters or outputs are none that buffers can be.
  static Ref<Executable> compile(Client& client, const std::string& library,
                                 const ProgramText& program);
  /// Loads what `serialize` gave; `options` may be empty.
  static Ref<Executable> deserialize(Client& client, const std::string& library,
                                     std::string_view serialized, std::string_view options);
  ~Executable();

  Client& client() const noexcept { return *client_; }
  Engine& engine() const noexcept { return *engine_; }
  const pjrt::Signature& signature() const noexcept { return *signature_; }
  /// Returns the devices of this process that it runs on, in the order of arguments and outputs.
  std::span<Device* const> devices() const noexcept { return devices_; }
  /// Returns whether a call is so short that waiting for another thread would cost more. One that
  /// waits for other processes never is.
  bool is_short() const noexcept { return signature_->is_short && !spans_processes(); }
  /// Returns whether it runs on devices of other processes, too.
  bool spans_processes() const noexcept {
    return signature_->num_replicas * signature_->num_partitions > devices_.size();
  }

  /// Returns the engine's executable; throws FAILED_PRECONDITION once deleted, closed or forked.
  Ref<pjrt::Executable> loaded(const char* operation) const;

  /// Unloads the program once nothing in flight uses it. Idempotent.
  void remove() noexcept;
  bool is_deleted() const;

  /// Throws INVALID_ARGUMENT unless the arguments, by device and then by parameter, are what the
  /// program takes. Returns whether every one can be handed to the engine without waiting.
  bool check(std::span<const std::span<Buffer* const>> arguments, const char* operation) const;

  /// Starts the program on every device; arguments and results by device, then by parameter and by
  /// output. Does not wait, but for arguments that a transfer still fills, and for what the same
  /// stream, if it is not 0, still runs on the devices. Arguments must have passed `check`. Donated
  /// ones are deleted, unless this throws. `ended`, if it is not empty, gets the event of each
  /// device's part.
  void execute(std::span<const std::span<Buffer* const>> arguments, std::span<Ref<Buffer>> results,
               std::int64_t stream = 0, std::span<ReadyEvent> ended = {}) const;

 private:
  Executable(Client& client, std::shared_ptr<Engine> engine, Ref<pjrt::Executable> loaded);
  static Ref<Executable> adopt(Client& client, std::shared_ptr<Engine> engine,
                               Ref<pjrt::Executable> loaded);
  /// How far an attempt of a call came.
  struct Attempt {
    bool has_begun = false;  ///< so that it cannot be made again
    CopiedBytes copied;
  };
  void start(std::span<const std::span<Buffer* const>> arguments, std::span<Ref<Buffer>> results,
             std::int64_t stream, std::span<ReadyEvent> ended, Attempt& attempt) const;
  /// Does the same for a simple program, without what such a one has no need of.
  void start_simple(std::span<Buffer* const> arguments, std::span<Ref<Buffer>> results,
                    bool& has_begun) const;
  bool finds_simple() const noexcept;
  /// Takes a slot on each device. Throws DEADLINE_EXCEEDED if nothing ends there, and what a signal
  /// raises.
  void take_slots(std::span<const std::size_t> devices,
                  std::span<pjrt::InFlight::Slot> slots) const;
  /// Reserves what a call makes, of all shards at once: a call that has it can go on to the end.
  void reserve(std::span<Reservation> reservations, std::span<const std::int64_t> outputs) const;
  /// How often a call that lacked memory was tried again.
  struct Retries {
    int at_once = 0;          ///< since the limit left enough when that was looked at again
    bool has_waited = false;  ///< for all that was in flight
  };
  static constexpr int kMostRetriesAtOnce = 10;
  /// After a lack of memory in an attempt that had copied so much: waits for others to give some
  /// back. Returns whether to try again.
  bool wait_for_others(const Status& why, const CopiedBytes& copied, Retries& retries) const;
  /// Returns what tells errors of custom calls apart, where the program makes some. Those of shards
  /// that run together are held back: who failed would leave the others waiting.
  Ref<pjrt::ffi::HoldingContext> context_of(bool is_together, std::size_t shard,
                                            std::uint64_t number) const;
  /// Throws an error of memory that was lacking with all that is known, if it has not got that.
  void throw_lack_of_memory(const Status& why, std::size_t devices) const;
  /// Returns the memory of one of its devices that lacked bytes, as an error names it.
  const Memory& limited_memory(std::string_view device) const;
  std::span<Memory* const> output_memories(std::size_t position) const noexcept {
    const std::size_t count = signature_->outputs.size();
    return std::span<Memory* const>(output_memories_).subspan(position * count, count);
  }
  Memory& output_memory(Device& device, const std::string& kind) const;
  void count_temporaries(const Memory& memory);
  void check_one(std::size_t position, std::size_t index, const Buffer& buffer,
                 const char* operation) const;

  const std::shared_ptr<Client> client_;
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<const pjrt::Signature> signature_;
  std::vector<Device*> devices_;
  std::vector<int> device_numbers_;
  std::vector<Memory*> output_memories_;  // by device, then by output
  std::vector<std::shared_ptr<ProgramTemporaries>>
      temporaries_;         // by device; empty if it takes nothing
  bool reserves_ = false;   // whether a call has to reserve memory, or to count what it takes
  bool is_simple_ = false;  // whether a call is no more than arguments and results of one device
  bool is_of_job_ = false;  // whether it runs on all devices of all processes
  mutable std::mutex mutex_;
  Ref<pjrt::Executable> loaded_;
};

}  // namespace devrt::native
