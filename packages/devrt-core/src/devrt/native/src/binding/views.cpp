// What shows a buffer's data to others: the buffer protocol and NumPy views.
#include <memory>

#include "binding/exchange.hpp"
#include "binding/python.hpp"
#include "client/release_queue.hpp"

namespace devrt::native {

using namespace nb::literals;

HostView::~HostView() {
  DrainScope drain;
  storage.reset();
}

namespace {

/// What an exported Py_buffer points to.
struct ViewExport {
  Ref<Storage> storage;
  Dims shape;
  Dims strides;
};

Dims strides_of(const Buffer& buffer) {
  return ordered_strides(buffer.shape().span(), itemsize(buffer.type()), buffer.order());
}

/// Returns why the elements lie in another order than a consumer needs, or null.
const char* refuse_order(const Buffer& buffer, int flags) {
  const bool wants_fortran = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
  if (!wants_fortran && buffer.order().empty()) return nullptr;
  const Dims strides = strides_of(buffer);
  const auto lies = [&](bool fortran) {
    return is_contiguous(buffer.shape().span(), strides.span(), itemsize(buffer.type()), fortran);
  };
  if (wants_fortran) {
    return lies(true) ? nullptr : "The buffer is not column-major. Copy it with numpy first.";
  }
  const bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
                       (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
  const bool wants_any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
  if (lies(false) || (!wants_c && !wants_any) || (!wants_c && lies(true))) return nullptr;
  return "The buffer has a layout of its own, which is not row-major. Ask for strides, or copy it "
         "with numpy.ascontiguousarray first.";
}

/// Returns why a view cannot be given, or null. A value, as NumPy asks and goes on without.
const char* refuse_view(const Buffer& buffer, int flags) {
  if (flags & PyBUF_WRITABLE) {
    return "A device buffer is immutable: it gives read-only views. Copy it to change it.";
  }
  if ((flags & PyBUF_FORMAT) && *info(buffer.type()).format == '\0') {
    return "The buffer protocol has no format for the dtype of this buffer, as it is one of "
           "ml_dtypes' types. Use numpy.asarray(buffer) or DLPack.";
  }
  return refuse_order(buffer, flags);
}

/// Fills in what a view of dense elements shows; `shape` and `strides` must outlive it.
void show(PyObject* owner, const Storage& storage, ElementType type, const Dims& shape,
          const Dims& strides, Py_buffer* view, int flags) noexcept {
  const auto sizes = [](const Dims& dims) {
    return const_cast<Py_ssize_t*>(reinterpret_cast<const Py_ssize_t*>(dims.data()));
  };
  view->buf = storage.data();
  view->len = static_cast<Py_ssize_t>(storage.bytes());
  view->itemsize = static_cast<Py_ssize_t>(itemsize(type));
  view->readonly = 1;
  view->ndim = static_cast<int>(shape.size());
  view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(info(type).format) : nullptr;
  view->shape = (flags & PyBUF_ND) ? sizes(shape) : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? sizes(strides) : nullptr;
  view->suboffsets = nullptr;
  view->obj = Py_NewRef(owner);
}

/// What a signal raised while a view of a buffer was waited for. NumPy drops that error, as all of
/// the buffer protocol, and asks the same buffer for an array next: there it is raised again.
struct DroppedError {
  const Buffer* of = nullptr;
  PyObject* error = nullptr;
};
DroppedError dropped;

void forget_dropped() {
  dropped.of = nullptr;
  Py_CLEAR(dropped.error);
}

void raise_dropped(const Buffer& buffer) {
  if (dropped.of != &buffer || !dropped.error) return;
  const nb::object error = nb::borrow(dropped.error);
  forget_dropped();
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

void fill_view(PyObject* self, const Buffer& buffer, Py_buffer* view, int flags) {
  auto exported = std::make_unique<ViewExport>();
  exported->storage = read_on_host(buffer, "memoryview");
  exported->shape = buffer.shape().copy();
  exported->strides = strides_of(buffer);
  show(self, *exported->storage, buffer.type(), exported->shape, exported->strides, view, flags);
  view->internal = exported.release();
}

int buffer_get(PyObject* self, Py_buffer* view, int flags) noexcept {
  const Buffer& buffer = *nb::inst_ptr<BufferHandle>(self)->state;
  view->obj = nullptr;
  try {
    forget_dropped();
    if (const char* refusal = refuse_view(buffer, flags)) {
      PyErr_SetString(PyExc_BufferError, refusal);
      return -1;
    }
    fill_view(self, buffer, view, flags);
    return 0;
  } catch (const StatusError& error) {
    set_python_error(error.status());
  } catch (nb::python_error& error) {
    dropped = {&buffer, nb::borrow(error.value()).release().ptr()};
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  }
  return -1;
}

void buffer_release(PyObject*, Py_buffer* view) noexcept {
  DrainScope drain;
  delete static_cast<ViewExport*>(view->internal);
}

int host_view_get(PyObject* self, Py_buffer* view, int flags) noexcept {
  const HostView& host = *nb::inst_ptr<HostView>(self);
  if (!(flags & PyBUF_FORMAT)) {
    return PyBuffer_FillInfo(view, self, host.storage->data(),
                             static_cast<Py_ssize_t>(host.storage->bytes()), 1, flags);
  }
  if (flags & PyBUF_WRITABLE) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "A device buffer is immutable: its views are read-only.");
    return -1;
  }
  view->internal = nullptr;
  show(self, *host.storage, host.type, host.shape, host.strides, view, flags);
  return 0;
}

PyType_Slot host_view_slots[] = {{Py_tp_new, reinterpret_cast<void*>(refuse_new)},
                                 {Py_bf_getbuffer, reinterpret_cast<void*>(host_view_get)},
                                 {0, nullptr}};

nb::object convert_array(nb::object array, nb::handle dtype, nb::handle copy) {
  const bool must_copy = !copy.is_none() && to_bool(copy, "copy", "__array__");
  if (!dtype.is_none() && !array.attr("dtype").equal(dtype)) {
    if (!copy.is_none() && !must_copy) {
      throw nb::value_error("A change of dtype needs a copy, and copy=False forbids it.");
    }
    return array.attr("astype")(dtype);
  }
  return must_copy ? array.attr("copy")() : array;
}

nb::object to_array(const BufferHandle& self, nb::handle dtype, nb::handle copy) {
  raise_dropped(*self.state);
  nb::object array = view_as_numpy(*self.state, read_on_host(*self.state, "__array__"));
  if (dtype.is_none() && copy.is_none()) return array;
  return convert_array(std::move(array), dtype, copy);
}

}  // namespace

PyType_Slot buffer_slots[] = {{Py_tp_new, reinterpret_cast<void*>(refuse_new)},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(buffer_get)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(buffer_release)},
                              {0, nullptr}};
