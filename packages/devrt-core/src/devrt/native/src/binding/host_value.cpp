#include "binding/host_value.hpp"

#include <complex>
#include <cstring>
#include <memory>
#include <string>

#include "binding/dlpack_import.hpp"
#include "devrt/buffers/dlpack.hpp"

namespace devrt::native {

namespace {

/// A Python buffer that is released through the queue.
struct BufferRelease : DeferredRelease {
  BufferRelease() noexcept : DeferredRelease(&BufferRelease::release) {}
  static void release(DeferredRelease* node) {
    auto* self = static_cast<BufferRelease*>(node);
    PyBuffer_Release(&self->view);
    delete self;
  }
  Py_buffer view{};
};

constexpr const char* kOperation = "buffer_from_pyval";

[[noreturn]] void raise_value_type(std::string message) {
  devrt::native::raise_type(std::move(message), kOperation);
}

[[noreturn]] void raise_not_an_array(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) {
    raise_value_type(
        "A value of type str is no array. Give the numbers that it stands for, or its bytes: "
        "x.encode() is put as an array of uint8.");
  }
  if (nb::hasattr(value, "__cuda_array_interface__")) {
    raise_value_type("A value of type " + kind_of(value) +
                     " has an address in its __cuda_array_interface__ that is on no device of this "
                     "process's clients. Make a client that has the device, or copy the value to "
                     "the host with its own library.");
  }
  raise_value_type(
      "A value of type " + kind_of(value) +
      " is no array: it is no number and has no buffer, __array__ or __dlpack__. Convert "
      "it first, for example with numpy.asarray(x, dtype='float32').");
}

PyObject* refuse_nulls_function = nullptr;

/// Throws if elements are masked or null, which a buffer cannot show: those of ndarray's subclasses
/// and of other libraries' arrays may be.
void refuse_nulls(nb::handle value) {
  (void)call_python(module_attribute(refuse_nulls_function, "devrt.contract", "refuse_nulls"),
                    value, nb::str(kOperation));
}

bool is_scalar_sequence(nb::handle value) {
  return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()) || PyUnicode_Check(value.ptr()) ||
         PyDict_Check(value.ptr()) || value.is_none();
}

}  // namespace

HostValue::HostValue(nb::handle argument, bool keep) {
  if (argument.type().is(numpy_ndarray())) [[likely]] {
    open_array(argument, keep);
  } else if (!open_python_scalar(argument)) {
    open_other(argument, keep);
  }
}

HostValue::~HostValue() {
  DrainScope drain;
  if (view_.obj) PyBuffer_Release(&view_);
  hold_.reset();  // if no transfer took it
}

void HostValue::open_array(nb::handle array, bool keep) {
  static PyObject* const name = PyUnicode_InternFromString("dtype");
  nb::object dtype = nb::steal(PyObject_GetAttr(array.ptr(), name));
  if (!dtype.is_valid()) throw nb::python_error();
  const DtypeInfo info = dtype_info(dtype);
  // No format is requested: the dtype says it all, and ml_dtypes' types have none.
  if (!keep) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDES) != 0) throw nb::python_error();
    return show_view(view_, info);
  }
  auto deferred = std::make_unique<BufferRelease>();
  if (PyObject_GetBuffer(array.ptr(), &deferred->view, PyBUF_STRIDES) != 0)
    throw nb::python_error();
  show_view(deferred->view, info);
  hold_ = release_later(deferred.release());
}

