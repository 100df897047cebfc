// Calls of programs on one device with devrt's arrays, without a step in Python for each of them.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
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
        shape_(cls, "_shape"),
        committed_(cls, "_committed"),
        host_(cls, "_host"),
        shown_(cls, "_shown"),
        key_(cls, "_key") {}

  bool is_type_of(nb::handle value) const { return value.type().is(cls_); }

  /// Makes an array, as the class does where it is called.
  nb::object make(nb::handle of_buffers, nb::handle of_sharding, nb::handle shape,
                  nb::handle committed, nb::handle key) const {
    nb::object made = nb::steal(allocate_(reinterpret_cast<PyTypeObject*>(cls_.ptr()), 0));
    if (!made.is_valid()) throw nb::python_error();
    buffers.set(made, of_buffers);
    sharding.set(made, of_sharding);
    shape_.set(made, shape);
    committed_.set(made, committed);
    host_.set(made, nb::none());
    shown_.set(made, nb::none());
    key_.set(made, key);
    return made;
  }

 private:
  nb::object cls_;
  allocfunc allocate_;

 public:
  Slot buffers, sharding;

 private:
  Slot shape_, committed_, host_, shown_, key_;
};

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

nb::object as_tuple(nb::handle sequence) {
  nb::object tuple = nb::steal(PySequence_Tuple(sequence.ptr()));
  if (!tuple.is_valid()) throw nb::python_error();
  return tuple;
}

/// What an array that a program gives is made with.
struct Given {
  nb::object sharding, shape, key;
};

