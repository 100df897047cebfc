#include "gpu_simulator/report.hpp"

#include <algorithm>
#include <cstdio>

namespace devrt::gpu_simulator {

std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string Moment::text() const {
  std::string text = std::string(function) + " (call " + std::to_string(number);
  if (actor == kHostActor) return text + ")";
  text += ", stream " + (stream ? hex(stream) : "0");
  return text + " of device " + std::to_string(device) + ")";
}

void Reports::add(std::string_view kind, std::string text) {
  std::string line = std::string(kind) + ": " + std::move(text);
  if (all_.size() >= kMost || std::ranges::find(all_, line) != all_.end()) return;
  if (print_) std::fprintf(stderr, "devrt simulator: %s\n", line.c_str());
  all_.push_back(std::move(line));
}

}  // namespace devrt::gpu_simulator