void HostValue::show_view(const Py_buffer& view, DtypeInfo info) {
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  const auto ndim = static_cast<std::size_t>(view.ndim);
  // The dtype came from an attribute, which may lie or have been changed by another thread.
  if (view.itemsize != static_cast<Py_ssize_t>(itemsize(info.type)) ||
      (ndim > 0 && (!view.shape || !view.strides))) {
    raise_value_type("The argument's dtype has elements of " + std::to_string(itemsize(info.type)) +
                     " bytes, but its buffer has elements of " + std::to_string(view.itemsize) +
                     ". Pass the array itself, not an object that only looks like it.");
  }
  const std::span<const std::int64_t> shape{reinterpret_cast<const std::int64_t*>(view.shape),
                                            ndim};
  if (checked_bytes(shape, itemsize(info.type)) != static_cast<std::size_t>(view.len)) {
    raise_value_type("The argument's buffer says that it has " + std::to_string(view.len) +
                     " bytes, which its shape contradicts. Copy it to a numpy array first.");
  }
  array_.type = info.type;
  array_.view.data = static_cast<const std::byte*>(view.buf);
  array_.view.shape = shape;
  array_.view.strides = {reinterpret_cast<const std::int64_t*>(view.strides), ndim};
  array_.view.itemsize = itemsize(info.type);
  array_.view.swap = info.swapped ? devrt::info(info.type).swap : 1;
  bytes_ = static_cast<std::size_t>(view.len);
}

template <class T>
bool HostValue::show_scalar(ElementType type, T value) {
  static_assert(sizeof(T) <= sizeof scalar_);
  std::memcpy(scalar_, &value, sizeof value);
  array_ = {{scalar_, {}, {}, sizeof value, 1}, type};
  bytes_ = sizeof value;
  return true;
}

bool HostValue::open_python_scalar(nb::handle value) {
  PyObject* object = value.ptr();
  if (PyBool_Check(object)) return show_scalar(ElementType::kBool, object == Py_True);
  if (PyFloat_CheckExact(object)) {
    return show_scalar(ElementType::kFloat32, static_cast<float>(PyFloat_AsDouble(object)));
  }
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) {
      raise_invalid(
          "A Python int does not fit 64 bits. Pass a numpy array of a wider or float type.",
          "buffer_from_pyval");
    }
    const auto narrow = static_cast<std::int32_t>(number);
    if (narrow == number) return show_scalar(ElementType::kInt32, narrow);
    return show_scalar(ElementType::kInt64, static_cast<std::int64_t>(number));
  }
  if (PyComplex_CheckExact(object)) {
    return show_scalar(ElementType::kComplex64,
                       std::complex<float>(static_cast<float>(PyComplex_RealAsDouble(object)),
                                           static_cast<float>(PyComplex_ImagAsDouble(object))));
  }
  return false;
}

void HostValue::open_dlpack(nb::handle value) {
  const nb::object device = value.attr("__dlpack_device__")();
  const int device_type = to_int(device[0], "__dlpack_device__()[0]", kOperation);
  if (device_type != dlpack::kCpu) {
    raise_invalid("A value of type " + kind_of(value) + " lies on a device (DLPack type " +
                      std::to_string(device_type) + "). Copy it to the host first.",
                  "buffer_from_pyval");
  }
  open_capsule(call_dlpack(value), {dlpack::kCpu, 0}, tensor_);
  array_ = tensor_.array;
  bytes_ = tensor_.bytes;
  hold_ = std::move(tensor_.hold);
}

void HostValue::open_other(nb::handle value, bool keep) {
  const int is_ndarray = PyObject_IsInstance(value.ptr(), numpy_ndarray().ptr());
  if (is_ndarray < 0) throw nb::python_error();
  refuse_nulls(value);
  if (is_ndarray) return open_array(value, keep);
  if (is_scalar_sequence(value) || PyType_Check(value.ptr())) raise_not_an_array(value);
  const bool has_buffer = PyObject_CheckBuffer(value.ptr()) != 0;
  if (!has_buffer && nb::hasattr(value, "__dlpack__") && nb::hasattr(value, "__dlpack_device__")) {
    open_dlpack(value);
    return;
  }
  if (!has_buffer && !nb::hasattr(value, "__array__") &&
      !nb::hasattr(value, "__array_interface__")) {
    raise_not_an_array(value);
  }
  // NumPy reads bytes as a string unless they are marked as a buffer.
  nb::object source = PyBytes_Check(value.ptr()) ? nb::steal(PyMemoryView_FromObject(value.ptr()))
                                                 : nb::borrow(value);
  if (!source.is_valid()) throw nb::python_error();
  open_array(numpy_asarray()(source), keep);
}

}  // namespace devrt::native
