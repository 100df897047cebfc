// The Python side's own declarations; the one header that includes Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client.hpp"
#include "devrt/base/dims.hpp"
#include "devrt/base/element_type.hpp"
#include "devrt/base/status.hpp"
#include "execution/executable.hpp"

namespace devrt::native {

namespace nb = nanobind;

/// What Python holds: one share of a buffer. Handles on one buffer compare equal.
struct BufferHandle {
  explicit BufferHandle(Ref<Buffer> buffer) noexcept : state(std::move(buffer)) {}
  BufferHandle(BufferHandle&&) noexcept = default;
  BufferHandle& operator=(BufferHandle&&) = delete;
  BufferHandle(const BufferHandle&) = delete;
  BufferHandle& operator=(const BufferHandle&) = delete;
  ~BufferHandle();

  Ref<Buffer> state;
};

/// What Python holds: one share of an executable.
struct ExecutableHandle {
  explicit ExecutableHandle(Ref<Executable> executable) noexcept;
  ExecutableHandle(ExecutableHandle&&) noexcept;
  ExecutableHandle& operator=(ExecutableHandle&&) = delete;
  ExecutableHandle(const ExecutableHandle&) = delete;
  ExecutableHandle& operator=(const ExecutableHandle&) = delete;
  ~ExecutableHandle();

  Ref<Executable> state;
};

/// Keeps storage alive for an array that NumPy made of it; shows it as what the buffer was, or as
/// raw bytes where the buffer protocol has no name for its elements. Read-only.
struct HostView {
  ~HostView();

  Ref<Storage> storage;
  ElementType type;
  Dims shape;
  Dims strides;
};

/// The module's types, borrowed: the module keeps them alive as long as there are instances.
struct Types {
  nb::handle client;
  nb::handle device;
  nb::handle memory;
  nb::handle buffer;
  nb::handle host_view;
};
inline Types types;

/// Releases the GIL while it lives.
///
/// A daemon thread that asks for the GIL again once the interpreter goes never returns from here:
/// the SDK's ended_threads.cpp lets it sleep.
class GilRelease {
 public:
  GilRelease() noexcept;
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease();

  /// Returns whether the calling thread released the GIL so.
  static bool is_active() noexcept { return active_; }

  /// While one lives, the thread that released the GIL has it again.
  class Pause {
   public:
    Pause() noexcept : was_active_(std::exchange(active_, false)) {}
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() { active_ = was_active_; }

   private:
    const bool was_active_;
  };

  /// Marks a thread that Python does not know as one without the GIL, while one lives.
  class Without {
   public:
    Without() noexcept : was_active_(std::exchange(active_, true)) {}
    Without(const Without&) = delete;
    Without& operator=(const Without&) = delete;
    ~Without() { active_ = was_active_; }

   private:
    const bool was_active_;
  };

