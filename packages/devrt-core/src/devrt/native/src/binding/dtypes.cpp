// The way between NumPy's dtype objects and element types, by the objects' addresses.
#include <array>
#include <string>

#include "binding/python.hpp"

namespace devrt::native {

namespace {

/// Dtype objects already seen. Each is kept alive, so that its address stays its name.
class DtypeCache {
 public:
  const DtypeInfo* find(PyObject* dtype) const noexcept {
    for (std::size_t i = slot(dtype); rows_[i].dtype; i = (i + 1) % kRows) {
      if (rows_[i].dtype == dtype) return &rows_[i].info;
    }
    return nullptr;
  }

  void add(PyObject* dtype, DtypeInfo info) noexcept {
    if (size_ >= kRows / 2) return;  // dtype objects made in a loop must not fill memory
    std::size_t i = slot(dtype);
    while (rows_[i].dtype) i = (i + 1) % kRows;
    Py_INCREF(dtype);
    rows_[i] = {dtype, info};
    ++size_;
  }

 private:
  static constexpr std::size_t kRows = 256;
  struct Row {
    PyObject* dtype = nullptr;
    DtypeInfo info;
  };

  static std::size_t slot(PyObject* dtype) noexcept {
    return (reinterpret_cast<std::uintptr_t>(dtype) >> 5) % kRows;
  }

  std::array<Row, kRows> rows_;
  std::size_t size_ = 0;
};

DtypeCache cache;
std::array<PyObject*, kElementTypeLimit> numpy_dtypes{};

DtypeInfo look_up(nb::handle dtype) {
  const nb::object numpy_type = nb::module_::import_("numpy").attr("dtype");
  const int is_dtype = PyObject_IsInstance(dtype.ptr(), numpy_type.ptr());
  if (is_dtype < 0) throw nb::python_error();
  if (!is_dtype) {
    const nb::str kind(dtype.type().attr("__qualname__"));
    throw StatusError(Status(StatusCode::kInvalidArgument,
                             std::string("The argument's dtype is no numpy.dtype but of type ") +
                                 kind.c_str() + ". Pass the array itself.")
                          .because(Reason::kType)
                          .during("buffer_from_pyval"));
  }
  nb::object element = call_python(nb::module_::import_("devrt.dtypes").attr("from_numpy"), dtype);
  const auto type = static_cast<ElementType>(nb::cast<int>(element.attr("code")));
  return {type, !nb::cast<bool>(dtype.attr("isnative"))};
}

}  // namespace

DtypeInfo dtype_info(nb::handle dtype) {
  if (const DtypeInfo* known = cache.find(dtype.ptr())) [[likely]]
    return *known;
  const DtypeInfo found = look_up(dtype);
  cache.add(dtype.ptr(), found);
  return found;
}

nb::handle numpy_dtype(ElementType type) {
  PyObject*& dtype = numpy_dtypes[static_cast<std::size_t>(type)];
  if (!dtype) [[unlikely]] {
    nb::object made = call_python(nb::module_::import_("devrt.dtypes").attr("to_numpy"),
                                  nb::int_(static_cast<int>(type)));
    if (!dtype) dtype = made.release().ptr();
  }
  return dtype;
}

// Not function-local statics: importing lets other threads run, and one that waited for such a
// static with the GIL would lock up.
nb::handle module_attribute(PyObject*& kept, const char* module, const char* name) {
  if (!kept) [[unlikely]] {
    nb::object found = nb::module_::import_(module).attr(name);
    if (!kept) kept = found.release().ptr();
  }
  return kept;
}

namespace {

PyObject* ndarray_type = nullptr;
PyObject* asarray_function = nullptr;

}  // namespace

nb::handle numpy_ndarray() { return module_attribute(ndarray_type, "numpy", "ndarray"); }
nb::handle numpy_asarray() { return module_attribute(asarray_function, "numpy", "asarray"); }

}  // namespace devrt::native
