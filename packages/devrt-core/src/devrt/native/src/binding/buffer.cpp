// The Python class of buffers.
#include <memory>
#include <utility>

#include "binding/call_site.hpp"
#include "binding/python.hpp"
#include "binding/signals.hpp"
#include "client/release_queue.hpp"
#include "execution/custom_calls.hpp"
#include "execution/engine_event.hpp"

namespace devrt::native {

using namespace nb::literals;

BufferHandle::~BufferHandle() {
  DrainScope drain;
  state.reset();
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "this class is made by a client of " DEVRT_PACKAGE
                                   ", not by calling it: see devrt.devices.");
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
  const ReadyEvent& ready = buffer.ready();
  if (is_in_program() && !ready.is_ready()) [[unlikely]] {
    check_not_behind_caller(buffer, "block_until_ready");
  }
  await(ready);
}

void await(const ReadyEvent& ready) {
  if (!ready.is_ready()) {
    wait_in_slices([&] { return ready.wait_for(kWaitSlice).has_value(); });
  }
  raise_if_error(ready.error());
}

Ref<Storage> read(const Buffer& buffer, const char* operation) {
  Ref<Storage> storage = buffer.memory()->client().storage_of(buffer, operation);
  await(buffer);
  return storage;
}

Ref<Storage> read_on_host(const Buffer& buffer, const char* operation) {
  const Memory& memory = *buffer.memory();
  Ref<Storage> storage = read(buffer, operation);
  if (memory.is_host_visible()) [[likely]]
    return storage;
  Client::Fetched fetched = memory.client().fetch(memory, std::move(storage), ReadyEvent());
  await(fetched.ready);
  return std::move(fetched.storage);
}

namespace {

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

/// Copies without the GIL. A copy of what is not there yet may wait, for others or for its source.
Ref<Buffer> copy_apart(const Buffer& source, Memory& target, bool may_alias, std::int64_t stream) {
  Client& client = source.memory()->client();
  if (source.ready().is_ready()) {
    const GilRelease released;
    return client.copy(source, target, may_alias, stream);
  }
  const auto copied = std::make_shared<Ref<Buffer>>();
  const std::shared_ptr<Memory> to = target.shared();
  call_apart([=, from = Ref<const Buffer>::share_of(&source)] {
    *copied = to->client().copy(*from, *to, may_alias, stream);
  });
  return std::move(*copied);
}

nb::object copy_to_memory(const BufferHandle& self, nb::handle memory, nb::handle alias) {
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
  const bool may_alias = to_bool(alias, "may_alias", "copy_to_memory");
  Ref<Buffer> copied;
  if (source.bytes() > kInlineCopyBytes || !source.ready().is_ready()) {
    const std::int64_t stream = execution_stream();
    copied = copy_apart(source, target, may_alias, stream);
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
  const nb::object format =
      nb::str(DEVRT_CLASS_PREFIX "Buffer({}{}, {}, memory={}{})").attr("format");
  return call_python(format, numpy_dtype(buffer.type()), nb::list(to_tuple(buffer.shape().span())),
                     nb::str(buffer.memory()->device().name().c_str()),
                     nb::str(buffer.memory()->kind().c_str()), nb::str(state));
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
      .def_prop_ro(
          "layout", [](const BufferHandle& b) { return layout_of(*b.state); },
          "The order of the elements in memory, a `devrt.layout.Layout`.")
      .def_prop_ro(
          "pjrt_layout", [](const BufferHandle& b) { return pjrt_layout_of(*b.state); },
          "The same as a `devrt.layout.PjRtLayout`.")
      .def_prop_ro("_pjrt_layout", [](const BufferHandle& b) { return pjrt_layout_of(*b.state); })
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
          nb::sig("def block_until_ready(self) -> " DEVRT_CLASS_PREFIX "Buffer"),
          "Wait for the data, with the GIL released; return the buffer or raise its error.")
      .def(
          "is_deleted", [](const BufferHandle& b) { return b.state->is_deleted(); },
          "Return whether the buffer was deleted, by `delete` or by closing its client.")
      .def("delete", &delete_buffer,
           "Give the memory back as soon as no view or work in flight uses it. Idempotent.")
      .def(
          "clone",
          [](const BufferHandle& b) { return wrap(b.state->memory()->client().clone(*b.state)); },
          nb::sig("def clone(self) -> " DEVRT_CLASS_PREFIX "Buffer"),
          "Return another buffer on the same allocation, deleted independently of this one.")
      .def("copy_to_memory", &copy_to_memory, "memory"_a.none(), nb::kw_only(),
           "may_alias"_a.none() = true,
           nb::sig("def copy_to_memory(self, memory: " DEVRT_CLASS_PREFIX
                   "Memory | " DEVRT_CLASS_PREFIX "Device, *, may_alias: bool = "
                   "True) -> " DEVRT_CLASS_PREFIX "Buffer"),
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

void bind_placement(nb::class_<BufferHandle>& cls) {
  cls.def_prop_ro(
         "memory", [](const BufferHandle& b) { return to_object(memory_of(b, "memory")); },
         nb::sig("def memory(self) -> " DEVRT_CLASS_PREFIX "Memory"))
      .def_prop_ro(
          "device",
          [](const BufferHandle& b) { return to_object(memory_of(b, "device").device()); },
          nb::sig("def device(self) -> " DEVRT_CLASS_PREFIX "Device"))
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
          nb::sig("def devices(self) -> set[" DEVRT_CLASS_PREFIX "Device]"),
          "Return the set of the one device.")
      .def_prop_ro(
          "traceback", [](const BufferHandle& b) { return to_traceback(b.state->call_site()); },
          nb::sig("def traceback(self) -> devrt.contract.Traceback | None"))
      .def_prop_ro(
          "_arrays",
          [](nb::handle_t<BufferHandle> self) {
            nb::list list;
            list.append(self);
            return list;
          },
          nb::sig("def _arrays(self) -> list[" DEVRT_CLASS_PREFIX "Buffer]"));
}

void bind_identity(nb::class_<BufferHandle>& cls) {
  cls.def(
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

void bind_buffer(nb::module_& module) {
  bind_host_view(module);
  nb::class_<BufferHandle> buffer(module, DEVRT_CLASS_PREFIX "Buffer", nb::is_final(),
                                  nb::pooled(1024), nb::type_slots(buffer_slots),
                                  "One immutable allocation on one memory of a device.");
  types.buffer = buffer;
  bind_shape(buffer);
  bind_state(buffer);
  bind_placement(buffer);
  bind_views(buffer);
  bind_identity(buffer);
}

}  // namespace devrt::native
