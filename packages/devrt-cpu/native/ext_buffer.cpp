// The Python class of buffers, its buffer protocol and its NumPy views.
#include <chrono>
#include <memory>

#include "graveyard.hpp"
#include "python.hpp"
#include "site.hpp"

namespace devrt::cpu {

using namespace nb::literals;

BufferHandle::~BufferHandle() {
  DrainScope drain;
  state.reset();
}

HostView::~HostView() {
  DrainScope drain;
  storage.reset();
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "this class is made by a cpu client, not by calling it: see "
                  "devrt_cpu.make_cpu_client.");
  return nullptr;
}

nb::object wrap_known(Ref<Buffer> buffer) {
  nb::object handle = nb::inst_alloc(types.buffer);
  new (nb::inst_ptr<BufferHandle>(handle)) BufferHandle(std::move(buffer));
  nb::inst_mark_ready(handle);
  return handle;
}

nb::object to_tuple(std::span<const std::int64_t> values) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  if (!tuple.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyObject* item = PyLong_FromLongLong(values[i]);
    if (!item || PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), item) != 0) {
      throw nb::python_error();
    }
  }
  return tuple;
}

void await(const Buffer& buffer) {
  using namespace std::chrono_literals;
  const ReadyEvent& ready = buffer.ready();
  while (!ready.is_ready()) {
    {
      GilRelease released;
      (void)ready.wait_for(100ms);
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  raise_if_error(ready.error());
}

Ref<Storage> read(const Buffer& buffer, const char* operation) {
  Ref<Storage> storage = buffer.memory()->client().storage_of(buffer, operation);
  await(buffer);
  return storage;
}

namespace {

/// What an exported Py_buffer points to.
struct ViewExport {
  Ref<Storage> storage;
  Dims shape;
  Dims strides;
};

/// Returns why a view cannot be given, or null. A value, as NumPy asks and goes on without.
const char* refuse_view(const Buffer& buffer, int flags) noexcept {
  if (flags & PyBUF_WRITABLE) {
    return "A device buffer is immutable: it gives read-only views. Copy it to change it.";
  }
  if ((flags & PyBUF_FORMAT) && *info(buffer.type()).format == '\0') {
    return "The buffer protocol has no format for the dtype of this buffer, as it is one of "
           "ml_dtypes' types. Use numpy.asarray(buffer) or DLPack.";
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && buffer.shape().size() > 1) {
    return "A device buffer is row-major, not column-major.";
  }
  return nullptr;
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

void fill_view(PyObject* self, const Buffer& buffer, Py_buffer* view, int flags) {
  auto exported = std::make_unique<ViewExport>();
  exported->storage = read(buffer, "memoryview");
  exported->shape = buffer.shape().copy();
  exported->strides = dense_strides(buffer.shape().span(), itemsize(buffer.type()));
  show(self, *exported->storage, buffer.type(), exported->shape, exported->strides, view, flags);
  view->internal = exported.release();
}

int buffer_get(PyObject* self, Py_buffer* view, int flags) noexcept {
  const Buffer& buffer = *nb::inst_ptr<BufferHandle>(self)->state;
  view->obj = nullptr;
  if (const char* refusal = refuse_view(buffer, flags)) {
    PyErr_SetString(PyExc_BufferError, refusal);
    return -1;
  }
  try {
    fill_view(self, buffer, view, flags);
    return 0;
  } catch (const StatusError& error) {
    set_python_error(error.status());
  } catch (nb::python_error& error) {
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

PyType_Slot buffer_slots[] = {{Py_tp_new, reinterpret_cast<void*>(refuse_new)},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(buffer_get)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(buffer_release)},
                              {0, nullptr}};
PyType_Slot host_view_slots[] = {{Py_tp_new, reinterpret_cast<void*>(refuse_new)},
                                 {Py_bf_getbuffer, reinterpret_cast<void*>(host_view_get)},
                                 {0, nullptr}};

nb::object convert_array(nb::object array, nb::handle dtype, nb::handle copy) {
  const bool must_copy = !copy.is_none() && to_bool(copy, "copy");
  if (!dtype.is_none() && !array.attr("dtype").equal(dtype)) {
    if (!copy.is_none() && !must_copy) {
      throw nb::value_error("A change of dtype needs a copy, and copy=False forbids it.");
    }
    return array.attr("astype")(dtype);
  }
  return must_copy ? array.attr("copy")() : array;
}

nb::object to_array(const BufferHandle& self, nb::handle dtype, nb::handle copy) {
  nb::object array = view_as_numpy(*self.state, read(*self.state, "__array__"));
  if (dtype.is_none() && copy.is_none()) return array;
  return convert_array(std::move(array), dtype, copy);
}

Memory& memory_of(const BufferHandle& self, const char* operation) {
  const Buffer& buffer = *self.state;
  Client& client = buffer.memory()->client();
  if (buffer.is_deleted() || client.is_closed() || client.is_forked()) [[unlikely]] {
    (void)client.storage_of(buffer, operation);  // throws what is wrong
  }
  return *buffer.memory();
}

void delete_buffer(const BufferHandle& self) {
  Buffer& buffer = *self.state;
  if (buffer.memory()->client().is_closed()) return;  // closing deleted it
  DrainScope drain;
  buffer.remove();
}

nb::object copy_to_memory(const BufferHandle& self, nb::handle memory, bool may_alias) {
  const Buffer& source = *self.state;
  Client& client = source.memory()->client();
  (void)client.storage_of(source, "copy_to_memory");
  if (memory.is_none()) {
    throw StatusError(Status(StatusCode::kInvalidArgument,
                             "copy_to_memory failed: the target must be a memory, not None.")
                          .because(Reason::kType)
                          .during("copy_to_memory"));
  }
  Memory& target = resolve_memory(client, memory, "copy_to_memory");
  Ref<Buffer> copied;
  if (source.bytes() > kInlineCopyBytes || !source.ready().is_ready()) {
    GilRelease released;
    copied = client.copy(source, target, may_alias);
  } else {
    copied = client.copy(source, target, may_alias);
  }
  return wrap(std::move(copied));
}

nb::object describe(const BufferHandle& self) {
  const Buffer& buffer = *self.state;
  const Client& client = buffer.memory()->client();
  const char* state = client.is_closed()           ? ", closed"
                      : buffer.is_deleted()        ? ", deleted"
                      : !buffer.ready().is_ready() ? ", not ready"
                                                   : "";
  return nb::str("CpuBuffer({}{}, {}, memory={}{})")
      .attr("format")(numpy_dtype(buffer.type()), nb::list(to_tuple(buffer.shape().span())),
                      buffer.memory()->device().name().c_str(), buffer.memory()->kind().c_str(),
                      state);
}

void bind_shape(nb::class_<BufferHandle>& cls) {
  cls.def_prop_ro(
         "shape", [](const BufferHandle& b) { return to_tuple(b.state->shape().span()); },
         nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const BufferHandle& b) { return numpy_dtype(b.state->type()); },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"))
      .def_prop_ro("ndim", [](const BufferHandle& b) { return b.state->shape().size(); })
      .def_prop_ro(
          "size",
          [](const BufferHandle& b) { return b.state->bytes() / itemsize(b.state->type()); })
      .def_prop_ro("nbytes", [](const BufferHandle& b) { return b.state->bytes(); })
      .def_prop_ro("itemsize", [](const BufferHandle& b) { return itemsize(b.state->type()); })
      .def("__len__", [](const BufferHandle& b) {
        if (b.state->shape().size() == 0)
          throw nb::type_error("len() of a buffer without dimensions");
        return b.state->shape()[0];
      });
}

void bind_state(nb::class_<BufferHandle>& cls) {
  cls.def(
         "is_ready",
         [](const BufferHandle& b) {
           (void)memory_of(b, "is_ready");
           return b.state->ready().is_ready();
         },
         "Return whether the data has arrived, without waiting.")
      .def(
          "block_until_ready",
          [](nb::handle_t<BufferHandle> self) {
            const Buffer& buffer = *nb::inst_ptr<BufferHandle>(self)->state;
            (void)buffer.memory()->client().storage_of(buffer, "block_until_ready");
            await(buffer);
            return nb::borrow(self);
          },
          nb::sig("def block_until_ready(self) -> CpuBuffer"),
          "Wait for the data, with the GIL released; return the buffer or raise its error.")
      .def(
          "is_deleted", [](const BufferHandle& b) { return b.state->is_deleted(); },
          "Return whether the buffer was deleted, by `delete` or by closing its client.")
      .def("delete", &delete_buffer,
           "Give the memory back as soon as no view or work in flight uses it. Idempotent.")
      .def(
          "clone",
          [](const BufferHandle& b) { return wrap(b.state->memory()->client().clone(*b.state)); },
          nb::sig("def clone(self) -> CpuBuffer"),
          "Return another buffer on the same allocation, deleted independently of this one.")
      .def("copy_to_memory", &copy_to_memory, "memory"_a.none(), nb::kw_only(),
           "may_alias"_a = true,
           nb::sig("def copy_to_memory(self, memory: CpuMemory | CpuDevice, *, may_alias: bool = "
                   "True) -> CpuBuffer"),
           "Start a copy to another memory of the same client; share the allocation if allowed.")
      .def(
          "on_device_size_in_bytes",
          [](const BufferHandle& b) {
            return b.state->memory()
                ->client()
                .storage_of(*b.state, "on_device_size_in_bytes")
                ->bytes();
          },
          "Return the size of the allocation in bytes.")
      .def(
          "unsafe_buffer_pointer",
          [](const BufferHandle& b) {
            return reinterpret_cast<std::uintptr_t>(
                read(*b.state, "unsafe_buffer_pointer")->data());
          },
          "Wait for the data and return its address, valid only while the buffer is alive.");
}

void bind_place(nb::class_<BufferHandle>& cls) {
  cls.def_prop_ro(
         "memory", [](const BufferHandle& b) { return to_object(memory_of(b, "memory")); },
         nb::sig("def memory(self) -> CpuMemory"))
      .def_prop_ro(
          "device",
          [](const BufferHandle& b) { return to_object(memory_of(b, "device").device()); },
          nb::sig("def device(self) -> CpuDevice"))
      .def(
          "devices",
          [](const BufferHandle& b) {
            nb::object devices = nb::steal(PySet_New(nullptr));
            if (!devices.is_valid() ||
                PySet_Add(devices.ptr(),
                          nb::cast(memory_of(b, "devices").device().shared()).ptr()) != 0) {
              throw nb::python_error();
            }
            return devices;
          },
          nb::sig("def devices(self) -> set[CpuDevice]"), "Return the set of the one device.")
      .def_prop_ro(
          "traceback", [](const BufferHandle& b) { return to_traceback(b.state->site()); },
          nb::sig("def traceback(self) -> devrt.contract.Traceback | None"))
      .def_prop_ro(
          "_arrays",
          [](nb::handle_t<BufferHandle> self) {
            nb::list list;
            list.append(self);
            return list;
          },
          nb::sig("def _arrays(self) -> list[CpuBuffer]"));
}

void bind_views(nb::class_<BufferHandle>& cls) {
  cls.def("__array__", &to_array, "dtype"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __array__(self, dtype: numpy.dtype[typing.Any] | None = None, copy: bool | "
                  "None = None) -> numpy.typing.NDArray[typing.Any]"),
          "Return the data as a NumPy array: a read-only view unless a copy is asked for.")
      .def("__dlpack__", &export_dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig(
               "def __dlpack__(self, *, stream: None = None, max_version: tuple[int, int] | None "
               "= None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> "
               "typing.Any"),
           "Export the data as a DLPack capsule that keeps the storage alive.")
      .def(
          "__dlpack_device__", [](const BufferHandle&) { return nb::make_tuple(1, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "__eq__",
          [](const BufferHandle& a, nb::handle b) -> nb::object {
            if (!b.type().is(types.buffer)) return nb::borrow(Py_NotImplemented);
            return nb::bool_(a.state.get() == nb::inst_ptr<BufferHandle>(b)->state.get());
          },
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__",
           [](const BufferHandle& b) {
             return static_cast<Py_ssize_t>(reinterpret_cast<std::uintptr_t>(b.state.get()) >> 4);
           })
      .def("__repr__", &describe, nb::sig("def __repr__(self) -> str"));
}

}  // namespace

nb::object view_as_numpy(const Buffer& buffer, Ref<Storage> storage) {
  const std::span<const std::int64_t> shape = buffer.shape().span();
  nb::object view = nb::inst_alloc(types.host_view);
  new (nb::inst_ptr<HostView>(view)) HostView{std::move(storage), buffer.type(), Dims(shape),
                                              dense_strides(shape, itemsize(buffer.type()))};
  nb::inst_mark_ready(view);
  if (*info(buffer.type()).format == '\0') {
    return numpy_ndarray()(to_tuple(shape), numpy_dtype(buffer.type()), view);
  }
  // NumPy takes a buffer in faster than the arguments of its constructor.
  return numpy_asarray()(view);
}

void bind_buffer(nb::module_& module) {
  nb::class_<HostView> host_view(module, "_HostView", nb::is_final(), nb::pooled(64),
                                 nb::type_slots(host_view_slots));
  nb::class_<BufferHandle> buffer(module, "CpuBuffer", nb::is_final(), nb::pooled(1024),
                                  nb::type_slots(buffer_slots),
                                  "One immutable allocation on one memory of a CPU device.");
  types.host_view = host_view;
  types.buffer = buffer;
  bind_shape(buffer);
  bind_state(buffer);
  bind_place(buffer);
  bind_views(buffer);
}

}  // namespace devrt::cpu
