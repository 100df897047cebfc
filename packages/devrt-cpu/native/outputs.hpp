// Outputs of calls: memory of the engine's that becomes buffers.
#pragma once

#include <span>

#include "devrt/small_array.hpp"
#include "engine.hpp"

namespace devrt::cpu {

/// How many arguments or outputs a call has room for without the heap.
inline constexpr std::size_t kFew = 8;

/// Where one device's call puts what it gives.
struct OutputTargets {
  Engine& engine;
  std::span<const pjrt::Tensor> tensors;
  std::span<Memory* const> memories;
  std::span<Ref<Buffer>> results;
  std::span<const Ref<pjrt::Buffer>> arguments;
  std::span<const std::int64_t> kept;  ///< donated parameters whose memory was not taken
};

/// Takes over the outputs of a call, and makes them ready when it is `done`. Does not wait. Returns
/// the event of all of them.
ReadyEvent take_outputs(std::span<PJRT_Buffer* const> raw, pjrt::Event done,
                        const OutputTargets& targets);

}  // namespace devrt::cpu
