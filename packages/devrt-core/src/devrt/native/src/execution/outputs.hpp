// Outputs of calls: memory of the engine's that becomes buffers.
#pragma once

#include <span>
#include <vector>

#include "devrt/base/small_array.hpp"
#include "devrt/pjrt/engine/holding_context.hpp"
#include "devrt/pjrt/engine/running.hpp"
#include "execution/engine.hpp"
#include "execution/engine_event.hpp"

namespace devrt::native {

/// How many arguments or outputs a call holds without the heap.
inline constexpr std::size_t kFew = 8;

/// Where one device's call puts what it gives.
struct OutputTargets {
  Engine& engine;
  const std::shared_ptr<const pjrt::Signature>& program;
  const Device& owner;
  std::span<Memory* const> memories;
  std::span<Ref<Buffer>> results;
  std::span<const Ref<pjrt::Buffer>> arguments;
  std::span<const std::int64_t> kept;  ///< donated parameters whose memory was not taken
  std::size_t device = 0;              ///< the engine's number of the device

  std::span<const pjrt::Tensor> tensors() const noexcept { return program->outputs; }
};

/// Memory that a call reserved before it began.
struct Reservation {
  BudgetShare outputs;
  HeldTemporaries temporaries;
};

/// Returns what a call on so many devices takes, but for its outputs.
ProgramNeeds needs_of(const pjrt::Signature& program, std::size_t devices);

/// Returns the same with outputs, but for those that take the memory of an argument.
ProgramNeeds needs_with_outputs(const pjrt::Signature& program, std::size_t devices);

/// Returns how many bytes of its device's budget a call's outputs will take.
std::int64_t bytes_of_outputs(const OutputTargets& targets);

/// What a call keeps until it is done.
struct Kept {
  pjrt::Running::Note note = {};                ///< may be empty
  pjrt::InFlight::Slot slot = {};               ///< may be empty
  Reservation reservation = {};                 ///< for `bytes_of_outputs` and temporaries
  Ref<pjrt::ffi::HoldingContext> context = {};  ///< null where there are no custom calls
  std::vector<Ref<Storage>> storages = {};      ///< of arguments that the engine may give up early
  Dependencies dependencies = {};               ///< of the arguments
  ProgramCall call = {};                        ///< which one it is
  bool meets_others = false;                    ///< devices that can fail it, too
};

/// Returns an error of a program's; where one of some devices is lost, as the error of that loss.
Status describe_loss(const Status& error, std::span<const Device* const> devices);

/// Takes over the outputs of a call, and makes them ready when it is `done`. Does not wait. Returns
/// the event of all of them.
ReadyEvent take_outputs(std::span<PJRT_Buffer* const> raw, pjrt::Event done,
                        const OutputTargets& targets, Kept kept);

}  // namespace devrt::native
