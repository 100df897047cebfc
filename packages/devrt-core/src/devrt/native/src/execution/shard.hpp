// One device's part of a call.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "devrt/base/small_array.hpp"
#include "execution/engine.hpp"
#include "execution/outputs.hpp"

namespace devrt::native {

/// Returns whether a call has to hold the storages of its arguments itself.
inline bool holds_storages() noexcept { return platform().engine.donates_views; }

/// One device's part of a call.
struct Shard {
  Shard() = default;

  void prepare(Engine& engine, std::span<Buffer* const> buffers, const pjrt::Signature& signature) {
    const std::size_t num_outputs = signature.outputs.size();
    views.emplace(buffers.size());
    arguments.emplace(buffers.size());
    outputs.emplace(num_outputs);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      set_view(i, engine.view(*buffers[i]));
      if (holds_storages() && !signature.parameters[i].is_donated) {
        storages.push_back(buffers[i]->storage());
      }
    }
    dependencies = engine.dependencies_of(buffers);
  }

  void set_view(std::size_t i, Ref<pjrt::Buffer> view) {
    (*arguments)[i] = view->get();
    (*views)[i] = std::move(view);
  }

  pjrt::ShardCall call(std::span<const std::int64_t> kept) {
    return {arguments->span(), outputs->span(), kept};
  }

  std::optional<SmallArray<Ref<pjrt::Buffer>, kFew>> views;
  std::optional<SmallArray<PJRT_Buffer*, kFew>> arguments;
  std::optional<SmallArray<PJRT_Buffer*, kFew>> outputs;
  std::vector<Ref<Storage>> storages;  // that the engine may give up before it has read them
  Dependencies dependencies;           // of the arguments
  bool has_ended = false;              // before the call returned
};

}  // namespace devrt::native
