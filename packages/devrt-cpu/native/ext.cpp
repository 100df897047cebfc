// The module devrt_cpu._ext: a thin front of the CPU client.
#include "graveyard.hpp"
#include "python.hpp"

namespace {

/// The types and dtypes that the module keeps are those of one interpreter.
void check_interpreter() {
  static PyInterpreterState* const first = PyInterpreterState_Get();
  if (PyInterpreterState_Get() != first) {
    throw devrt::cpu::nb::import_error(
        "devrt_cpu works in one interpreter of a process only, and another one has it. Use "
        "processes instead of subinterpreters.");
  }
}

}  // namespace

NB_MODULE(_ext, module) {
  using namespace devrt::cpu;
  check_interpreter();
  module.doc() = "The native half of devrt's CPU backend.";
  bind_errors();
  bind_devices(module);
  bind_client(module);
  bind_buffer(module);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    stop_daemon_threads();
    close_graveyard();
  }));
}
