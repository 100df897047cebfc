// Operations on many buffers in one call.
#include <algorithm>
#include <string>
#include <vector>

#include "binding/host_value.hpp"
#include "binding/python.hpp"
#include "client/assembly.hpp"
#include "client/release_queue.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

[[noreturn]] void raise_not_a_buffer(nb::handle item, const char* operation) {
  raise_invalid(
      std::string(operation) + " takes buffers of this client, not " + nb::repr(item).c_str() + ".",
      operation);
}

/// Returns the buffers of a list of this client's; throws INVALID_ARGUMENT on anything else.
std::vector<const Buffer*> to_buffers(const Client& client, std::span<const nb::object> items,
                                      const char* operation) {
  std::vector<const Buffer*> buffers;
  buffers.reserve(items.size());
  for (const nb::object& item : items) {
    const bool is_buffer = item.type().is(types.buffer);
    const Buffer* buffer = is_buffer ? nb::inst_ptr<BufferHandle>(item)->state.get() : nullptr;
    if (!buffer || &buffer->memory()->client() != &client) {
      raise_not_a_buffer(item, operation);
    }
    buffers.push_back(buffer);
  }
  return buffers;
}

std::vector<Memory*> to_memories(Client& client, nb::handle targets, const char* operation) {
  std::vector<Memory*> memories;
  for (const nb::object& item : to_items(targets, "targets", operation)) {
    memories.push_back(&resolve_memory(client, item, operation));
  }
  return memories;
}

nb::object buffers_from_pyvals(Client& self, nb::handle arguments, nb::handle targets,
                               nb::handle semantics) {
  constexpr const char* kOperation = "buffers_from_pyvals";
  drain_release_queue();
  self.check_open(kOperation);
  PutOptions options = to_put_options(semantics, kOperation);
  options.stream = execution_stream();
  const std::vector<nb::object> values = to_items(arguments, "arguments", kOperation);
  const std::vector<Memory*> memories = to_memories(self, targets, kOperation);
  if (values.size() != memories.size()) {
    raise_invalid("arguments and targets must be of the same length.", kOperation);
  }
  std::vector<Ref<Buffer>> made;
  made.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    HostValue value(values[i], options.semantics != Semantics::kOnlyDuringCall);
    if (value.bytes() <= kInlineCopyBytes) {
      made.push_back(self.put(*memories[i], value.array(), value.hold(), options));
    } else {
      GilRelease released;
      made.push_back(self.put(*memories[i], value.array(), value.hold(), options));
    }
  }
  return wrap_all(std::move(made));
}

nb::object batched_copy_to_memory(Client& self, nb::handle buffers, nb::handle targets,
                                  nb::handle alias) {
  constexpr const char* kOperation = "batched_copy_to_memory";
  drain_release_queue();
  self.check_open(kOperation);
  const std::vector<nb::object> items = to_items(buffers, "buffers", kOperation);
  const std::vector<const Buffer*> sources = to_buffers(self, items, kOperation);
  const std::vector<Memory*> memories = to_memories(self, targets, kOperation);
  if (sources.size() != memories.size()) {
    raise_invalid("buffers and targets must be of the same length.", kOperation);
  }
  std::vector<Ref<Buffer>> copied;
  copied.reserve(sources.size());
  const bool may_alias = to_bool(alias, "may_alias", kOperation);
  const std::int64_t stream = execution_stream();
  const auto copy = [&] {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      copied.push_back(self.copy(*sources[i], *memories[i], may_alias, stream));
    }
  };
  std::size_t bytes = 0;
  for (const Buffer* source : sources) bytes += may_alias ? 0 : source->bytes();
  if (bytes > kInlineCopyBytes) {
    GilRelease released;
    copy();
  } else {
    copy();
  }
  return wrap_all(std::move(copied));
}

/// The numbers of a packed assembly; the bytes object must outlive them.
std::span<const std::int64_t> numbers_of(nb::handle packed, const char* operation) {
  if (!PyBytes_Check(packed.ptr())) {
    raise_type("assembly.packed must be bytes, not of type " + kind_of(packed) + ".", operation);
  }
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(packed.ptr(), &data, &size) != 0) throw nb::python_error();
  return {reinterpret_cast<const std::int64_t*>(data),
          static_cast<std::size_t>(size) / sizeof(std::int64_t)};
}

