// The module _ext of a native backend: a thin front of its client.
#include <cstdlib>
#include <exception>

#include "binding/python.hpp"
#include "client/ending.hpp"
#include "client/release_queue.hpp"

// nanobind's entry point is called by the module's own one, at the end of this file, and that by
// the one that checks the ABI, for which the build renames it.
#pragma push_macro("PyInit__ext")
#undef PyInit__ext
#define PyInit__ext devrt_nanobind_init

NB_MODULE(_ext, module) {
  using namespace devrt::native;
  module.doc() = "The native half of a devrt backend.";
  // Other libraries keep objects of this module until the process ends, as JAX's caches do. What
  // the module keeps itself is for the tests to hear of.
  nb::set_leak_warnings(std::getenv("TEST_LEAK_WARNINGS") != nullptr);
  bind_errors();
  bind_devices(module);
  bind_client(module);
  bind_backend(module);
  bind_buffer(module);
  bind_allocators(module);
  bind_kernels(module);
  bind_collectives(module);
  bind_batched();
  bind_executable(module);
  bind_custom_calls(module);
  describe_backend(module);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    watch_exit();
    std::exception_ptr broken_off;
    if (!finish_custom_calls()) {
      broken_off = std::make_exception_ptr(nb::python_error());
      abandon_engines();  // what calls Python will not end any more
    }
    release_stores();
    expect_finalization();
    close_release_queue();
    if (broken_off) std::rethrow_exception(broken_off);
  }));
  (void)Py_AtExit(&finish_engines);  // once no thread can call from Python, and before C's handlers
}

#pragma pop_macro("PyInit__ext")

/// Refuses every interpreter but the first: the types and dtypes that are kept here are that one's,
/// and so are nanobind's tables, which it would overwrite before any code of the module runs.
extern "C" NB_EXPORT PyObject* PyInit__ext() {
  static const std::int64_t first = PyInterpreterState_GetID(PyInterpreterState_Get());
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != first) {
    PyErr_SetString(PyExc_ImportError, DEVRT_PACKAGE
                    " works in one interpreter of a process only, and another one has it. "
                    "Use processes instead of subinterpreters.");
    return nullptr;
  }
  return devrt_nanobind_init();
}