nb::object view_as_numpy(const Buffer& buffer, Ref<Storage> storage) {
  const std::span<const std::int64_t> shape = buffer.shape().span();
  nb::object view = nb::inst_alloc(types.host_view);
  new (nb::inst_ptr<HostView>(view))
      HostView{std::move(storage), buffer.type(), Dims(shape), strides_of(buffer)};
  nb::inst_mark_ready(view);
  if (*info(buffer.type()).format == '\0') {
    if (buffer.order().empty()) {
      return numpy_ndarray()(to_tuple(shape), numpy_dtype(buffer.type()), view);
    }
    const nb::object strides = to_tuple(nb::inst_ptr<HostView>(view)->strides.span());
    return numpy_ndarray()(to_tuple(shape), numpy_dtype(buffer.type()), view, 0, strides);
  }
  // NumPy takes a buffer in faster than the arguments of its constructor.
  return numpy_asarray()(view);
}

void bind_views(nb::class_<BufferHandle>& cls) {
  cls.def("__array__", &to_array, "dtype"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __array__(self, dtype: numpy.dtype[typing.Any] | None = None, copy: bool | "
                  "None = None) -> numpy.typing.NDArray[typing.Any]"),
          "Return the data as a NumPy array: a read-only view unless a copy is requested.")
      .def("__dlpack__", &export_dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: typing.Any = None, max_version: tuple[int, "
                   "int] | None "
                   "= None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> "
                   "typing.Any"),
           "Export the data as a DLPack capsule that keeps the storage alive.")
      .def_prop_ro("__cuda_array_interface__", &array_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"),
                   "What others read the memory of a GPU by: version 3, for reading only.")
      .def(
          "__dlpack_device__",
          [](const BufferHandle& b) {
            const dlpack::Device device = b.state->memory()->dlpack_device();
            return nb::make_tuple(static_cast<int>(device.type), static_cast<int>(device.id));
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
}

void bind_host_view(nb::module_& module) {
  types.host_view = nb::class_<HostView>(module, "_HostView", nb::is_final(), nb::pooled(64),
                                         nb::type_slots(host_view_slots));
}

}  // namespace devrt::native
