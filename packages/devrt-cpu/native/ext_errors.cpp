#include "python.hpp"

namespace devrt::cpu {

void set_python_error(const Status& status) noexcept {
  try {
    nb::object error =
        nb::module_::import_("devrt.errors")
            .attr("from_status")(static_cast<int>(status.code()), status.message().c_str(),
                                 nb::arg("reason") = reason_name(status.reason()),
                                 nb::arg("operation") = status.operation().c_str(),
                                 nb::arg("device") = status.device().c_str());
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void bind_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const StatusError& error) {
      set_python_error(error.status());
    }
  });
}

}  // namespace devrt::cpu
