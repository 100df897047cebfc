// Calls of programs with devrt's arrays, without a step in Python for each of them.
#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "binding/array_caller.hpp"
#include "binding/callable.hpp"
#include "client/release_queue.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

/// Returns an item of a list or tuple, borrowed; null beyond the end.
nb::handle item_of(nb::handle sequence, Py_ssize_t i) {
  PyObject* item = PyTuple_Check(sequence.ptr())  ? PyTuple_GetItem(sequence.ptr(), i)
                   : PyList_Check(sequence.ptr()) ? PyList_GetItem(sequence.ptr(), i)
                                                  : nullptr;
  if (!item) PyErr_Clear();
  return item;
}

Buffer* buffer_in(nb::handle sequence, std::size_t i) {
  const nb::handle item = item_of(sequence, static_cast<Py_ssize_t>(i));
  if (!item.is_valid() || !item.type().is(types.buffer)) return nullptr;
  return nb::inst_ptr<BufferHandle>(item)->state.get();
}

std::size_t size_of(nb::handle sequence) {
  const Py_ssize_t size = PyObject_Size(sequence.ptr());
  if (size < 0) throw nb::python_error();
  return static_cast<std::size_t>(size);
}

}  // namespace

nb::object as_tuple(nb::handle sequence) {
  nb::object tuple = nb::steal(PySequence_Tuple(sequence.ptr()));
  if (!tuple.is_valid()) throw nb::python_error();
  return tuple;
}

BorrowedItems::BorrowedItems(nb::handle sequence) : items_(size_of(sequence)) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    items_[i] = item_of(sequence, static_cast<Py_ssize_t>(i)).ptr();
  }
}

ArrayCaller::ArrayCaller(nb::handle executable, nb::handle cls, nb::handle takes, nb::handle first,
                         nb::handle gives, bool is_committed, bool gives_one)
    : executable_(nb::borrow(executable)),
      arrays_(cls),
      first_(as_tuple(first)),
      is_committed_(nb::bool_(is_committed)),
      gives_one_(gives_one),
      num_devices_(nb::inst_ptr<ExecutableHandle>(executable)->state->devices().size()) {
  for (nb::handle sharding : nb::tuple(as_tuple(takes))) takes_.push_back(nb::borrow(sharding));
  for (nb::handle row : nb::tuple(as_tuple(gives))) {
    const auto given = nb::cast<nb::tuple>(row);
    gives_.push_back({nb::borrow(given[0]), nb::borrow(given[1]), nb::borrow(given[2])});
  }
  if (gives_.size() !=
      nb::inst_ptr<ExecutableHandle>(executable)->state->signature().outputs.size()) {
    throw nb::value_error("array_caller takes one row for each result");
  }
  for (nb::handle shards : nb::tuple(first_)) {
    for (std::size_t d = 0; d < num_devices_; ++d) {
      Buffer* buffer = buffer_in(shards, d);
      if (!buffer)
        throw nb::type_error("array_caller takes " DEVRT_CLASS_PREFIX
                             "Buffers, one for each device");
      given_.push_back(buffer);
    }
  }
}

nb::object ArrayCaller::operator()(std::span<PyObject* const> arguments) const {
  const DrainScope drain;
  const Executable& executable = *nb::inst_ptr<ExecutableHandle>(executable_)->state;
  if (arguments.size() != takes_.size()) return nb::none();
  const std::size_t before = given_.size() / num_devices_, width = before + takes_.size();
  SmallArray<Buffer*, kFew> buffers(width * num_devices_);
  for (std::size_t p = 0; p < before; ++p) {
    for (std::size_t d = 0; d < num_devices_; ++d) {
      buffers[d * width + p] = given_[p * num_devices_ + d];
    }
  }
  for (std::size_t p = before; p < width; ++p) {
    const std::size_t i = p - before;
    if (!take(executable, arguments[i], takes_[i], {&buffers[p], width})) return nb::none();
  }
  SmallArray<std::span<Buffer* const>, 1> rows(num_devices_);
  for (std::size_t d = 0; d < num_devices_; ++d) {
    rows[d] = std::span<Buffer* const>(buffers.span()).subspan(d * width, width);
  }
  bool is_immediate = false;
  try {
    is_immediate = executable.check(rows.span(), "execute");
  } catch (const StatusError& error) {
    if (error.status().code() == StatusCode::kInvalidArgument) return nb::none();
    throw;
  }
  return called(executable, is_immediate, rows.span());
}

