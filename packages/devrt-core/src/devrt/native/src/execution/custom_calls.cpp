#include "execution/custom_calls.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "devrt/pjrt/engine/event.hpp"
#include "execution/engine.hpp"
#include "execution/engine_event.hpp"

namespace devrt::native {

namespace {

struct Slot {
  std::atomic<CustomCallAnswer> answer{nullptr};
  std::atomic<XLA_FFI_Handler> handler{nullptr};
};

std::array<Slot, kCustomCallSlots> slots;
std::atomic<bool> is_bound{false};
std::atomic<CustomCallCopy> host_copy{nullptr};

/// The execution that has called this thread; null for none, and where the plugin does not say.
thread_local const pjrt::ffi::HeldError* calling = nullptr;

/// Marks, while it lives, that an execution calls this thread.
class CallScope {
 public:
  explicit CallScope(const XLA_FFI_CallFrame& frame) noexcept
      : before_(std::exchange(calling, pjrt::ffi::HeldError::of(frame))) {}
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope() { calling = before_; }

 private:
  const pjrt::CallbackScope scope_;
  const pjrt::ffi::HeldError* const before_;
};

bool is_question(const XLA_FFI_CallFrame& frame) noexcept {
  return frame.stage != XLA_FFI_ExecutionStage_EXECUTE || pjrt::ffi::detail::is_metadata(frame);
}

/// Returns whether an earlier call of the same execution failed, and fills the results if so: what
/// this one would be given is no value of the program's.
bool is_over(const XLA_FFI_CallFrame& frame) noexcept {
  const pjrt::ffi::HeldError* held = pjrt::ffi::HeldError::of(frame);
  if (!held || !held->holds_back() || held->status().ok()) return false;
  pjrt::ffi::detail::fill_results(frame);
  return true;
}

XLA_FFI_Error* ask(CustomCallAnswer answer, std::size_t number, XLA_FFI_CallFrame* frame) noexcept {
  if (pjrt::ffi::detail::answer_metadata(*frame) || is_question(*frame) || is_over(*frame)) {
    return nullptr;
  }
  const CallScope scope(*frame);
  const Status status = answer(number, *frame);
  return status.ok() ? nullptr : pjrt::ffi::fail(*frame, status);
}

XLA_FFI_Error* run(XLA_FFI_Handler handler, XLA_FFI_CallFrame* frame) noexcept {
  if (is_question(*frame)) return handler(frame);
  if (is_over(*frame)) return nullptr;
  const CallScope scope(*frame);
  XLA_FFI_Error* error = handler(frame);
  return error ? pjrt::ffi::held(*frame, error) : nullptr;
}

template <std::size_t Number>
XLA_FFI_Error* call(XLA_FFI_CallFrame* frame) noexcept {
  const Slot& slot = slots[Number];
  if (const XLA_FFI_Handler handler = slot.handler.load(std::memory_order_acquire)) {
    return run(handler, frame);
  }
  return ask(slot.answer.load(std::memory_order_acquire), Number, frame);
}

template <std::size_t... Numbers>
constexpr auto all_of(std::index_sequence<Numbers...>) {
  return std::array<XLA_FFI_Handler, sizeof...(Numbers)>{&call<Numbers>...};
}

constexpr auto kCalls = all_of(std::make_index_sequence<kCustomCallSlots>());

template <class Fill>
std::size_t add(const std::string& library, const std::string& name, const Fill& fill) {
  static std::mutex mutex;
  static std::size_t used = 0;
  const auto api = load_engine(library);
  std::lock_guard lock(mutex);
  if (used == kCustomCallSlots) {
    throw StatusError(Status(StatusCode::kUnimplemented,
                             "The custom call '" + name +
                                 "' cannot be registered: " + std::to_string(kCustomCallSlots) +
                                 " are, which is the most. Register one function for several "
                                 "purposes.")
                          .during("register_custom_call"));
  }
  fill(slots[used]);
  pjrt::ffi::register_handler(*api, platform().engine.ffi_platform, name, kCalls[used]);
  return used++;
}

}  // namespace

std::size_t register_custom_call(const std::string& library, const std::string& name,
                                 CustomCallAnswer answer) {
  is_bound.store(true, std::memory_order_relaxed);
  return add(library, name, [&](Slot& slot) {
    slot.handler.store(nullptr, std::memory_order_release);
    slot.answer.store(answer, std::memory_order_release);
  });
}

std::size_t register_custom_call(const std::string& library, const std::string& name,
                                 XLA_FFI_Handler handler) {
  return add(library, name,
             [&](Slot& slot) { slot.handler.store(handler, std::memory_order_release); });
}

void set_custom_call_copy(CustomCallCopy copy) noexcept {
  host_copy.store(copy, std::memory_order_release);
}

CustomCallCopy custom_call_copy() noexcept { return host_copy.load(std::memory_order_acquire); }

bool is_in_program() noexcept { return pjrt::is_in_callback(); }

void check_not_called_from(const Device& device, const char* operation) {
  if (!calling || !platform().engine.is_in_order) return;
  if (std::ranges::find(calling->devices(), &device) == calling->devices().end()) return;
  throw StatusError(
      Status(StatusCode::kFailedPrecondition,
             std::string(operation) + " failed: a function that a program on " + device.name() +
                 " calls, as a callback does, needs another program on that device, which would "
                 "wait for the one that called. Compute with NumPy within the function, or on "
                 "another device, as the first of devrt.devices('cpu').")
          .during(operation)
          .on(device.name()));
}

void check_not_behind_caller(const Buffer& buffer, const char* operation) {
  if (!calling) return;
  const ReadyEvent& ready = buffer.ready();
  const Device& device = buffer.memory()->device();
  const auto* output = dynamic_cast<const EngineEvent*>(ready.source());
  // Programs before it have ended, though nobody may have reported that yet.
  if (output && output->call().number >= calling->number())
    check_not_called_from(device, operation);
  bool is_of_caller = false;
  for (const auto& dependency : ready.dependencies()) {
    const auto* end = dynamic_cast<const ProgramEnd*>(dependency.get());
    if (end && end->call().number > calling->number()) check_not_called_from(device, operation);
    is_of_caller = is_of_caller || (end && end->call().number == calling->number());
  }
  if (!is_of_caller) return;
  throw StatusError(
      Status(
          StatusCode::kFailedPrecondition,
          std::string(operation) +
              " failed: a function that a program calls, as a callback does, needs what is made of "
              "a result of that program, which waits for the function. Use the function's "
              "arguments instead.")
          .during(operation)
          .on(device.name()));
}

bool has_bound_custom_calls() noexcept { return is_bound.load(std::memory_order_relaxed); }

}  // namespace devrt::native
