// A plugin's table of functions, with everything that must be known before one is called.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devrt/base/fork_guard.hpp"
#include "devrt/base/status.hpp"
#include "devrt/pjrt/c_api/pjrt_c_api.h"

namespace devrt::pjrt {

/// Returns an argument structure with its size set and all else zero.
template <class Args>
Args make_args() noexcept {
  Args args{};
  args.struct_size = sizeof(Args);
  return args;
}

/// The functions of one plugin library, loaded and initialised once per process and path.
///
/// Kept for the life of the process: the library is never closed, because what it registers at
/// exit would then be gone.
class Api {
 public:
  /// What may throw before a plugin is initialised, from which some do not return.
  using Check = void (*)(const Api& api);

  /// Opens a library and initialises its plugin. Throws NOT_FOUND (no such file or dependency),
  /// FAILED_PRECONDITION (no plugin, or another major version), what `check` throws, or the
  /// plugin's own error. A failure is final: the next call throws the same.
  static std::shared_ptr<const Api> load(const std::string& path, Check check = nullptr) {
    // Never destroyed: threads of the plugin may still run while the process exits.
    static auto* const registry = new Registry;
    std::lock_guard lock(registry->mutex);
    Entry& entry = registry->entries[path];
    if (!entry.api && entry.failure.ok()) {
      try {
        entry.api = std::shared_ptr<const Api>(new Api(path, check));
      } catch (const StatusError& error) {
        entry.failure = error.status();
      }
    }
    raise_if_error(entry.failure);
    entry.api->check_not_forked();
    return entry.api;
  }

  /// Wraps a table that somebody else loaded and initialised, as a fake plugin in a test does.
  static std::shared_ptr<const Api> wrap(const PJRT_Api* table, std::string path) {
    return std::shared_ptr<const Api>(new Api(table, std::move(path)));
  }

  const std::string& path() const noexcept { return path_; }
  int minor_version() const noexcept { return table_.pjrt_api_version.minor_version; }

  /// Returns whether the plugin has a function: it may be older than this header.
  template <auto Function>
  bool has() const noexcept {
    return table_.*Function != nullptr;
  }

  /// Calls a function that returns an error; throws UNIMPLEMENTED if the plugin lacks it.
  template <auto Function, class Args>
  Status call(Args& args) const {
    if (!(table_.*Function)) [[unlikely]]
      return missing();
    try {
      PJRT_Error* error = (table_.*Function)(&args);
      return error ? take(error) : Status();
    } catch (const std::bad_alloc&) {
      return {StatusCode::kResourceExhausted, "the plugin ran out of memory"};
    } catch (const std::exception& thrown) {  // no plugin should, and some do
      return {StatusCode::kInternal, thrown.what()};
    }
  }

  /// Calls a function and throws its error.
  template <auto Function, class Args>
  void check(Args& args) const {
    raise_if_error(call<Function>(args));
  }

  /// Calls a function that gives something back. It cannot fail but by a fault of ours.
  template <auto Function, class Args>
  void dispose(Args& args) const noexcept {
    if (!(table_.*Function)) return;
    if (PJRT_Error* error = (table_.*Function)(&args)) free_error(error);
  }

  /// Turns an error into a status and frees it.
  Status take(PJRT_Error* error) const {
    if (!error) return {};
    auto code = make_args<PJRT_Error_GetCode_Args>();
    code.error = error;
    if (PJRT_Error* nested = table_.PJRT_Error_GetCode(&code)) {
      free_error(nested);
      code.code = PJRT_Error_Code_UNKNOWN;
    }
    auto message = make_args<PJRT_Error_Message_Args>();
    message.error = error;
    table_.PJRT_Error_Message(&message);
    const bool is_known = code.code > 0 && code.code <= PJRT_Error_Code_UNAUTHENTICATED;
    Status status(is_known ? static_cast<StatusCode>(code.code) : StatusCode::kUnknown,
                  std::string(message.message, message.message_size));
    free_error(error);
    return status;
  }