/// A program, and the arrays that it takes and gives.
class ArrayCaller {
 public:
  ArrayCaller(nb::handle executable, nb::handle cls, nb::handle takes, nb::handle first,
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
        if (!buffer) throw nb::type_error("array_caller takes CpuBuffers, one for each device");
        given_.push_back(buffer);
      }
    }
  }

  /// Calls the program. Returns None, and has done nothing, for what are no arrays that lie where
  /// the program takes them, or do not fit it.
  nb::object operator()(nb::handle arguments) const {
    const DrainScope drain;
    const Executable& executable = *nb::inst_ptr<ExecutableHandle>(executable_)->state;
    const Py_ssize_t count = PyObject_Size(arguments.ptr());
    if (count < 0) throw nb::python_error();
    if (static_cast<std::size_t>(count) != takes_.size()) return nb::none();
    const std::size_t before = given_.size() / num_devices_, width = before + takes_.size();
    SmallArray<Buffer*, kFew> buffers(width * num_devices_);
    for (std::size_t p = 0; p < width; ++p) {
      if (p < before) {
        for (std::size_t d = 0; d < num_devices_; ++d) {
          buffers[d * width + p] = given_[p * num_devices_ + d];
        }
      } else if (!take(executable, item_of(arguments, static_cast<Py_ssize_t>(p - before)),
                       takes_[p - before], {&buffers[p], width})) {
        return nb::none();
      }
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

 private:
  /// Where the buffers of one argument go: one for each device, `step` apart.
  struct Column {
    Buffer** first;
    std::size_t step;
  };

  /// Sets the buffers of an array that lies where the program takes it; returns false for any other
  /// value.
  bool take(const Executable& executable, nb::handle array, const nb::object& wanted,
            Column column) const {
    if (!array.is_valid() || !arrays_.is_type_of(array)) return false;
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

  nb::object called(const Executable& executable, bool is_immediate,
                    std::span<const std::span<Buffer* const>> rows) const {
    SmallArray<Ref<Buffer>, kFew> results(gives_.size() * num_devices_);
    call_checked(executable, is_immediate, rows, results.span());
    if (gives_one_ && gives_.size() == 1) return array_of(0, results.span());
    nb::object list = new_list(gives_.size());
    for (std::size_t i = 0; i < gives_.size(); ++i) set_item(list, i, array_of(i, results.span()));
    return list;
  }

  /// Makes the array of one result; those of all are by device, then by output.
  nb::object array_of(std::size_t i, std::span<Ref<Buffer>> results) const {
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

  nb::object executable_;
  ArrayClass arrays_;
  nb::object first_;
  nb::object is_committed_;
  bool gives_one_;
  std::size_t num_devices_;
  std::vector<nb::object> takes_;
  std::vector<Given> gives_;
  std::vector<Buffer*> given_;  // the first arguments, by parameter, then by device
};

nb::object array_caller(nb::handle self, nb::handle cls, nb::handle takes, nb::handle first,
                        nb::handle gives, bool is_committed, bool gives_one) {
  const auto caller =
      std::make_shared<ArrayCaller>(self, cls, takes, first, gives, is_committed, gives_one);
  // Without a name for its argument: to look for names takes a part of a small program's time.
  return nb::cpp_function([caller](nb::handle arguments) { return (*caller)(arguments); });
}

/// Calls by the keys of their arguments, which are compared by identity.
class CallTable {
 public:
  explicit CallTable(nb::handle cls) : cls_(nb::borrow(cls)), key_(cls, "_key") {}

  void add(nb::handle keys, nb::handle call, nb::handle build) {
    Entry entry{nb::borrow(call), nb::borrow(build), {}};
    std::size_t hash = kSeed;
    for (nb::handle key : nb::tuple(as_tuple(keys))) {
      entry.keys.push_back(nb::borrow(key));
      hash = mixed(hash, key.ptr());
    }
    const Entry* known = find(hash, entry.keys);
    if (!known) entries_.emplace(hash, std::move(entry));
  }

  /// Returns what the call gives; None, and has done nothing, for arguments that are no arrays with
  /// keys, or whose keys have no call.
  nb::object operator()(nb::handle arguments) const {
    const Py_ssize_t count = PyTuple_Size(arguments.ptr());
    if (count < 0) throw nb::python_error();
    SmallArray<nb::object, kFew> keys(static_cast<std::size_t>(count));
    std::size_t hash = kSeed;
    for (Py_ssize_t i = 0; i < count; ++i) {
      const nb::handle item = PyTuple_GetItem(arguments.ptr(), i);
      if (!item.type().is(cls_)) return nb::none();
      nb::object& key = keys[static_cast<std::size_t>(i)] = key_.of(item);
      hash = mixed(hash, key.ptr());
    }
    const Entry* entry = find(hash, keys.span());
    if (!entry) return nb::none();
    const nb::object call = entry->call, build = entry->build;  // the table may change meanwhile
    nb::object made = call(arguments);
    return made.is_none() || build.is_none() ? made : build(made);
  }

 private:
  struct Entry {
    nb::object call, build;
    std::vector<nb::object> keys;
  };

  static constexpr std::size_t kSeed = 1469598103934665603U;

  static std::size_t mixed(std::size_t hash, const void* key) noexcept {
    return (hash ^ (reinterpret_cast<std::uintptr_t>(key) >> 4)) * 1099511628211U;
  }

  const Entry* find(std::size_t hash, std::span<const nb::object> keys) const {
    const auto [first, last] = entries_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      const auto is_same = [](const nb::object& a, const nb::object& b) { return a.is(b); };
      if (std::ranges::equal(at->second.keys, keys, is_same)) return &at->second;
    }
    return nullptr;
  }

  nb::object cls_;
  Slot key_;
  std::unordered_multimap<std::size_t, Entry> entries_;
};

nb::object call_table(nb::handle cls) {
  const auto table = std::make_shared<CallTable>(cls);
  return nb::make_tuple(
      nb::cpp_function([table](nb::handle arguments) { return (*table)(arguments); }),
      nb::cpp_function([table](nb::handle keys, nb::handle call,
                               nb::handle build) { table->add(keys, call, build); },
                       "keys"_a, "call"_a, "build"_a.none()));
}

}  // namespace

void bind_array_calls(nb::class_<ExecutableHandle>& cls) {
  cls.def(
      "array_caller",
      [](nb::handle_t<ExecutableHandle> self, nb::handle array_class, nb::handle takes,
         nb::handle first, nb::handle gives, bool is_committed, bool gives_one) {
        return array_caller(self, array_class, takes, first, gives, is_committed, gives_one);
      },
      "array_class"_a, "takes"_a, "first"_a, "gives"_a, "is_committed"_a, "gives_one"_a,
      nb::sig("def array_caller(self, array_class: type[typing.Any], "
              "takes: collections.abc.Sequence[typing.Any], "
              "first: collections.abc.Sequence[collections.abc.Sequence[CpuBuffer]], "
              "gives: collections.abc.Sequence[tuple[typing.Any, typing.Any, typing.Any]], "
              "is_committed: bool, gives_one: bool) -> "
              "collections.abc.Callable[[collections.abc.Sequence[typing.Any]], typing.Any]"),
      "Return what calls the program with arrays that lie as its devices take them.");
  cls.def(
      "call_table",
      [](nb::handle_t<ExecutableHandle>, nb::handle array_class) {
        return call_table(array_class);
      },
      "array_class"_a,
      nb::sig("def call_table(self, array_class: type[typing.Any]) -> "
              "tuple[collections.abc.Callable[[tuple[typing.Any, ...]], typing.Any], "
              "collections.abc.Callable[[typing.Any, typing.Any, typing.Any], None]]"),
      "Return what finds a call by the keys of its arguments, and what adds one.");
}

}  // namespace devrt::cpu
