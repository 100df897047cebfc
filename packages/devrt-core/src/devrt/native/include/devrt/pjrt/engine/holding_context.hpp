// What one execution gives the custom calls that it makes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devrt/base/ref.hpp"
#include "devrt/pjrt/engine/ffi.hpp"

namespace devrt::pjrt::ffi {

/// The context of one execution that makes custom calls.
class HoldingContext final : public RefCounted<HoldingContext> {
 public:
  /// Returns null where the plugin has no contexts. One that takes no type gets an empty one: a
  /// handler of another module may look into it, and XLA reads what is not there.
  static Ref<HoldingContext> make(std::shared_ptr<const Api> api, bool holds_back,
                                  std::vector<const void*> devices = {}, std::uint64_t number = 0) {
    if (!api->has<&PJRT_Api::PJRT_ExecuteContext_Create>() || !ffi_extension(*api)) return {};
    const std::int64_t type_id = type_id_of(*api);
    auto made = Ref<HoldingContext>::adopt(
        new HoldingContext(std::move(api), holds_back, std::move(devices), number));
    if (type_id != 0) made->attach(type_id);
    return made;
  }
  ~HoldingContext() {
    auto args = make_args<PJRT_ExecuteContext_Destroy_Args>();
    args.context = context_;
    if (context_) api_->dispose<&PJRT_Api::PJRT_ExecuteContext_Destroy>(args);
  }

  PJRT_ExecuteContext* get() const noexcept { return context_; }
  bool holds_back() const noexcept { return error_.holds_back(); }
  Status status() const { return error_.status(); }

 private:
  HoldingContext(std::shared_ptr<const Api> api, bool holds_back, std::vector<const void*> devices,
                 std::uint64_t number)
      : api_(std::move(api)), error_(holds_back, std::move(devices), number) {
    auto args = make_args<PJRT_ExecuteContext_Create_Args>();
    api_->check<&PJRT_Api::PJRT_ExecuteContext_Create>(args);
    context_ = args.context;
  }

  void attach(std::int64_t type_id) {
    auto args = make_args<PJRT_FFI_UserData_Add_Args>();
    args.context = context_;
    args.user_data = {type_id, &error_};
    raise_if_error(api_->take(ffi_extension(*api_)->user_data_add(&args)));
  }

  /// Tells a plugin of the type, once, and returns its number, which is the plugin's own; 0 where
  /// the plugin takes none.
  static std::int64_t type_id_of(const Api& api) {
    static std::mutex mutex;
    static std::array<const Api*, HeldError::kMostPlugins> known{};
    std::lock_guard lock(mutex);
    auto* const at =
        std::ranges::find_if(known, [&](const Api* each) { return !each || each == &api; });
    if (at == known.end()) return 0;
    std::atomic<std::int64_t>& id =
        HeldError::type_ids()[static_cast<std::size_t>(at - known.begin())];
    if (*at) return id.load(std::memory_order_acquire);
    const std::int64_t made = register_type(api);
    if (made == 0) return 0;
    id.store(made, std::memory_order_release);
    *at = &api;
    return made;
  }

  static std::int64_t register_type(const Api& api) {
    const PJRT_FFI_Extension* extension = ffi_extension(api);
    if (!extension || !extension->type_register || !extension->user_data_add) return 0;
    // Another module of the process may share the plugin, which takes a name once.
    const std::string name =
        "devrt.HeldError " +
        std::to_string(reinterpret_cast<std::uintptr_t>(HeldError::type_ids().data()));
    PJRT_FFI_Type_Info nothing_to_free{};
    auto args = make_args<PJRT_FFI_Type_Register_Args>();
    args.type_name = name.data();
    args.type_name_size = name.size();
    args.type_info = &nothing_to_free;
    return api.take(extension->type_register(&args)).ok() ? args.type_id : 0;
  }

  const std::shared_ptr<const Api> api_;
  PJRT_ExecuteContext* context_ = nullptr;
  HeldError error_;
};

}  // namespace devrt::pjrt::ffi
