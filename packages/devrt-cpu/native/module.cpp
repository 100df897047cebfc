// What the module devrt_cpu._ext has beside the native client's front.
#include "module.hpp"

#include "binding/python.hpp"

namespace devrt::native {

const char* platform_version() noexcept {
  return "devrt-cpu " DEVRT_CPU_VERSION " (g++-compatible " __VERSION__ ", C++20)";
}

void bind_backend(nb::module_& module) {
  cpu::bind_make_client(module);
  cpu::bind_lapack(module);
}

}  // namespace devrt::native