nb::object assemble_buffers(Client& self, nb::handle sources, nb::handle assembly,
                            nb::handle targets, nb::handle alias) {
  constexpr const char* kOperation = "assemble_buffers";
  drain_release_queue();
  self.check_open(kOperation);
  if (!nb::hasattr(assembly, "packed")) {
    raise_type("assembly must be a devrt.contract.Assembly, not of type " + kind_of(assembly) + ".",
               kOperation);
  }
  const nb::object packed = assembly.attr("packed");
  const Assembly plan = Assembly::read(numbers_of(packed, kOperation));
  const bool may_alias = to_bool(alias, "may_alias", kOperation);
  const std::vector<nb::object> items = to_items(sources, "sources", kOperation);
  const std::vector<const Buffer*> buffers = to_buffers(self, items, kOperation);
  const std::vector<Memory*> memories = to_memories(self, targets, kOperation);
  std::size_t bytes = 0;
  for (const Buffer* buffer : buffers) bytes += buffer->bytes();
  const std::int64_t stream = execution_stream();
  std::vector<Ref<Buffer>> made;
  if (bytes > kInlineCopyBytes) {
    GilRelease released;
    made = self.assemble(buffers, plan, memories, may_alias, stream);
  } else {
    made = self.assemble(buffers, plan, memories, may_alias, stream);
  }
  return wrap_all(std::move(made));
}

/// A Python buffer of writable bytes, for as long as this lives.
class WritableBytes {
 public:
  explicit WritableBytes(nb::handle value) {
    if (PyObject_GetBuffer(value.ptr(), &view_, PyBUF_CONTIG) == 0) return;
    PyErr_Clear();
    raise_invalid(
        "out must be an array that is writable and C-contiguous. Pass one as numpy.empty "
        "makes it.",
        "batched_copy_to_host");
  }
  WritableBytes(const WritableBytes&) = delete;
  WritableBytes& operator=(const WritableBytes&) = delete;
  ~WritableBytes() { PyBuffer_Release(&view_); }

  std::byte* data() const noexcept { return static_cast<std::byte*>(view_.buf); }
  std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

void check_gathered(const Gathered& part, const Dims& shape, const char* operation) {
  bool fits = part.start.size() == shape.size() && part.shape.size() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    fits = part.start[i] >= 0 && part.shape[i] <= shape[i] &&
           part.start[i] <= shape[i] - part.shape[i];
  }
  if (!fits) raise_invalid("A buffer does not lie within the array at its offset.", operation);
}

void batched_copy_to_host(Client& self, nb::handle buffers, nb::handle offsets, nb::handle out) {
  constexpr const char* kOperation = "batched_copy_to_host";
  self.check_open(kOperation);
  const std::vector<nb::object> items = to_items(buffers, "buffers", kOperation);
  const std::vector<const Buffer*> sources = to_buffers(self, items, kOperation);
  const std::vector<nb::object> starts = to_items(offsets, "offsets", kOperation);
  if (!nb::hasattr(out, "shape") || !nb::hasattr(out, "dtype")) {
    raise_type("out must be a NumPy array, not of type " + kind_of(out) + ".", kOperation);
  }
  const Dims shape = to_dims(out.attr("shape"), "out.shape", kOperation);
  const DtypeInfo dtype = dtype_info(out.attr("dtype"));
  const std::size_t size = itemsize(dtype.type);
  if (starts.size() != sources.size()) {
    raise_invalid("buffers and offsets must be of the same length.", kOperation);
  }
  std::vector<Gathered> parts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i]->type() != dtype.type || dtype.swapped) {
      raise_invalid("The buffers and the array must be of one element type.", kOperation);
    }
    parts.push_back({read_on_host(*sources[i], kOperation), sources[i]->shape().copy(),
                     to_dims(starts[i], "An offset", kOperation), sources[i]->order()});
    check_gathered(parts.back(), shape, kOperation);
  }
  const WritableBytes bytes(out);
  if (bytes.size() != checked_bytes(shape.span(), size)) {
    raise_invalid("The array does not have the bytes that its shape and dtype say.", kOperation);
  }
  if (bytes.size() > kInlineCopyBytes) {
    GilRelease released;
    self.gather(parts, bytes.data(), shape.span(), size);
  } else {
    self.gather(parts, bytes.data(), shape.span(), size);
  }
}

