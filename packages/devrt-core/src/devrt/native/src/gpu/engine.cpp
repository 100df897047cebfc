#include "gpu/engine.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "devrt/pjrt/engine/call_attributes.hpp"
#include "execution/engine_event.hpp"
#include "gpu/options.hpp"

namespace devrt::gpu {

namespace {

/// Of the C API. Older plugins may give up a view before the program that reads it has ended.
constexpr int kOldestMinor = 115;
constexpr std::string_view kCollectiveMemory = "collective_memory_size";

/// Fills memory that a custom call was given, on the program's stream. The plugin has made the
/// device current before it calls.
void fill_on_stream(const XLA_FFI_CallFrame& frame, void* data, int value,
                    std::size_t bytes) noexcept {
  const Driver* driver = bytes > 0 ? driver_at(data) : nullptr;
  if (!driver) {  // the host's, of a plugin for simulated devices
    std::memset(data, value, bytes);
    return;
  }
  auto* stream = static_cast<StreamHandle*>(pjrt::ffi::stream_of(frame));
  (void)driver->call.set_bytes(data, static_cast<unsigned char>(value), bytes, stream);
}

bool tells_of_pools(const native::DeviceFacts& device) {
  return std::ranges::any_of(device.attributes, [](const auto& attribute) {
    const auto* value = std::get_if<bool>(&attribute.second);
    return attribute.first == "memory_pools" && value && *value;
  });
}

/// Returns what the plugin calls the kind of allocator that the client has.
std::string_view allocator_of(std::span<const native::DeviceFacts> devices, const Options& own,
                              std::string_view pool_allocator) {
  if (own.allocator == AllocatorKind::kPlatform) return "platform";
  // The plugin ends the process where it is given a pool and a device has none.
  const bool shares_pool = own.allocator != AllocatorKind::kBfc && !pool_allocator.empty() &&
                           std::ranges::all_of(devices, tells_of_pools);
  return shares_pool ? pool_allocator : "bfc";
}

int hardware_id(const pjrt::Client& engine, PJRT_Device* device) {
  auto args = pjrt::make_args<PJRT_Device_LocalHardwareId_Args>();
  args.device = device;
  engine.api().check<&PJRT_Api::PJRT_Device_LocalHardwareId>(args);
  return args.local_hardware_id;
}

std::string listed(std::span<const int> numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

/// Returns where each of some numbers stands in a list; empty where one does not, or the list has
/// another number.
std::vector<std::size_t> find_positions(std::span<const int> numbers, std::span<const int> list) {
  if (!std::ranges::is_permutation(numbers, list)) return {};
  std::vector<std::size_t> places;
  for (const int number : numbers) {
    places.push_back(static_cast<std::size_t>(std::ranges::find(list, number) - list.begin()));
  }
  return places;
}

/// Returns which of the plugin's devices each of the client's is, by the driver's numbers. Throws
/// INTERNAL where the plugin has others: nothing then says which memory it would use.
std::vector<std::size_t> find_order(const pjrt::Client& engine,
                                    std::span<const native::DeviceFacts> devices) {
  std::vector<int> mine, visible, theirs;
  for (const native::DeviceFacts& device : devices) {
    visible.push_back(static_cast<int>(mine.size()));
    mine.push_back(device.local_hardware_id);
  }
  for (PJRT_Device* device : engine.devices()) theirs.push_back(hardware_id(engine, device));
  std::vector<std::size_t> order = find_positions(mine, theirs);
  if (order.empty()) order = find_positions(visible, theirs);  // it may count the visible ones
  if (!order.empty()) return order;
  throw StatusError(Status(StatusCode::kInternal,
                           "The plugin's devices are the driver's " + listed(theirs) +
                               ", and must be " + listed(mine) + ". Install another version of it.")
                        .during("compile_and_load"));
}

}  // namespace

Status copy_on_stream(const XLA_FFI_CallFrame& frame, void* to, const void* from, std::size_t bytes,
                      bool is_to_host) {
  if (bytes == 0) return {};
  const Driver* driver = driver_at(is_to_host ? from : to);
  if (!driver) {  // a plugin for simulated devices computes in the host's memory
    std::memcpy(to, from, bytes);
    return {};
  }
  auto* stream = static_cast<StreamHandle*>(pjrt::ffi::stream_of(frame));
  const auto copy = is_to_host ? driver->call.copy_from_device : driver->call.copy_to_device;
  Result result = copy(to, from, bytes, stream);
  if (result == kSuccess) result = driver->call.stream_synchronize(stream);
  return driver->status(result, "custom_call");
}

bool order_stream(const Driver& driver, StreamHandle* stream, const ReadyEvent& event) noexcept {
  if (auto* output = dynamic_cast<native::EngineEvent*>(event.source())) {
    return output->order(reinterpret_cast<std::intptr_t>(stream));
  }
  const auto* source = dynamic_cast<const DriverEvent*>(event.source());
  if (!source || &source->device().driver() != &driver) return false;
  return driver.call.stream_wait_event(stream, source->handle(), 0) == kSuccess;
}

std::vector<pjrt::Option> engine_options(std::span<const native::DeviceFacts> devices,
                                         const native::ClientOptions& given,
                                         std::string_view pool_allocator) {
  const Options own = Options::of(given);
  std::vector<std::int64_t> visible;
  for (const native::DeviceFacts& device : devices) visible.push_back(device.local_hardware_id);
  std::vector<pjrt::Option> options{
      {"allocator", std::string(allocator_of(devices, own, pool_allocator))},
      {"preallocate", false},  // the client's own memory would be taken twice
      {"visible_devices", std::move(visible)}};
  if (own.memory_fraction) {
    options.push_back({"memory_fraction", static_cast<float>(*own.memory_fraction)});
  }
  // How many bytes XLA takes at first for what its collectives exchange, which no other memory can
  // be.
  if (const auto bytes = given.backend_option<std::int64_t>(kCollectiveMemory)) {
    options.push_back({std::string(kCollectiveMemory), *bytes});
  }
  return options;
}

native::EnginePolicy engine_policy(const char* platform, const char* ffi_platform,
                                   std::string_view remedy,
                                   decltype(native::EnginePolicy::options) options) {
  return {.platform = platform,
          .oldest_minor = kOldestMinor,
          .remedy = remedy,
          .ffi_platform = ffi_platform,
          .options = options,
          .order = &find_order,
          .fill = &fill_on_stream,
          .donates_views = true,
          .is_in_order = true};
}

}  // namespace devrt::gpu
