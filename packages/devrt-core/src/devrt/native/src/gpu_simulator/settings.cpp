#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "gpu_simulator/types.hpp"

namespace devrt::gpu_simulator {
namespace {

constexpr std::array<std::pair<Code, std::string_view>, 23> kCodes{{
    {Code::kSuccess, "success"},
    {Code::kInvalidValue, "invalid_value"},
    {Code::kOutOfMemory, "out_of_memory"},
    {Code::kNotInitialized, "not_initialized"},
    {Code::kDeinitialized, "deinitialized"},
    {Code::kNoDevice, "no_device"},
    {Code::kInvalidDevice, "invalid_device"},
    {Code::kInvalidImage, "invalid_image"},
    {Code::kNoImageForDevice, "no_image_for_device"},
    {Code::kInvalidContext, "invalid_context"},
    {Code::kPeerAccessUnsupported, "peer_access_unsupported"},
    {Code::kDeviceLost, "device_lost"},
    {Code::kInvalidHandle, "invalid_handle"},
    {Code::kNotFound, "not_found"},
    {Code::kNotReady, "not_ready"},
    {Code::kIllegalAddress, "illegal_address"},
    {Code::kPeerAccessAlreadyEnabled, "peer_access_already_enabled"},
    {Code::kContextDestroyed, "context_destroyed"},
    {Code::kHostAlreadyRegistered, "host_already_registered"},
    {Code::kHostNotRegistered, "host_not_registered"},
    {Code::kNotPermitted, "not_permitted"},
    {Code::kNotSupported, "not_supported"},
    {Code::kUnknown, "unknown"},
}};

[[noreturn]] void refuse(std::string_view name, std::string_view value) {
  throw std::invalid_argument("The simulator cannot be configured with " + std::string(name) + "=" +
                              std::string(value) +
                              " (DEVRT_GPU_SIMULATOR; sizes are in bytes, errors have names, as in "
                              "fail=cuMemAlloc_v2:1:out_of_memory).");
}

template <class Number>
Number number(std::string_view name, std::string_view value) {
  Number result{};
  const auto end = std::from_chars(value.data(), value.data() + value.size(), result);
  if (end.ec != std::errc() || end.ptr != value.data() + value.size()) refuse(name, value);
  return result;
}

/// Cuts off what comes before the first of a separator, or all.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

const Code* code_of(std::string_view name) {
  const auto found = std::ranges::find(kCodes, name, [](const auto& each) { return each.second; });
  return found == kCodes.end() ? nullptr : &found->first;
}

void add_failure(Settings& settings, std::string_view value) {
  const std::string_view whole = value;
  const std::string_view function = cut(value, ':');
  const std::string_view call = cut(value, ':');
  const Code* const code = code_of(value);
  if (function.empty() || !code) refuse("fail", whole);
  settings.failures.emplace(std::string(function),
                            Settings::Failure{number<std::uint64_t>("fail", call), *code});
}

void set(Settings& settings, std::string_view name, std::string_view value) {
  if (name == "model") return void(settings.model = value);
  if (name == "plugin_devices" && (value == "reversed" || value == "others")) {
    return void(settings.plugin_devices = value);
  }
  if (name == "missing") return void(settings.missing.emplace(value));
  if (name == "fail") return add_failure(settings, value);
  if (name == "lose") {
    const int device = number<int>(name, cut(value, ':'));
    return void(settings.lost[device] = number<std::uint64_t>(name, value));
  }
  if (name == "seed") return void(settings.seed = number<std::uint64_t>(name, value));
  if (name == "memory") return void(settings.memory = number<std::size_t>(name, value));
  if (name == "oom") return void(settings.out_of_memory_from = number<std::size_t>(name, value));
  const int given = number<int>(name, value);
  if (given < 0) refuse(name, value);
  if (name == "devices") return void(settings.devices = given);
  if (name == "group") return void(settings.group = given);
  if (name == "delay") return void(settings.delay_us = static_cast<unsigned>(given));
  if (name == "driver_version") return void(settings.driver_version = given);
  if (name == "links") return void(settings.links = given);
  if (name == "pools") return void(settings.pools = given);
  if (name == "managed") return void(settings.managed = given);
  if (name == "uninitialised") return void(settings.uninitialised = given);
  if (name == "wrong_contexts") return void(settings.wrong_contexts = given);
  if (name == "print") return void(settings.print = given);
  if (name == "explain_faults") return void(settings.explain_faults = given);
  refuse(name, value);
}

}  // namespace

std::string_view code_name(Code code) {
  for (const auto& [each, text] : kCodes) {
    if (each == code) return text;
  }
  return "?";
}

Settings parse_settings(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    std::string_view value = cut(text, ' ');
    if (value.empty()) continue;
    const std::string_view name = cut(value, '=');
    set(settings, name, value);
  }
  return settings;
}

}  // namespace devrt::gpu_simulator