 private:
  static inline thread_local bool active_ = false;
  PyThreadState* state_;
};

/// Prepares for the interpreter's end; called by the thread that ends it, with the GIL.
void expect_finalization();

/// Calls a Python function; throws its error.
template <class... Arguments>
nb::object call_python(nb::handle function, const Arguments&... arguments) {
  nb::object result =
      nb::steal(PyObject_CallFunctionObjArgs(function.ptr(), arguments.ptr()..., nullptr));
  if (!result.is_valid()) throw nb::python_error();
  return result;
}
/// The same with a tuple of arguments and a dict of those by name.
inline nb::object apply_python(nb::handle function, nb::handle arguments, nb::handle named) {
  nb::object result = nb::steal(PyObject_Call(function.ptr(), arguments.ptr(), named.ptr()));
  if (!result.is_valid()) throw nb::python_error();
  return result;
}

/// Sets the Python error for a status; the one place where that happens.
void set_python_error(const Status& status) noexcept;
void bind_errors();

/// Refuses to make an instance from Python, where it would have no C++ object in it.
PyObject* refuse_new(PyTypeObject* type, PyObject* args, PyObject* kwargs);
inline PyType_Slot no_new_slots[] = {{Py_tp_new, reinterpret_cast<void*>(&refuse_new)},
                                     {0, nullptr}};

/// The slots of the class of buffers, its buffer protocol among them.
extern PyType_Slot buffer_slots[];

/// Returns an owner of a Python object, which is released through the queue.
ExternalOwner keep_object(nb::object kept);

/// Makes the Python object that holds a new buffer, and notes where the program made it.
nb::object wrap(Ref<Buffer> buffer);
/// Makes another Python object that holds a buffer.
nb::object wrap_known(Ref<Buffer> buffer);

/// Returns the Python object of a device or memory: most often there is one, found without a share.
template <class Owned>
nb::object to_object(Owned& owned) {
  nb::object known = nb::find(&owned);
  return known.is_valid() ? known : nb::cast(owned.shared());
}

/// Returns the allocator in a capsule that a plugin lends; `whose` completes the error's message.
std::shared_ptr<HostAllocator> foreign_allocator(nb::object capsule, const std::string& whose);

/// Return counters as a dict: a snapshot, or a memory's with what its allocator tells.
nb::dict to_dict(const MemorySnapshot& snapshot);
nb::dict memory_stats(const Memory& memory);
/// Returns the live buffers as a gzipped pprof profile.
nb::object heap_profile(Client& client);
/// Return what an out-of-memory error tells: as its attributes, and as lines of its message.
nb::dict report_facts(const MemoryReport& report);
std::string report_text(const MemoryReport& report);

/// Returns the NumPy dtype of a type: the same object on every call.
nb::handle numpy_dtype(ElementType type);
/// Return what the numpy module has by that name; imported at the first use.
nb::handle numpy_ndarray();
nb::handle numpy_asarray();

/// Returns an attribute of a module, imported at the first use and kept in `kept` for ever.
nb::handle module_attribute(PyObject*& kept, const char* module, const char* name);

/// Returns the calling thread's execution stream, as `devrt.contract` has it; needs the GIL.
std::int64_t execution_stream();

/// Returns the dimensions of a layout object from minor to major; throws unless a buffer of this
/// type and number of dimensions can have it.
Dims to_storage_order(nb::handle layout, ElementType type, std::size_t ndim);
/// Returns the `Layout` of a buffer, and the `PjRtLayout`.
nb::object layout_of(const Buffer& buffer);
nb::object pjrt_layout_of(const Buffer& buffer);
/// Returns the `PjRtLayout` that a buffer gets when none is requested.
nb::object default_layout(Client& client, nb::handle dtype, nb::handle shape, nb::handle device);

/// Throws INVALID_ARGUMENT because of a value's type.
[[noreturn]] void raise_type(std::string message, const char* operation);
/// Returns the name of a value's type.
std::string kind_of(nb::handle value);
/// Return the value of an argument that must be True or False, or an int; throw `raise_type`'s
/// error, naming it.
bool to_bool(nb::handle value, const char* name, const char* operation);
int to_int(nb::handle value, const char* name, const char* operation);
/// Returns the items of a sequence, kept alive; throws `raise_type`'s error, naming it.
std::vector<nb::object> to_items(nb::handle sequence, const char* name, const char* operation);
/// Returns what host_buffer_semantics and force_copy say.
PutOptions to_put_options(nb::handle semantics, const char* operation);
/// Makes the Python objects that hold new buffers.
nb::object wrap_all(std::vector<Ref<Buffer>> buffers);

/// A type and whether its bytes are in the other order.
struct DtypeInfo {
  ElementType type = ElementType::kInvalid;
  bool swapped = false;
};
/// Returns what a NumPy dtype object means; throws InvalidTypeError if no device can hold it.
DtypeInfo dtype_info(nb::handle dtype);

/// Waits for the ready event with the GIL released; throws its error. Obeys signals.
void await(const Buffer& buffer);
void await(const ReadyEvent& ready);
/// Returns the storage of a usable, filled buffer; throws deleted, closed, forked or its error.
Ref<Storage> read(const Buffer& buffer, const char* operation);
/// The same as the host can read it: a copy where the memory is the device's alone.
Ref<Storage> read_on_host(const Buffer& buffer, const char* operation);

/// Returns the integers of a sequence; throws INVALID_ARGUMENT, naming it, if it holds others.
Dims to_dims(nb::handle sequence, const char* what, const char* operation);
nb::object to_tuple(std::span<const std::int64_t> values);
/// Returns the memory that an argument names; throws if it is none of this client's.
Memory& resolve_memory(Client& client, nb::handle target, const char* operation);

/// Returns a NumPy array that shows a filled buffer; keeps its storage alive.
nb::object view_as_numpy(const Buffer& buffer, Ref<Storage> storage);

/// Exports a buffer as a DLPack capsule, as the array API has it.
nb::object export_dlpack(const BufferHandle& self, nb::handle stream, nb::handle max_version,
                         nb::handle dl_device, nb::handle copy);

/// Returns the live buffers, of one device if it is given.
nb::list live_buffers(Client& client, const Device* device);

[[noreturn]] void raise_unimplemented(const char* operation, const char* why);

/// Returns the executables that are neither deleted nor collected.
nb::list live_executables(const Client& client);
/// Returns what passed between a client and its engine: executions, views, copies and their bytes.
nb::dict engine_stats(const Client& client);

/// Binds what an executable says of itself.
void bind_executable_facts(nb::class_<ExecutableHandle>& cls);
void bind_buffer(nb::module_& module);
void bind_host_view(nb::module_& module);
void bind_views(nb::class_<BufferHandle>& cls);
void bind_executable(nb::module_& module);
void bind_custom_calls(nb::module_& module);
/// Lets no custom call into Python any more, and waits for those that are inside. Returns false,
/// with a Python error, where a signal broke the wait off. Needs the GIL.
bool finish_custom_calls();
void bind_devices(nb::module_& module);
void bind_client(nb::module_& module);
/// Binds what the backend has of its own; defined by the backend.
void bind_backend(nb::module_& module);
/// Says in the classes' docstrings what they are of this backend; defined by the backend, last.
void describe_backend(nb::module_& module);
/// Releases every client's `distributed_client`; at the interpreter's exit.
void release_stores() noexcept;
/// Keeps the distributed client that a client was made with, until `release_stores`.
void attach_store(const std::shared_ptr<Client>& client, nb::object store);
/// Calls a function that waits, without the GIL; for `ClientOptions`.
void wait_unlocked(const std::function<void()>& wait);
/// Throws what the handlers of signals raise, with the GIL or without; for `ClientOptions`.
void check_signals();
void bind_allocators(nb::module_& module);
void bind_kernels(nb::module_& module);
void bind_collectives(nb::module_& module);
/// Adds what works on many buffers to the classes; called once all of them are there.
void bind_batched();

}  // namespace devrt::native
