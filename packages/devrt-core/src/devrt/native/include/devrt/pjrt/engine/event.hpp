// Events of a plugin, owned.
#pragma once

#include <memory>
#include <utility>

#include "devrt/base/unique_function.hpp"
#include "devrt/pjrt/engine/api.hpp"

namespace devrt::pjrt {

namespace detail {
/// How many callbacks of a plugin this thread is inside of.
inline thread_local int callback_depth = 0;
}  // namespace detail

/// Returns whether this thread runs a plugin's callback, and so may be one of its own.
inline bool is_in_callback() noexcept { return detail::callback_depth > 0; }

/// Marks, while it lives, that this thread runs a plugin's callback.
class CallbackScope {
 public:
  CallbackScope() noexcept { ++detail::callback_depth; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  ~CallbackScope() { --detail::callback_depth; }
};

/// Owner of one event; may be empty. The table must outlive it.
class Event {
 public:
  Event() noexcept = default;
  Event(const Api& api, PJRT_Event* event) noexcept : api_(&api), event_(event) {}
  Event(Event&& other) noexcept : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(event_, other.event_);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (!event_) return;
    auto args = make_args<PJRT_Event_Destroy_Args>();
    args.event = event_;
    api_->dispose<&PJRT_Api::PJRT_Event_Destroy>(args);
  }

  explicit operator bool() const noexcept { return event_ != nullptr; }

  /// Returns whether it is ready; an event that cannot tell is not.
  bool is_ready() const {
    auto args = make_args<PJRT_Event_IsReady_Args>();
    args.event = event_;
    return api_->call<&PJRT_Api::PJRT_Event_IsReady>(args).ok() && args.is_ready;
  }

  /// Waits; returns OK or the error.
  Status wait() const {
    auto args = make_args<PJRT_Event_Await_Args>();
    args.event = event_;
    return api_->call<&PJRT_Api::PJRT_Event_Await>(args);
  }

  PJRT_Event* get() const noexcept { return event_; }
  const Api& api() const noexcept { return *api_; }

 private:
  const Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

/// Returns an error with the code for what it says: XLA calls a lack of memory for what a program
/// needs meanwhile an internal error.
inline Status with_known_code(const Status& status) {
  const bool is_memory = status.code() == StatusCode::kInternal &&
                         status.message().find("Out of memory") != std::string::npos;
  return is_memory ? Status(StatusCode::kResourceExhausted, status.message()) : status;
}

/// Gives the event up, and calls `then` with its outcome once: inline if it is ready, else in a
/// thread of the plugin.
inline void when_ready(Event event, UniqueFunction<void(Status)> then) {
  struct Pending {
    Event event;
    UniqueFunction<void(Status)> then;
  };
  const Api& api = event.api();
  auto args = make_args<PJRT_Event_OnReady_Args>();
  args.event = event.get();
  args.callback = [](PJRT_Error* error, void* context) noexcept {
    const CallbackScope scope;
    const std::unique_ptr<Pending> self(static_cast<Pending*>(context));
    self->then(self->event.api().take(error));
  };
  auto* pending = new Pending{std::move(event), std::move(then)};
  args.user_arg = pending;
  if (Status status = api.call<&PJRT_Api::PJRT_Event_OnReady>(args); !status.ok()) {
    const std::unique_ptr<Pending> back(pending);
    back->then(std::move(status));
  }
}

}  // namespace devrt::pjrt
