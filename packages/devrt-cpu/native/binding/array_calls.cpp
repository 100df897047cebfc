// Calls of programs on one device with devrt's arrays, without a step in Python for each of them.
#include <nanobind/nanobind.h>

#include <memory>
#include <utility>
#include <vector>

#include "binding/calls.hpp"
#include "client/release_queue.hpp"

namespace devrt::cpu {

using namespace nb::literals;

namespace {

/// A slot of a Python class, by its descriptor: looked up once, as a name takes longer.
class Slot {
 public:
  Slot(nb::handle cls, const char* name)
      : descriptor_(cls.attr(name)),
        get_(reinterpret_cast<descrgetfunc>(slot_of(Py_tp_descr_get))),
        set_(reinterpret_cast<descrsetfunc>(slot_of(Py_tp_descr_set))) {
    if (!get_ || !set_) throw nb::type_error("array_caller takes a class with slots");
  }

  nb::object of(nb::handle object) const {
    nb::object value = nb::steal(get_(descriptor_.ptr(), object.ptr(), nullptr));
    if (!value.is_valid()) throw nb::python_error();
    return value;
  }

  void set(nb::handle object, nb::handle value) const {
    if (set_(descriptor_.ptr(), object.ptr(), value.ptr()) != 0) throw nb::python_error();
  }

 private:
  void* slot_of(int number) const {
    return PyType_GetSlot(reinterpret_cast<PyTypeObject*>(descriptor_.type().ptr()), number);
  }

  nb::object descriptor_;
  descrgetfunc get_;
  descrsetfunc set_;
};

/// The class of arrays, as far as calls read it and make instances of it.
class ArrayClass {
 public:
  explicit ArrayClass(nb::handle cls)
      : cls_(nb::borrow(cls)),
        allocate_(reinterpret_cast<allocfunc>(
            PyType_GetSlot(reinterpret_cast<PyTypeObject*>(cls.ptr()), Py_tp_alloc))),
        buffers(cls, "_buffers"),
        sharding(cls, "_sharding"),
        shape(cls, "_shape"),
        committed_(cls, "_committed"),
        host_(cls, "_host"),
        shown_(cls, "_shown") {}

  bool is_type_of(nb::handle value) const { return value.type().is(cls_); }

  /// Makes the array of one buffer, as the class does where it is called.
  nb::object make(nb::object buffer, nb::handle of_sharding) const {
    nb::object made = nb::steal(allocate_(reinterpret_cast<PyTypeObject*>(cls_.ptr()), 0));
    nb::object one = nb::steal(PyTuple_New(1));
    if (!made.is_valid() || !one.is_valid() ||
        PyTuple_SetItem(one.ptr(), 0, buffer.release().ptr()) != 0) {
      throw nb::python_error();
    }
    buffers.set(made, one);
    sharding.set(made, of_sharding);
    shape.set(made, nb::none());
    committed_.set(made, Py_True);
    host_.set(made, nb::none());
    shown_.set(made, nb::none());
    return made;
  }

 private:
  nb::object cls_;
  allocfunc allocate_;

 public:
  Slot buffers, sharding, shape;

 private:
  Slot committed_, host_, shown_;
};

/// Returns an item of a list or tuple, borrowed; null beyond the end.
nb::handle item_of(nb::handle sequence, Py_ssize_t i) {
  PyObject* item = PyTuple_Check(sequence.ptr())  ? PyTuple_GetItem(sequence.ptr(), i)
                   : PyList_Check(sequence.ptr()) ? PyList_GetItem(sequence.ptr(), i)
                                                  : nullptr;
  if (!item) PyErr_Clear();
  return item;
}

Buffer* buffer_in(nb::handle sequence) {
  const nb::handle item = item_of(sequence, 0);
  if (!item.is_valid() || !item.type().is(types.buffer)) return nullptr;
  return nb::inst_ptr<BufferHandle>(item)->state.get();
}

/// A program, and the arrays that it takes and gives.
class ArrayCaller {
 public:
  ArrayCaller(nb::handle executable, nb::handle cls, nb::handle sharding, nb::handle first,
              bool gives_one)
      : executable_(nb::borrow(executable)),
        arrays_(cls),
        sharding_(nb::borrow(sharding)),
        first_(nb::steal<nb::object>(PySequence_Tuple(first.ptr()))),
        gives_one_(gives_one) {
    if (!first_.is_valid()) throw nb::python_error();
    for (nb::handle item; (item = item_of(first_, Py_ssize_t(given_.size()))).is_valid();) {
      if (!item.type().is(types.buffer)) throw nb::type_error("array_caller takes CpuBuffers");
      given_.push_back(nb::inst_ptr<BufferHandle>(item)->state.get());
    }
  }

