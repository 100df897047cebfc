// The execution stream of the calling thread.
#include "binding/python.hpp"

namespace devrt::native {

namespace {

PyObject* current_streams = nullptr;

}  // namespace

std::int64_t execution_stream() {
  static PyObject* const name = PyUnicode_InternFromString("stream_id");
  const nb::handle current = module_attribute(current_streams, "devrt.contract", "current_stream");
  const auto get = [&]() noexcept { return PyObject_GetAttr(current.ptr(), name); };
  nb::object id = nb::steal(get());
  if (!id.is_valid()) throw nb::python_error();
  const long long stream = PyLong_AsLongLong(id.ptr());
  if (stream == -1 && PyErr_Occurred()) throw nb::python_error();
  return stream;
}

}  // namespace devrt::native
