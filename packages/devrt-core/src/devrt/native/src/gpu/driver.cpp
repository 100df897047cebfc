// Loading a driver's library, and what its errors become.
#include "gpu/driver.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace devrt::gpu {

namespace {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// The names of the table's functions, in its order.
constexpr const char* kFunctions[] = {"init",
                                      "driver_version",
                                      "device_count",
                                      "device_get",
                                      "device_name",
                                      "device_uuid",
                                      "device_attribute",
                                      "device_pci_bus_id",
                                      "device_total_memory",
                                      "device_can_access_peer",
                                      "device_default_pool",
                                      "synchronize",
                                      "memory_info",
                                      "allocate",
                                      "free",
                                      "allocate_from_pool",
                                      "free_async",
                                      "pool_set_attribute",
                                      "pool_get_attribute",
                                      "pool_set_access",
                                      "pool_trim",
                                      "host_allocate",
                                      "host_free",
                                      "allocate_managed",
                                      "copy_to_device",
                                      "copy_from_device",
                                      "copy_within",
                                      "set_bytes",
                                      "stream_create",
                                      "stream_destroy",
                                      "stream_synchronize",
                                      "stream_query",
                                      "stream_wait_event",
                                      "stream_is_capturing",
                                      "event_create",
                                      "event_destroy",
                                      "event_record",
                                      "event_query",
                                      "event_synchronize",
                                      "module_load",
                                      "module_unload",
                                      "module_function",
                                      "function_attribute",
                                      "function_set_attribute",
                                      "function_parameter",
                                      "launch"};
constexpr std::size_t kFunctionCount = std::size(kFunctions);
static_assert(kFunctionCount * sizeof(void*) == sizeof(Functions));
constexpr std::string_view kOptional[] = {"function_set_attribute", "function_parameter"};

/// Returns the functions that a table must have, and does not.
std::vector<std::string> find_unfilled(const Functions& functions) {
  std::array<void*, kFunctionCount> pointers;
  std::memcpy(pointers.data(), &functions, sizeof functions);
  std::vector<std::string> unfilled;
  for (std::size_t i = 0; i < kFunctionCount; ++i) {
    if (pointers[i] || std::ranges::find(kOptional, kFunctions[i]) != std::end(kOptional)) continue;
    unfilled.emplace_back(kFunctions[i]);
  }
  return unfilled;
}

struct LoadedDrivers {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const Driver>> by_library;
};

/// Never taken apart: at the process's exit, threads of the driver's are still there.
LoadedDrivers& loaded_drivers() {
  static auto& loaded = *new LoadedDrivers;
  return loaded;
}

Status cannot(StatusCode code, std::string message, const char* operation) {
  return Status(code, std::move(message)).during(operation);
}

}  // namespace

Loader::Loader(const std::vector<std::string>& libraries, const char* operation)
    : operation_(operation) {
  std::string why;
  for (const std::string& library : libraries) {
    handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) {
      library_ = library;
      return;
    }
    const char* words = dlerror();
    why += (why.empty() ? "" : "; ") + std::string(words ? words : library);
  }
  throw StatusError(cannot(StatusCode::kUnavailable,
                           "The driver's library cannot be loaded (" + why +
                               "). Install the driver, or add its folder to LD_LIBRARY_PATH.",
                           operation_));
}

void* Loader::look_up(const char* name) const noexcept {
  return find_ ? find_(handle_, name) : dlsym(handle_, name);
}

void Loader::finish(Driver& driver, int floor, std::string_view floor_text,
                    std::string_view remedy) const {
  driver.library_ = library_;
  if (driver.call.driver_version) {
    // Read before the start, which a driver that is too old may refuse in words of its own.
    (void)driver.call.driver_version(&driver.version_);
  }
  const std::string which = library_ + " (version " + driver.version_text() +
                            (absent_.empty() ? "" : ", without " + join(absent_)) + ")";
  if (driver.version_ != 0 && driver.version_ < floor) {
    throw StatusError(cannot(StatusCode::kFailedPrecondition,
                             "The driver " + which + " is too old: " + std::string(floor_text) +
                                 " is the least that devrt works with. " + std::string(remedy),
                             operation_));
  }
  if (!missing_.empty()) {
    throw StatusError(
        cannot(StatusCode::kFailedPrecondition,
               "The driver " + which + " lacks " + join(missing_) + ". " + std::string(remedy),
               operation_));
  }
  if (const std::vector<std::string> unfilled = find_unfilled(driver.call); !unfilled.empty()) {
    throw StatusError(cannot(StatusCode::kInternal,
                             "The table of the driver " + library_ + " has no " + join(unfilled) +
                                 ". The backend's Driver must fill each with Loader::get, or with "
                                 "a function of its own.",
                             operation_));
  }
  if (const Result started = driver.call.init(0); started != kSuccess) {
    // A driver may say that a device is not valid where there is none.
    const bool has_none = started == kNoDevice || started == kInvalidDevice;
    const char* name = driver.error_name(started);
    throw StatusError(cannot(has_none ? StatusCode::kUnavailable : code_of(started),
                             "The driver " + which + " does not start: " + (name ? name : "error") +
                                 " (" + std::to_string(started) + ")" +
                                 (has_none ? ". It finds no device: check the variables that hide "
                                             "devices, and what the container was given."
                                           : "."),
                             operation_));
  }
  if (driver.version_ == 0) (void)driver.call.driver_version(&driver.version_);
}

