// The bindings of the CPU's own.
#pragma once

#include <nanobind/nanobind.h>

namespace devrt::cpu {

void bind_make_client(nanobind::module_& module);
void bind_lapack(nanobind::module_& module);

}  // namespace devrt::cpu
