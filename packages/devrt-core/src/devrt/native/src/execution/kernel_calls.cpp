#include "execution/kernel_calls.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "devrt/pjrt/engine/call_attributes.hpp"
#include "devrt/pjrt/engine/ffi.hpp"
#include "execution/engine.hpp"
#include "execution/kernel_target.hpp"

namespace devrt::native {

namespace {

using pjrt::ffi::CallAttributes;
using pjrt::ffi::CallFrame;

// `devrt.native.kernel_calls` writes what is read here.
constexpr std::int64_t kOperand = -1;
constexpr std::int64_t kResult = -2;

/// What the clients of the process have provided.
class Provided {
 public:
  void add(const Device& device, const std::string& key, std::shared_ptr<KernelFunction> function) {
    std::lock_guard lock(mutex_);
    std::vector<Entry>& entries = found_[key];
    const auto is_there = [&](const Entry& entry) { return entry.device == &device; };
    if (std::ranges::any_of(entries, is_there)) return;
    entries.push_back({&device.client(), &device, std::move(function)});
  }

  /// Removes a client's, and returns them: their modules are unloaded without the lock.
  std::vector<std::shared_ptr<KernelFunction>> take(const Client& client) {
    std::vector<std::shared_ptr<KernelFunction>> taken;
    std::lock_guard lock(mutex_);
    for (auto& [key, entries] : found_) {
      std::erase_if(entries, [&](Entry& entry) {
        if (entry.client != &client) return false;
        taken.push_back(std::move(entry.function));
        return true;
      });
    }
    std::erase_if(found_, [](const auto& each) { return each.second.empty(); });
    return taken;
  }

  /// Returns that of the device that is current in this thread; null if there is none.
  std::shared_ptr<KernelFunction> find(std::string_view key) const {
    std::lock_guard lock(mutex_);
    const auto at = found_.find(key);
    if (at == found_.end()) return nullptr;
    for (const Entry& entry : at->second) {
      if (entry.function->is_current()) return entry.function;
    }
    return nullptr;
  }

 private:
  struct Entry {
    const Client* client;
    const Device* device;
    std::shared_ptr<KernelFunction> function;
  };
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Entry>, std::less<>> found_;
};

/// Never destroyed: threads of a plugin may come by while the process exits.
Provided& provided() {
  static auto* const made = new Provided;
  return *made;
}

[[noreturn]] void reject_attribute(const std::string& name, const std::string& why) {
  pjrt::ffi::reject("'" + name + "' " + why);
}

std::array<unsigned, 3> read_sizes(const CallAttributes& attributes, const char* name) {
  const std::span<const std::int64_t> given = attributes.integers(name);
  if (given.empty() || given.size() > 3) {
    reject_attribute(name, "must be an array of one to three integers.");
  }
  std::array<unsigned, 3> made{1, 1, 1};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 1 || given[i] > 0xffffffff) {
      reject_attribute(name, "must have sizes from 1 to 4294967295.");
    }
    made[i] = static_cast<unsigned>(given[i]);
  }
  return made;
}

/// The values of a kernel's parameters, in their order.
class Parameters {
 public:
  Parameters(const CallFrame& frame, const CallAttributes& attributes)
      : frame_(frame), bytes_(attributes.bytes("scalars")) {
    for (const std::int64_t what : attributes.integers("parameters")) add(what);
    if (operands_ != frame.num_arguments() || results_ != frame.num_results() || !bytes_.empty()) {
      pjrt::ffi::reject("'parameters' must name each operand, result and byte of 'scalars' once.");
    }
  }

  std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> sizes;
    for (const KernelScalar& each : values_) sizes.push_back(each.size);
    return sizes;
  }
  std::vector<void*> pointers() {
    std::vector<void*> pointers;
    for (KernelScalar& each : values_) pointers.push_back(each.bytes.data());
    return pointers;
  }

 private:
  void add(std::int64_t what) {
    if (what == kOperand) return add_array(frame_.argument(operands_++));
    if (what == kResult) return add_array(frame_.result(results_++));
    KernelScalar& value = values_.emplace_back();
    if (what < 1 || what > static_cast<std::int64_t>(std::min(value.bytes.size(), bytes_.size()))) {
      pjrt::ffi::reject("'parameters' has " + std::to_string(what) +
                        ", which is no number of bytes that 'scalars' has.");
    }
    value.size = static_cast<std::size_t>(what);
    std::memcpy(value.bytes.data(), bytes_.data(), value.size);
    bytes_ = bytes_.subspan(value.size);
  }

  void add_array(const pjrt::ffi::Array& array) {
    KernelScalar& value = values_.emplace_back();
    value.size = sizeof array.data;
    std::memcpy(value.bytes.data(), &array.data, value.size);
  }

  const CallFrame& frame_;
  std::span<const std::int8_t> bytes_;
  std::vector<KernelScalar> values_;
  std::size_t operands_ = 0;
  std::size_t results_ = 0;
};

/// Launches the kernel that a program calls, in the order of the program's work.
void call_kernel(const XLA_FFI_CallFrame& raw) {
  const CallFrame frame(raw);
  const CallAttributes attributes(raw);
  const std::string key(attributes.text("kernel"));
  const std::shared_ptr<KernelFunction> function = provided().find(key);
  if (!function) {
    throw StatusError(Status(StatusCode::kNotFound,
                             "kernel '" + key +
                                 "' is not loaded on the device that the program runs on. Compile "
                                 "its module for that device, and keep its client open.")
                          .during("launch"));
  }
  LaunchShape shape{read_sizes(attributes, "grid"), read_sizes(attributes, "block")};
  const std::int64_t shared_bytes = frame.integer("shared_bytes").value_or(0);
  if (shared_bytes < 0 || shared_bytes > 0xffffffff) {
    pjrt::ffi::reject("'shared_bytes' is " + std::to_string(shared_bytes) + ".");
  }
  shape.shared_bytes = static_cast<unsigned>(shared_bytes);
  Parameters parameters(frame, attributes);
  function->check(shape, parameters.sizes());
  std::vector<void*> pointers = parameters.pointers();
  function->launch_in(pjrt::ffi::stream_of(raw), shape, pointers);
}

XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) noexcept {
  if (pjrt::ffi::detail::answer_metadata(*frame)) return nullptr;
  try {
    call_kernel(*frame);
    return nullptr;
  } catch (const StatusError& error) {
    return pjrt::ffi::fail(*frame, error.status());
  } catch (const std::exception& error) {
    return pjrt::ffi::fail(*frame, Status(StatusCode::kInternal, error.what()));
  }
}

}  // namespace

void provide_kernel(const Device& device, const std::string& key,
                    std::shared_ptr<KernelFunction> function) {
  device.client().check_open("launch");
  provided().add(device, key, std::move(function));
}

void forget_kernels(const Client& client) noexcept {
  try {
    (void)provided().take(client);
  } catch (...) {  // no memory: they stay loaded
  }
}

void provide_kernel_calls(const std::string& library) {
  static std::mutex mutex;
  static auto& known = *new std::set<std::string>;
  const auto api = load_engine(library);
  std::lock_guard lock(mutex);
  if (known.contains(library)) return;
  pjrt::ffi::register_handler(*api, platform().engine.ffi_platform, kKernelTarget, &handle);
  known.insert(library);
}

}  // namespace devrt::native