/// Sets the buffers of an array that lies where the program takes it; returns false for any other
/// value.
bool ArrayCaller::take(const Executable& executable, nb::handle array, const nb::object& wanted,
                       Column column) const {
  if (!array.is_valid()) return false;
  if (num_devices_ == 1 && array.type().is(types.buffer)) {  // a number that was put
    *column.first = nb::inst_ptr<BufferHandle>(array)->state.get();
    return true;
  }
  if (!arrays_.is_type_of(array)) return false;
  const nb::object held = arrays_.buffers.of(array);
  for (std::size_t d = 0; d < num_devices_; ++d) {
    column.first[d * column.step] = buffer_in(held, d);
    if (!column.first[d * column.step]) return false;
  }
  const nb::object sharding = arrays_.sharding.of(array);
  if (sharding.is(wanted)) return true;
  // The first question for it would make an equal one.
  if (!sharding.is_none() || num_devices_ != 1 ||
      (*column.first)->memory().get() != &executable.devices().front()->default_memory()) {
    return false;
  }
  arrays_.sharding.set(array, wanted);
  return true;
}

nb::object ArrayCaller::called(const Executable& executable, bool is_immediate,
                               std::span<const std::span<Buffer* const>> rows) const {
  SmallArray<Ref<Buffer>, kFew> results(gives_.size() * num_devices_);
  call_checked(executable, is_immediate, rows, results.span());
  if (gives_one_ && gives_.size() == 1) return array_of(0, results.span());
  nb::object list = new_list(gives_.size());
  for (std::size_t i = 0; i < gives_.size(); ++i) set_item(list, i, array_of(i, results.span()));
  return list;
}

/// Makes the array of one result; those of all are by device, then by output.
nb::object ArrayCaller::array_of(std::size_t i, std::span<Ref<Buffer>> results) const {
  nb::object shards = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(num_devices_)));
  if (!shards.is_valid()) throw nb::python_error();
  for (std::size_t d = 0; d < num_devices_; ++d) {
    nb::object buffer = wrap(std::move(results[d * gives_.size() + i]));
    if (PyTuple_SetItem(shards.ptr(), static_cast<Py_ssize_t>(d), buffer.release().ptr()) != 0) {
      throw nb::python_error();
    }
  }
  const Given& given = gives_[i];
  return arrays_.make(shards, given.sharding, given.shape, is_committed_, given.key);
}

namespace {

PyObject* call_with_sequence(PyObject* self, PyObject* arguments) noexcept {
  return to_python([&] {
    BorrowedItems items(arguments);
    return (*target_of<ArrayCaller>(self))(items.span());
  });
}

PyMethodDef call_definition = {"array_caller", &call_with_sequence, METH_O,
                               "Call the program with a list or tuple of arrays."};

nb::object array_caller(nb::handle self, nb::handle cls, nb::handle takes, nb::handle first,
                        nb::handle gives, bool is_committed, bool gives_one) {
  return make_builtin(call_definition, std::make_unique<ArrayCaller>(self, cls, takes, first, gives,
                                                                     is_committed, gives_one));
}

}  // namespace

const ArrayCaller* ArrayCaller::of(nb::handle function) noexcept {
  return find_target<ArrayCaller>(function, call_definition);
}

void bind_array_calls(nb::module_& module, nb::class_<ExecutableHandle>& cls) {
  cls.def(
      "array_caller",
      [](nb::handle_t<ExecutableHandle> self, nb::handle array_class, nb::handle takes,
         nb::handle first, nb::handle gives, bool is_committed, bool gives_one) {
        return array_caller(self, array_class, takes, first, gives, is_committed, gives_one);
      },
      "array_class"_a, "takes"_a, "first"_a, "gives"_a, "is_committed"_a, "gives_one"_a,
      nb::sig("def array_caller(self, array_class: type[typing.Any], "
              "takes: collections.abc.Sequence[typing.Any], "
              "first: collections.abc.Sequence[collections.abc.Sequence[" DEVRT_CLASS_PREFIX
              "Buffer]], "
              "gives: collections.abc.Sequence[tuple[typing.Any, typing.Any, typing.Any]], "
              "is_committed: bool, gives_one: bool) -> "
              "collections.abc.Callable[[collections.abc.Sequence[typing.Any]], typing.Any]"),
      "Return what calls the program with arrays that lie as its devices take them.");
  bind_call_table(module, cls);
}

}  // namespace devrt::native