void batched_block_until_ready(Client&, nb::handle buffers) {
  constexpr const char* kOperation = "batched_block_until_ready";
  for (const nb::object& item : to_items(buffers, "buffers", kOperation)) {
    if (!item.type().is(types.buffer)) raise_not_a_buffer(item, kOperation);
    const Buffer& buffer = *nb::inst_ptr<BufferHandle>(item)->state;
    const Client& owner = buffer.memory()->client();
    const bool is_usable = !(buffer.is_deleted() || owner.is_closed() || owner.is_forked());
    if (is_usable && buffer.ready().is_ready()) [[likely]] {
      raise_if_error(buffer.ready().error());
      continue;
    }
    (void)owner.storage_of(buffer, kOperation);
    await(buffer);
  }
}

}  // namespace

nb::object wrap_all(std::vector<Ref<Buffer>> buffers) {
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(buffers.size())));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    nb::object handle = wrap(std::move(buffers[i]));
    if (PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), handle.release().ptr()) != 0) {
      throw nb::python_error();
    }
  }
  return list;
}

void bind_batched() {
  auto memory = nb::borrow<nb::class_<Memory>>(types.memory);
  memory
      .def_prop_ro(
          "address_space",
          [](const Memory& m) {
            return nb::make_tuple(reinterpret_cast<std::uintptr_t>(&m.client()),
                                  std::to_string(m.space()).c_str());
          },
          nb::sig("def address_space(self) -> tuple[int, str]"))
      .def_prop_ro("is_host_visible", &Memory::is_host_visible)
      .def_prop_ro("shares_parts", [](const Memory&) { return true; });
  auto device = nb::borrow<nb::class_<Device>>(types.device);
  device.def(
      "mark_peak_bytes", [](const Device& d) { return d.stats()->mark_peak(); },
      "Return the most bytes in use since the last call, and count anew from now.");
  auto client = nb::borrow<nb::class_<Client>>(types.client);
  client
      .def("buffers_from_pyvals", &buffers_from_pyvals, "arguments"_a.none(), "targets"_a.none(),
           "host_buffer_semantics"_a.none() = 0,
           nb::sig("def buffers_from_pyvals(self, arguments: "
                   "collections.abc.Sequence[typing.Any], targets: "
                   "collections.abc.Sequence[" DEVRT_CLASS_PREFIX "Device | " DEVRT_CLASS_PREFIX
                   "Memory], host_buffer_semantics: int = "
                   "0) -> list[" DEVRT_CLASS_PREFIX "Buffer]"),
           "Start the transfer of each of several host values to the target at its index.")
      .def("batched_copy_to_memory", &batched_copy_to_memory, "buffers"_a.none(),
           "targets"_a.none(), "may_alias"_a.none() = true,
           nb::sig("def batched_copy_to_memory(self, buffers: "
                   "collections.abc.Sequence[typing.Any], targets: "
                   "collections.abc.Sequence[" DEVRT_CLASS_PREFIX "Device | " DEVRT_CLASS_PREFIX
                   "Memory], may_alias: bool = True) -> "
                   "list[" DEVRT_CLASS_PREFIX "Buffer]"),
           "Start a copy of each buffer to the target at its index; share where that is allowed.")
      .def("assemble_buffers", &assemble_buffers, "sources"_a.none(), "assembly"_a.none(),
           "targets"_a.none(), "may_alias"_a.none() = true,
           nb::sig("def assemble_buffers(self, sources: collections.abc.Sequence[typing.Any], "
                   "assembly: typing.Any, targets: collections.abc.Sequence[" DEVRT_CLASS_PREFIX
                   "Device | " DEVRT_CLASS_PREFIX
                   "Memory], may_alias: bool = True) -> list[" DEVRT_CLASS_PREFIX "Buffer]"),
           "Start making blocks out of pieces of other buffers, each once for each memory kind.")
      .def("batched_copy_to_host", &batched_copy_to_host, "buffers"_a.none(), "offsets"_a.none(),
           "out"_a.none(),
           nb::sig("def batched_copy_to_host(self, buffers: "
                   "collections.abc.Sequence[typing.Any], offsets: "
                   "collections.abc.Sequence[tuple[int, ...]], out: typing.Any) -> None"),
           "Wait for buffers and write each into a C-contiguous array at its offset.")
      .def("batched_block_until_ready", &batched_block_until_ready, "buffers"_a.none(),
           nb::sig("def batched_block_until_ready(self, buffers: "
                   "collections.abc.Sequence[typing.Any]) -> None"),
           "Wait for every buffer with the GIL released; raise the first error.");
}

}  // namespace devrt::native
