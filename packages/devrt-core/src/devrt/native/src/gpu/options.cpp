#include "gpu/options.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace devrt::gpu {

namespace {

constexpr const char* kOperation = "make_gpu_client";

std::vector<int> to_numbers(std::string_view text, const std::string& source) {
  std::vector<int> numbers;
  if (text == ",") return numbers;  // how an empty set is given
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + comma, number);
    if (error != std::errc() || end != text.data() + comma || number < 0) {
      raise_invalid(source + " must be numbers from 0 on with commas between them, and has '" +
                        std::string(text.substr(0, comma)) + "'.",
                    kOperation);
    }
    numbers.push_back(number);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return numbers;
}

AllocatorKind to_kind(const std::string& name) {
  if (name == "default") return AllocatorKind::kDefault;
  if (name == "platform") return AllocatorKind::kPlatform;
  if (name == "bfc") return AllocatorKind::kBfc;
  if (name == "cuda_async") return AllocatorKind::kPool;
  raise_invalid(
      "allocator must be 'default', 'platform', 'bfc' or 'cuda_async', not '" + name + "'.",
      kOperation);
}

}  // namespace

Options Options::of(const native::ClientOptions& given) {
  Options options;
  options.library = given.backend_option<std::string>("library").value_or("");
  if (const auto allowed = given.backend_option<std::string>("allowed_devices")) {
    const auto source = given.backend_option<std::string>("allowed_devices_from");
    if (source) options.allowed_from = *source;
    options.allowed_devices = to_numbers(*allowed, options.allowed_from);
  }
  options.allocator = to_kind(given.backend_option<std::string>("allocator").value_or("default"));
  if (const auto fraction = given.backend_option<float>("memory_fraction")) {
    options.memory_fraction = static_cast<double>(*fraction);
  }
  options.preallocate = given.backend_option<bool>("preallocate").value_or(false);
  return options;
}

std::vector<int> choose_devices(const Options& options, int count) {
  std::vector<int> chosen;
  if (!options.allowed_devices) {
    for (int i = 0; i < count; ++i) chosen.push_back(i);
    return chosen;
  }
  for (const int number : *options.allowed_devices) {
    if (number >= count) {
      raise_invalid(options.allowed_from + " names device " + std::to_string(number) +
                        ", and the driver " + "shows " + std::to_string(count) +
                        ", numbered from 0.",
                    kOperation);
    }
    if (std::ranges::find(chosen, number) == chosen.end()) chosen.push_back(number);
  }
  if (chosen.empty()) {
    raise_invalid(
        options.allowed_from + " leaves none of the " + std::to_string(count) + " devices.",
        kOperation);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace devrt::gpu