  /// Calls the program. Returns None, and has done nothing, for what are no arrays that lie whole
  /// where the program takes them, or do not fit it.
  nb::object operator()(nb::handle arguments) const {
    const DrainScope drain;
    const Executable& executable = *nb::inst_ptr<ExecutableHandle>(executable_)->state;
    const Py_ssize_t count = PyObject_Size(arguments.ptr());
    if (count < 0) throw nb::python_error();
    Row row(given_.size() + static_cast<std::size_t>(count));
    std::ranges::copy(given_, row.begin());
    for (Py_ssize_t i = 0; i < count; ++i) {
      Buffer* buffer = taken(executable, item_of(arguments, i));
      if (!buffer) return nb::none();
      row[given_.size() + static_cast<std::size_t>(i)] = buffer;
    }
    const std::span<Buffer* const> arguments_of_one = row.span();
    const std::span<const std::span<Buffer* const>> shards(&arguments_of_one, 1);
    bool is_immediate = false;
    try {
      is_immediate = executable.check(shards, "execute");
    } catch (const StatusError& error) {
      if (error.status().code() == StatusCode::kInvalidArgument) return nb::none();
      throw;
    }
    return called(executable, is_immediate, shards);
  }

 private:
  /// Returns the buffer of an array that lies where the program takes it; null for any other value.
  Buffer* taken(const Executable& executable, nb::handle array) const {
    if (!array.is_valid() || !arrays_.is_type_of(array) || !arrays_.shape.of(array).is_none()) {
      return nullptr;
    }
    Buffer* buffer = buffer_in(arrays_.buffers.of(array));
    const nb::object sharding = arrays_.sharding.of(array);
    if (!buffer || sharding.is(sharding_)) return buffer;
    // The first question for it would make an equal one.
    if (!sharding.is_none() ||
        buffer->memory().get() != &executable.devices().front()->default_memory()) {
      return nullptr;
    }
    arrays_.sharding.set(array, sharding_);
    return buffer;
  }

  nb::object called(const Executable& executable, bool is_immediate,
                    std::span<const std::span<Buffer* const>> shards) const {
    const std::size_t num_outputs = executable.signature().outputs.size();
    SmallArray<Ref<Buffer>, kFew> results(num_outputs);
    call_checked(executable, is_immediate, shards, results.span());
    if (gives_one_ && num_outputs == 1) {
      return arrays_.make(wrap(std::move(results[0])), sharding_);
    }
    nb::object list = new_list(num_outputs);
    for (std::size_t i = 0; i < num_outputs; ++i) {
      set_item(list, i, arrays_.make(wrap(std::move(results[i])), sharding_));
    }
    return list;
  }

  nb::object executable_;
  ArrayClass arrays_;
  nb::object sharding_;
  nb::object first_;
  bool gives_one_;
  std::vector<Buffer*> given_;
};

nb::object array_caller(nb::handle self, nb::handle cls, nb::handle sharding, nb::handle first,
                        bool gives_one) {
  if (nb::inst_ptr<ExecutableHandle>(self)->state->devices().size() != 1) return nb::none();
  const auto caller = std::make_shared<ArrayCaller>(self, cls, sharding, first, gives_one);
  // Without a name for its argument: to look for names takes a part of a small program's time.
  return nb::cpp_function([caller](nb::handle arguments) { return (*caller)(arguments); });
}

}  // namespace

void bind_array_calls(nb::class_<ExecutableHandle>& cls) {
  cls.def(
      "array_caller",
      [](nb::handle_t<ExecutableHandle> self, nb::handle array_class, nb::handle sharding,
         nb::handle first,
         bool gives_one) { return array_caller(self, array_class, sharding, first, gives_one); },
      "array_class"_a, "sharding"_a, "first"_a, "gives_one"_a,
      nb::sig("def array_caller(self, array_class: type[typing.Any], sharding: typing.Any, "
              "first: collections.abc.Sequence[CpuBuffer], gives_one: bool) -> "
              "collections.abc.Callable[[collections.abc.Sequence[typing.Any]], typing.Any] | "
              "None"),
      "Return what calls the program with arrays that lie whole on its one device.");
}

}  // namespace devrt::cpu
