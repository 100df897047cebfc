// Programs that are wrong in one way each, and the same without it.
#pragma once

#include <span>

#include "driver_api.hpp"

/// A client of the driver. Right, it is never reported; wrong, it always is.
struct Program {
  const char* name;
  const char* kind;   ///< begins the report
  const char* first;  ///< both functions are named in it
  const char* second;
  void (*run)(Machine& machine, bool wrong);
};

std::span<const Program> programs_of_order();
std::span<const Program> programs_of_memory();
std::span<const Program> programs_of_collectives();
