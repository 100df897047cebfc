#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "binding/python.hpp"

namespace devrt::native {

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

[[noreturn]] void raise_type(std::string message, const char* operation) {
  throw StatusError(Status(StatusCode::kInvalidArgument, std::move(message))
                        .because(Reason::kType)
                        .during(operation));
}

std::string kind_of(nb::handle value) { return nb::str(value.type().attr("__qualname__")).c_str(); }

namespace {

[[noreturn]] void raise_argument(nb::handle value, const char* name, const char* wanted,
                                 const char* operation) {
  raise_type(std::string(name) + " must be " + wanted + ", not of type " + kind_of(value) + ".",
             operation);
}

}  // namespace

bool to_bool(nb::handle value, const char* name, const char* operation) {
  bool result = false;
  if (!nb::try_cast(value, result)) raise_argument(value, name, "True or False", operation);
  return result;
}

int to_int(nb::handle value, const char* name, const char* operation) {
  int result = 0;
  if (!nb::try_cast(value, result)) {
    raise_argument(value, name, "an int of at most 32 bits", operation);
  }
  return result;
}

std::vector<nb::object> to_items(nb::handle sequence, const char* name, const char* operation) {
  const nb::object fast = nb::steal(PySequence_Fast(sequence.ptr(), "no sequence"));
  if (!fast.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
    PyErr_Clear();
    raise_argument(sequence, name, "a sequence", operation);
  }
  const Py_ssize_t count = PyObject_Size(fast.ptr());
  std::vector<nb::object> items;
  items.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    nb::object item = nb::steal(PySequence_GetItem(fast.ptr(), i));
    if (!item.is_valid()) throw nb::python_error();
    items.push_back(std::move(item));
  }
  return items;
}

void bind_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    // nanobind catches what ends a daemon thread as well, where no frame of this module that the
    // SDK's ended_threads.cpp could stop at lies in between. It is no exception to throw again.
    while (!thrown) pause();
    try {
      std::rethrow_exception(thrown);
    } catch (const StatusError& error) {
      set_python_error(error.status());
    }
  });
}

}  // namespace devrt::native