const Driver& driver_in(const std::string& library) {
  LoadedDrivers& loaded = loaded_drivers();
  std::lock_guard lock(loaded.mutex);
  std::unique_ptr<const Driver>& found = loaded.by_library[library];
  if (!found) found = open_driver(library);
  return *found;
}

const Driver* driver_at(const void* data) noexcept {
  LoadedDrivers& loaded = loaded_drivers();
  std::lock_guard lock(loaded.mutex);
  for (const auto& [library, driver] : loaded.by_library) {
    if (driver && driver->device_at(data) >= 0) return driver.get();
  }
  return nullptr;
}

StatusCode code_of(Result result) noexcept {
  switch (result) {
    case 0:
      return StatusCode::kOk;
    case 1:  // a value
    case kInvalidDevice:
    case 200:  // an image
    case 209:  // no image for this device
    case 218:  // PTX
    case 222:  // PTX of a later version than the driver's
    case 400:  // a handle
      return StatusCode::kInvalidArgument;
    case kOutOfMemory:
    case 701:  // a launch's resources
      return StatusCode::kResourceExhausted;
    case 3:    // not initialised
    case 4:    // deinitialised: the process ends
    case 34:   // a library for linking alone
    case 35:   // the driver is older than its caller
    case 201:  // a context
    case 221:  // the library that compiles PTX is not there
    case 223:  // compiling PTX was switched off
    case 709:  // a context that was destroyed
      return StatusCode::kFailedPrecondition;
    case kNoDevice:
    case 46:   // another process has the device for itself, or nobody may have it
    case 802:  // not ready yet
    case 803:  // the kernel's driver is of another version
    case 804:  // a later driver's libraries, which this device does not support
      return StatusCode::kUnavailable;
    case 500:  // a name
      return StatusCode::kNotFound;
    case 800:
      return StatusCode::kPermissionDenied;
    case 217:  // no access to a peer
    case 801:
      return StatusCode::kUnimplemented;
    default:
      return is_lost(result) ? StatusCode::kDataLoss : StatusCode::kInternal;
  }
}

bool is_of_other_context(Result result) noexcept {
  // An invalid or destroyed context is current, or a handle is not of the one that is.
  return result == 201 || result == 400 || result == 709;
}

bool is_lost(Result result) noexcept {
  // After an illegal access or a kernel that failed, the driver gives every call the same error.
  return result == 214 || result == 220 || result == 226 || result == 700 || result == 702 ||
         result == 710 || (result >= 714 && result <= 719);
}

std::string Driver::uuid_text(const Uuid& uuid) const {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    char digits[3];
    (void)std::snprintf(digits, sizeof digits, "%02x", uuid.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

Status Driver::status(Result result, const char* operation, const std::string& device) const {
  if (result == kSuccess) return {};
  const StatusCode code = code_of(result);
  const char* name = error_name(result);
  const char* text = error_text(result);
  std::string message = std::string(operation) + " failed" +
                        (device.empty() ? "" : " on " + device) + ": " + (name ? name : "error") +
                        " (" + std::to_string(result) + "): " + (text ? text : "no words for it") +
                        ".";
  if (code == StatusCode::kDataLoss) {
    message +=
        " The device takes no more work in this process: make a new client without it (option " +
        native::platform().name +
        "_visible_devices or allowed_devices, by the driver's numbers), or start again.";
  }
  return Status(code, std::move(message)).during(operation).on(device);
}

}  // namespace devrt::gpu
