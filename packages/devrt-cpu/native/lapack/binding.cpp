// LAPACK's routines, which Python finds and lends to compiled programs.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>

#include "binding/python.hpp"
#include "lapack/lapack.hpp"

namespace devrt::cpu {

namespace nb = nanobind;
using namespace nanobind::literals;
using namespace native;

void bind_lapack(nb::module_& module) {
  module.def("_lapack_routines", &lapack_routines);
  module.def("_lapack_custom_calls", &lapack_custom_calls);
  module.def(
      "_provide_lapack",
      [](const std::string& library, const std::map<std::string, std::uintptr_t>& addresses) {
        std::map<std::string, void*> pointers;
        for (const auto& [name, address] : addresses) {
          pointers[name] = reinterpret_cast<void*>(address);
        }
        GilRelease released;
        provide_lapack(library, pointers);
      },
      "library"_a, "addresses"_a);
}

}  // namespace devrt::cpu
