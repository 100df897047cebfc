#include <string>

#include "python.hpp"

namespace devrt::cpu {

namespace {

PyObject* from_status_function = nullptr;

}  // namespace

void set_python_error(const Status& status) noexcept {
  try {
    nb::dict facts;
    std::string message = status.message();
    if (const MemoryReport* report = status.report()) {
      facts = report_facts(*report);
      message += report_text(*report);
    }
    facts["reason"] = reason_name(status.reason());
    facts["operation"] = status.operation().c_str();
    facts["device"] = status.device().c_str();
    nb::object error = apply_python(
        module_attribute(from_status_function, "devrt.errors", "from_status"),
        nb::make_tuple(static_cast<int>(status.code()), nb::str(message.data(), message.size())),
        facts);
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

namespace {

[[noreturn]] void raise_argument(nb::handle value, const char* name, const char* wanted) {
  const nb::str kind(value.type().attr("__qualname__"));
  throw nb::type_error(
      (std::string(name) + " must be " + wanted + ", not of type " + kind.c_str() + ".").c_str());
}

}  // namespace

bool to_bool(nb::handle value, const char* name) {
  bool result = false;
  if (!nb::try_cast(value, result)) raise_argument(value, name, "True or False");
  return result;
}

int to_int(nb::handle value, const char* name) {
  int result = 0;
  if (!nb::try_cast(value, result)) raise_argument(value, name, "an int of at most 32 bits");
  return result;
}

void bind_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    // What ends a daemon thread is caught as well, and is no exception that could be thrown again.
    if (!thrown) park_if_ended();
    try {
      std::rethrow_exception(thrown);
    } catch (const StatusError& error) {
      set_python_error(error.status());
    }
  });
}

}  // namespace devrt::cpu
