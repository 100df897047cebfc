// The module devrt_cpu._ext: a thin front of the CPU client.
#include "graveyard.hpp"
#include "python.hpp"

NB_MODULE(_ext, module) {
  using namespace devrt::cpu;
  module.doc() = "The native half of devrt's CPU backend.";
  bind_errors();
  bind_devices(module);
  bind_client(module);
  bind_buffer(module);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { close_graveyard(); }));
}
