// Tables of calls by the keys of their arguments.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binding/array_caller.hpp"
#include "binding/callable.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

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

  void clear() { Entries().swap(entries_); }

  /// Returns what the call gives; None, and has done nothing, for arguments that are no arrays with
  /// keys, or whose keys have no call.
  nb::object operator()(nb::handle arguments) const {
    BorrowedItems items(arguments);
    SmallArray<nb::object, kFew> keys(items.span().size());
    std::size_t hash = kSeed;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const nb::handle item = items.span()[i];
      if (!item.is_valid() || !item.type().is(cls_)) return nb::none();
      keys[i] = key_.of(item);
      hash = mixed(hash, keys[i].ptr());
    }
    const Entry* entry = find(hash, keys.span());
    if (!entry) return nb::none();
    const nb::object call = entry->call, build = entry->build;  // the table may change meanwhile
    const ArrayCaller* caller = ArrayCaller::of(call);
    nb::object made = caller ? (*caller)(items.span()) : call(arguments);
    return made.is_none() || build.is_none() ? made : build(made);
  }

 private:
  struct Entry {
    nb::object call, build;
    std::vector<nb::object> keys;
  };
  using Entries = std::unordered_multimap<std::size_t, Entry>;

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
  Entries entries_;
};

/// What Python holds of a table; its functions hold it too.
struct CallTableHandle {
  std::shared_ptr<CallTable> state;
};

PyObject* find_call(PyObject* self, PyObject* arguments) noexcept {
  return to_python([&] { return (*target_of<CallTableHandle>(self)->state)(arguments); });
}

PyMethodDef find_definition = {"find", &find_call, METH_O,
                               "Call what was added for the keys of a tuple of arguments."};

/// A function's way to its calls: by the table while nothing else decides what they mean.
struct Shortcut {
  std::shared_ptr<CallTable> table;
  nb::object context, stamp, otherwise, explain;
  nb::object name = nb::str("stamp");

  bool is_current() const {
    const nb::object now = nb::steal(PyObject_GetAttr(context.ptr(), name.ptr()));
    if (!now.is_valid()) throw nb::python_error();
    return now.is(stamp);
  }

  /// Returns what the call gives; None, and has done nothing, for one that the table does not know.
  nb::object find(nb::handle arguments) const {
    try {
      return (*table)(arguments);
    } catch (const StatusError& error) {
      set_python_error(error.status());
    } catch (nb::python_error& error) {
      error.restore();
    }
    const nb::python_error raised;
    return explain(arguments, raised.value());  // raises
  }
};

PyObject* call_shortcut(PyObject* self, PyObject* arguments, PyObject* named) noexcept {
  return to_python([&] {
    const Shortcut& shortcut = *nb::inst_ptr<Shortcut>(self);
    if (!named && shortcut.is_current()) {
      nb::object made = shortcut.find(arguments);
      if (!made.is_none()) return made;
    }
    nb::object made = nb::steal(PyObject_Call(shortcut.otherwise.ptr(), arguments, named));
    if (!made.is_valid()) throw nb::python_error();
    return made;
  });
}

PyMethodDef shortcut_definition = {
    "call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_shortcut)),
    METH_VARARGS | METH_KEYWORDS, "Call the function."};

// A function may refer to what keeps its shortcut, as a method of an object that holds it does:
// the garbage collector has to see the way through it. What lies on both sides can be cleared.
int traverse_shortcut(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Shortcut& shortcut = *nb::inst_ptr<Shortcut>(self);
  Py_VISIT(shortcut.otherwise.ptr());
  Py_VISIT(shortcut.explain.ptr());
  return 0;
}

PyType_Slot shortcut_slots[] = {{Py_tp_new, reinterpret_cast<void*>(&refuse_new)},
                                {Py_tp_traverse, reinterpret_cast<void*>(&traverse_shortcut)},
                                {0, nullptr}};

nb::object make_shortcut(const CallTableHandle& table, nb::handle context, nb::handle stamp,
                         nb::handle otherwise, nb::handle explain) {
  const nb::object self = nb::cast(Shortcut{table.state, nb::borrow(context), nb::borrow(stamp),
                                            nb::borrow(otherwise), nb::borrow(explain)});
  nb::object made = nb::steal(PyCFunction_New(&shortcut_definition, self.ptr()));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

void bind_table_class(nb::module_& module) {
  nb::class_<Shortcut>(module, DEVRT_CLASS_PREFIX "Shortcut", nb::is_final(),
                       nb::type_slots(shortcut_slots), "What a shortcut of a table calls.");
  nb::class_<CallTableHandle>(
      module, DEVRT_CLASS_PREFIX "CallTable", nb::is_final(), nb::type_slots(no_new_slots),
      "Calls by the keys of their arguments, which are compared by identity.")
      .def_prop_ro(
          "find",
          [](const CallTableHandle& self) {
            return make_builtin(find_definition, std::make_unique<CallTableHandle>(self));
          },
          nb::sig("def find(self) -> "
                  "collections.abc.Callable[[tuple[typing.Any, ...]], typing.Any]"),
          "What calls what was added for the keys of a tuple of arguments.")
      .def(
          "add",
          [](const CallTableHandle& self, nb::handle keys, nb::handle call, nb::handle build) {
            self.state->add(keys, call, build);
          },
          "keys"_a, "call"_a, "build"_a.none(),
          nb::sig("def add(self, keys: collections.abc.Iterable[typing.Any], "
                  "call: collections.abc.Callable[[typing.Any], typing.Any], "
                  "build: collections.abc.Callable[[typing.Any], typing.Any] | None) -> None"),
          "Add a call, and what is called with what it gives.")
      .def(
          "clear", [](const CallTableHandle& self) { self.state->clear(); },
          "Forget the calls; functions of the table find none any more.")
      .def("shortcut", &make_shortcut, "context"_a, "stamp"_a, "otherwise"_a, "explain"_a,
           nb::sig("def shortcut(self, context: typing.Any, stamp: typing.Any, "
                   "otherwise: collections.abc.Callable[..., typing.Any], "
                   "explain: collections.abc.Callable[[tuple[typing.Any, ...], Exception], "
                   "typing.Any]) -> collections.abc.Callable[..., typing.Any]"),
           "Return a function that calls by the table while context.stamp is the stamp.");
}

}  // namespace

void bind_call_table(nb::module_& module, nb::class_<ExecutableHandle>& cls) {
  bind_table_class(module);
  cls.def(
      "key_table",
      [](nb::handle_t<ExecutableHandle>, nb::handle array_class) {
        return CallTableHandle{std::make_shared<CallTable>(array_class)};
      },
      "array_class"_a,
      nb::sig("def key_table(self, array_class: type[typing.Any]) -> " DEVRT_CLASS_PREFIX
              "CallTable"),
      "Return a new table of calls by the keys of their arguments.");
}

}  // namespace devrt::native
