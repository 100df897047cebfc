// Under how many seeds of the simulator a test runs.
#pragma once

#include <cstdlib>

/// Returns what DEVRT_SIMULATOR_SEEDS says; `usual` where nobody has set it.
inline int seeds(int usual = 10) {
  const char* const given = std::getenv("DEVRT_SIMULATOR_SEEDS");
  return given ? std::atoi(given) : usual;
}
