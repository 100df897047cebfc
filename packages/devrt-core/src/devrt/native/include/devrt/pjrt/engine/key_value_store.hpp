// The keys of a job, as a plugin asks for them.
#pragma once

#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "devrt/base/status.hpp"
#include "devrt/pjrt/c_api/pjrt_c_api.h"
#include "devrt/pjrt/engine/event.hpp"

namespace devrt::pjrt {

/// The keys that the processes of a job share. Thread-safe: a plugin asks in threads of its own.
/// What is thrown becomes the plugin's error, with the code of a StatusError.
class KeyValueStore {
 public:
  KeyValueStore() = default;
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;
  virtual ~KeyValueStore() = default;

  /// Returns a value once a process has set it. Throws DEADLINE_EXCEEDED if none does in time.
  virtual std::string get(std::string_view key, std::chrono::milliseconds timeout) = 0;
  /// Returns a value without waiting. Throws NOT_FOUND if it is not set.
  virtual std::string try_get(std::string_view key) = 0;
  virtual void set(std::string_view key, std::string_view value) = 0;
};

namespace detail {

/// Calls a store for a plugin. Returns null, or the plugin's error for what is thrown.
template <class Call>
PJRT_Error* answer_plugin(PJRT_CallbackError* make_error, const Call& call) noexcept {
  const CallbackScope scope;
  Status status;
  try {
    call();
    return nullptr;
  } catch (const StatusError& error) {
    status = error.status();
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted, "out of memory");
  } catch (const std::exception& error) {
    status = Status(StatusCode::kInternal, error.what());
  } catch (...) {
    status = Status(StatusCode::kUnknown, "an error that is no exception");
  }
  const std::string& message = status.message();
  return (*make_error)(static_cast<PJRT_Error_Code>(status.code()), message.data(), message.size());
}

/// Hands a value to a plugin, which gives it back to `value_deleter_callback`.
template <class Args>
void give_value(Args& args, const std::string& value) {
  args.value_deleter_callback = [](char* bytes) { delete[] bytes; };
  args.value = new char[value.size() + 1];
  std::memcpy(args.value, value.c_str(), value.size() + 1);
  args.value_size = value.size();
}

inline PJRT_Error* get_value(PJRT_KeyValueGetCallback_Args* args) {
  return answer_plugin(args->callback_error, [args] {
    auto& store = *static_cast<KeyValueStore*>(args->user_arg);
    const std::chrono::milliseconds timeout(args->timeout_in_ms);
    give_value(*args, store.get({args->key, args->key_size}, timeout));
  });
}

inline PJRT_Error* try_get_value(PJRT_KeyValueTryGetCallback_Args* args) {
  return answer_plugin(args->callback_error, [args] {
    auto& store = *static_cast<KeyValueStore*>(args->user_arg);
    give_value(*args, store.try_get({args->key, args->key_size}));
  });
}

inline PJRT_Error* set_value(PJRT_KeyValuePutCallback_Args* args) {
  return answer_plugin(args->callback_error, [args] {
    auto& store = *static_cast<KeyValueStore*>(args->user_arg);
    store.set({args->key, args->key_size}, {args->value, args->value_size});
  });
}

}  // namespace detail

/// Has a plugin's client that is to be made use a store, which must outlive it.
inline void use_store(PJRT_Client_Create_Args& args, KeyValueStore& store) noexcept {
  args.kv_get_callback = &detail::get_value;
  args.kv_try_get_callback = &detail::try_get_value;
  args.kv_put_callback = &detail::set_value;
  args.kv_get_user_arg = args.kv_try_get_user_arg = args.kv_put_user_arg = &store;
}

}  // namespace devrt::pjrt