  /// Returns the numbers of an attribute of the plugin; none where it has no such attribute.
  std::vector<std::int64_t> attribute(std::string_view name) const {
    auto args = make_args<PJRT_Plugin_Attributes_Args>();
    if (!call<&PJRT_Api::PJRT_Plugin_Attributes>(args).ok()) return {};
    for (const PJRT_NamedValue& each : std::span(args.attributes, args.num_attributes)) {
      if (std::string_view(each.name, each.name_size) != name) continue;
      if (each.type != PJRT_NamedValue_kInt64List) return {};
      return {each.int64_array_value, each.int64_array_value + each.value_size};
    }
    return {};
  }

  /// Returns an extension by its type, or null.
  const PJRT_Extension_Base* extension(PJRT_Extension_Type type) const noexcept {
    const PJRT_Extension_Base* next = table_.extension_start;
    while (next && next->type != type) next = next->next;
    return next;
  }

 private:
  struct Entry {
    std::shared_ptr<const Api> api;
    Status failure;
  };
  struct Registry {
    std::mutex mutex;
    std::map<std::string, Entry> entries;
  };

  Api(const std::string& path, Check check_first) : Api(open(path), path) {
    if (check_first) check_first(*this);
    auto args = make_args<PJRT_Plugin_Initialize_Args>();
    check<&PJRT_Api::PJRT_Plugin_Initialize>(args);
  }

  /// Copies the plugin's table: what lies beyond its size reads as absent here.
  Api(const PJRT_Api* table, std::string path) : path_(std::move(path)) {
    constexpr std::size_t kLeast = offsetof(PJRT_Api, PJRT_Plugin_Initialize);
    if (!table || table->struct_size <= kLeast) {
      throw StatusError(refusal("its table of functions is missing or too small"));
    }
    const PJRT_Api_Version& version = table->pjrt_api_version;
    if (version.major_version != PJRT_API_MAJOR) {
      throw StatusError(refusal("it has version " + std::to_string(version.major_version) + "." +
                                std::to_string(version.minor_version) +
                                " of the PJRT C API, and devrt needs major version " +
                                std::to_string(PJRT_API_MAJOR)));
    }
    std::memcpy(&table_, table, std::min(table->struct_size, sizeof(PJRT_Api)));
  }

  static const PJRT_Api* open(const std::string& path) {
    // Not closed at exit (NODELETE), and its symbols kept from everybody else's (LOCAL).
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
      const char* why = dlerror();
      throw StatusError(Status(StatusCode::kNotFound,
                               "The PJRT plugin " + path +
                                   " cannot be opened: " + (why ? why : "no reason given") + ".")
                            .during("load_plugin"));
    }
    using GetApi = const PJRT_Api* (*)();
    const auto get = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
    return get ? get() : nullptr;
  }

  /// Throws FAILED_PRECONDITION in a child: the plugin's threads and locks are the parent's, and
  /// its next compilation would hang.
  void check_not_forked() const {
    if (!fork_.is_child()) return;
    throw StatusError(Status(StatusCode::kFailedPrecondition,
                             "The PJRT plugin " + path_ +
                                 " was loaded before this process was forked, and does not work "
                                 "here. Start processes with multiprocessing's 'spawn' method, or "
                                 "fork before the first compilation.")
                          .because(Reason::kForked)
                          .during("load_plugin"));
  }

  Status refusal(const std::string& why) const {
    return Status(StatusCode::kFailedPrecondition,
                  path_ + " is no PJRT plugin that devrt can use: " + why +
                      ". Install another version of it.")
        .during("load_plugin");
  }

  Status missing() const {
    return Status(StatusCode::kUnimplemented,
                  "The PJRT plugin " + path_ + " (API 0." + std::to_string(minor_version()) +
                      ") does not have this function. Install a newer version of it.");
  }

  void free_error(PJRT_Error* error) const noexcept {
    auto args = make_args<PJRT_Error_Destroy_Args>();
    args.error = error;
    table_.PJRT_Error_Destroy(&args);
  }

  const std::string path_;
  PJRT_Api table_{};
  ForkGuard fork_;
};

}  // namespace devrt::pjrt
