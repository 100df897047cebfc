// The Python class of executables, and the way to make one.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "binding/calls.hpp"
#include "binding/engine_devices.hpp"
#include "binding/python.hpp"
#include "binding/signals.hpp"
#include "client/release_queue.hpp"
#include "execution/custom_calls.hpp"
#include "execution/executable.hpp"
#include "execution/outputs.hpp"

namespace devrt::native {

using namespace nb::literals;

ExecutableHandle::ExecutableHandle(Ref<Executable> executable) noexcept
    : state(std::move(executable)) {}
ExecutableHandle::ExecutableHandle(ExecutableHandle&&) noexcept = default;
ExecutableHandle::~ExecutableHandle() {
  DrainScope drain;
  state.reset();
}

namespace {

/// Says when a program has ended on one device.
struct TokenHandle {
  ReadyEvent ended;
};

/// A list or tuple, read without a copy; anything else is made a list first.
class Items {
 public:
  Items(nb::handle sequence, const char* operation, const char* what) {
    list_ = nb::steal(PySequence_Fast(sequence.ptr(), ""));
    if (!list_.is_valid()) {
      if (PyIter_Check(sequence.ptr()) || !PyErr_ExceptionMatches(PyExc_TypeError)) {
        throw nb::python_error();  // the caller's own
      }
      PyErr_Clear();
      raise_type(std::string(operation) + " failed: " + what + " must be a sequence, not of type " +
                     kind_of(sequence) + ".",
                 operation);
    }
    is_tuple_ = PyTuple_Check(list_.ptr());
    size_ = static_cast<std::size_t>(PyObject_Size(list_.ptr()));
  }

  std::size_t size() const noexcept { return size_; }
  /// Returns a borrowed item; null, with a Python error, where the list has shrunk.
  nb::handle operator[](std::size_t i) const {
    const auto index = static_cast<Py_ssize_t>(i);
    PyObject* item =
        is_tuple_ ? PyTuple_GetItem(list_.ptr(), index) : PyList_GetItem(list_.ptr(), index);
    if (!item) throw nb::python_error();
    return item;
  }

 private:
  nb::object list_;
  bool is_tuple_ = false;
  std::size_t size_ = 0;
};

Buffer* to_buffer(nb::handle item, const char* operation) {
  if (item.type().is(types.buffer)) [[likely]]
    return nb::inst_ptr<BufferHandle>(item)->state.get();
  raise_type(std::string(operation) +
                 " failed: an argument must be a " DEVRT_CLASS_PREFIX "Buffer, not of type " +
                 kind_of(item) + ". Make one with client.buffer_from_pyval.",
             operation);
}

/// Calls the program where a signal can end the wait for the call itself.
void call_in_other_thread(const Executable& executable, std::vector<Ref<Buffer>> kept,
                          std::span<Ref<Buffer>> results, std::int64_t stream,
                          std::span<ReadyEvent> ended) {
  struct Given {
    std::vector<Ref<Buffer>> results;
    std::vector<ReadyEvent> ended;
  };
  const auto given = std::make_shared<Given>();
  given->results.resize(results.size());
  given->ended.resize(ended.size());
  call_apart([given, stream, called = Ref<const Executable>::share_of(&executable),
              arguments = std::move(kept)] {
    const std::size_t shards = called->devices().size();
    const std::size_t width = arguments.size() / shards;
    std::vector<Buffer*> raw;
    for (const Ref<Buffer>& argument : arguments) raw.push_back(argument.get());
    std::vector<std::span<Buffer* const>> rows;
    for (std::size_t i = 0; i < shards; ++i) rows.emplace_back(&raw[i * width], width);
    called->execute(rows, given->results, stream, given->ended);
  });
  std::ranges::move(given->results, results.begin());
  std::ranges::move(given->ended, ended.begin());
}

}  // namespace

void call_checked(const Executable& executable, bool is_immediate,
                  std::span<const std::span<Buffer* const>> arguments,
                  std::span<Ref<Buffer>> results, std::span<ReadyEvent> ended) {
  if (is_immediate && executable.is_short() && arguments.size() == 1 &&
      !executable.engine().streams().is_used() && !has_bound_custom_calls()) [[likely]] {
    executable.execute(arguments, results, 0, ended);
    return;
  }
  std::vector<Ref<Buffer>> kept;  // the handles may go while the GIL is released
  for (const auto shard : arguments) {
    for (Buffer* buffer : shard) kept.push_back(Ref<Buffer>::share_of(buffer));
  }
  const std::int64_t stream = execution_stream();
  // The engine runs a loop over little data inline, however often it goes round.
  if (executable.signature().has_loop) {
    return call_in_other_thread(executable, std::move(kept), results, stream, ended);
  }
  GilRelease released;
  executable.execute(arguments, results, stream, ended);
  kept.clear();
}

nb::object new_list(std::size_t size) {
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(size)));
  if (!list.is_valid()) throw nb::python_error();
  return list;
}

void set_item(nb::handle list, std::size_t i, nb::object item) {
  if (PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), item.release().ptr()) != 0) {
    throw nb::python_error();
  }
}

namespace {

/// Calls the program with arguments that it has not checked.
void call(const Executable& executable, std::span<const std::span<Buffer* const>> arguments,
          std::span<Ref<Buffer>> results, const char* operation, std::span<ReadyEvent> ended = {}) {
  call_checked(executable, executable.check(arguments, operation), arguments, results, ended);
}

nb::object execute_on_one(const ExecutableHandle& self, nb::handle arguments,
                          std::span<ReadyEvent> ended) {
  DrainScope drain;
  const Executable& executable = *self.state;
  const std::size_t num_outputs = executable.signature().outputs.size();
  const Items items(arguments, "execute", "arguments");
  if (executable.devices().size() != 1) {
    raise_invalid("execute failed: program '" + executable.signature().name + "' runs on " +
                      std::to_string(executable.devices().size()) +
                      " devices. Call execute_sharded.",
                  "execute");
  }
  Row buffers(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) buffers[i] = to_buffer(items[i], "execute");
  SmallArray<Ref<Buffer>, kFew> results(num_outputs);
  const std::span<Buffer* const> row = buffers.span();
  call(executable, {&row, 1}, results.span(), "execute", ended);
  nb::object list = new_list(num_outputs);
  for (std::size_t i = 0; i < num_outputs; ++i) set_item(list, i, wrap(std::move(results[i])));
  return list;
}

nb::object execute(const ExecutableHandle& self, nb::handle arguments) {
  return execute_on_one(self, arguments, {});
}

nb::object execute_with_token(const ExecutableHandle& self, nb::handle arguments) {
  ReadyEvent ended;
  nb::object results = execute_on_one(self, arguments, {&ended, 1});
  return nb::make_tuple(std::move(results), TokenHandle{std::move(ended)});
}

/// Reads arguments by parameter and then by device, and returns them by device.
std::vector<Buffer*> to_rows(const Executable& executable, nb::handle arguments) {
  const char* operation = "execute_sharded";
  const std::size_t num_devices = executable.devices().size();
  const Items items(arguments, operation, "arguments");
  std::vector<Buffer*> buffers(items.size() * num_devices);
  for (std::size_t p = 0; p < items.size(); ++p) {
    const Items shards(items[p], operation, "each argument");
    if (shards.size() != num_devices) {
      raise_invalid(std::string(operation) + " failed: program '" + executable.signature().name +
                        "' runs on " + std::to_string(num_devices) + " devices, and argument " +
                        std::to_string(p) + " has " + std::to_string(shards.size()) + " shards.",
                    operation);
    }
    for (std::size_t d = 0; d < num_devices; ++d) {
      buffers[d * items.size() + p] = to_buffer(shards[d], operation);
    }
  }
  return buffers;
}

nb::object execute_on_all(const ExecutableHandle& self, nb::handle arguments,
                          std::span<ReadyEvent> ended) {
  DrainScope drain;
  const Executable& executable = *self.state;
  const std::size_t num_devices = executable.devices().size();
  const std::size_t num_outputs = executable.signature().outputs.size();
  const std::vector<Buffer*> buffers = to_rows(executable, arguments);
  const std::size_t width = num_devices ? buffers.size() / num_devices : 0;
  std::vector<std::span<Buffer* const>> rows;
  for (std::size_t d = 0; d < num_devices; ++d) rows.emplace_back(&buffers[d * width], width);
  std::vector<Ref<Buffer>> results(num_devices * num_outputs);
  call(executable, rows, results, "execute_sharded", ended);
  nb::object outer = new_list(num_outputs);
  for (std::size_t i = 0; i < num_outputs; ++i) {
    nb::object inner = new_list(num_devices);
    for (std::size_t d = 0; d < num_devices; ++d) {
      set_item(inner, d, wrap(std::move(results[d * num_outputs + i])));
    }
    set_item(outer, i, std::move(inner));
  }
  return outer;
}

nb::object execute_sharded(const ExecutableHandle& self, nb::handle arguments, bool with_tokens) {
  if (!with_tokens) return execute_on_all(self, arguments, {});
  std::vector<ReadyEvent> ended(self.state->devices().size());
  nb::object results = execute_on_all(self, arguments, ended);
  nb::list tokens;
  for (ReadyEvent& event : ended) tokens.append(TokenHandle{std::move(event)});
  return nb::make_tuple(std::move(results), std::move(tokens));
}

void bind_token(nb::module_& module) {
  nb::class_<TokenHandle>(module, DEVRT_CLASS_PREFIX "Token", nb::is_final(),
                          nb::type_slots(no_new_slots),
                          "The end of a program on one device, apart from its results.")
      .def("is_ready", [](const TokenHandle& token) { return token.ended.is_ready(); })
      .def(
          "block_until_ready", [](const TokenHandle& token) { await(token.ended); },
          "Wait until the program has ended; raises the error that it failed with.");
}

nb::object wrap_executable(Ref<Executable> executable) {
  return nb::cast(ExecutableHandle(std::move(executable)));
}

nb::object compile(Client& client, const std::string& library, nb::bytes program,
                   const std::string& format, nb::bytes options) {
  const auto made = std::make_shared<Ref<Executable>>();
  call_apart([=, on = client.shared(), code = std::string(program.c_str(), program.size()),
              chosen = std::string(options.c_str(), options.size())] {
    *made = Executable::compile(*on, library, {code, format, chosen});
  });
  return wrap_executable(std::move(*made));
}

nb::object deserialize(Client& client, const std::string& library, nb::bytes serialized,
                       nb::bytes options) {
  const auto made = std::make_shared<Ref<Executable>>();
  call_apart([=, on = client.shared(), data = std::string(serialized.c_str(), serialized.size()),
              overridden = std::string(options.c_str(), options.size())] {
    *made = Executable::deserialize(*on, library, data, overridden);
  });
  return wrap_executable(std::move(*made));
}

void bind_class(nb::module_& module) {
  nb::class_<ExecutableHandle> cls(module, DEVRT_CLASS_PREFIX "LoadedExecutable", nb::is_final(),
                                   nb::is_weak_referenceable(), nb::type_slots(no_new_slots),
                                   "A compiled program, loaded on devices of a client.");
  cls.def("execute", &execute, "arguments"_a.none(),
          nb::sig("def execute(self, arguments: collections.abc.Sequence[" DEVRT_CLASS_PREFIX
                  "Buffer]) -> "
                  "list[" DEVRT_CLASS_PREFIX "Buffer]"),
          "Start the program on its one device and return its results. Does not wait.")
      .def(
          "execute_with_token", &execute_with_token, "arguments"_a.none(),
          nb::sig(
              "def execute_with_token(self, arguments: collections.abc.Sequence[" DEVRT_CLASS_PREFIX
              "Buffer]) "
              "-> tuple[list[" DEVRT_CLASS_PREFIX "Buffer], " DEVRT_CLASS_PREFIX "Token]"),
          "Do as `execute`, and return with the results a token of the program's end.")
      .def("execute_sharded", &execute_sharded, "arguments"_a.none(), "with_tokens"_a = false,
           nb::sig("def execute_sharded(self, arguments: collections.abc.Sequence["
                   "collections.abc.Sequence[" DEVRT_CLASS_PREFIX
                   "Buffer]], with_tokens: bool = False) -> "
                   "typing.Any"),
           "Start the program on all its devices; arguments by parameter, then by device; results "
           "by output, then by device. With tokens they come beside one of each device's end. Does "
           "not wait.")
      .def(
          "delete",
          [](const ExecutableHandle& e) {
            call_apart([removed = e.state.share()] { removed->remove(); });
          },
          "Unload the program once no execution in flight uses it. Idempotent.")
      .def("is_deleted", [](const ExecutableHandle& e) { return e.state->is_deleted(); })
      .def(
          "__eq__",
          [](const ExecutableHandle& a, nb::handle b) -> nb::object {
            if (!nb::isinstance<ExecutableHandle>(b)) return nb::borrow(Py_NotImplemented);
            return nb::bool_(a.state.get() == nb::inst_ptr<ExecutableHandle>(b)->state.get());
          },
          nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__hash__",
           [](const ExecutableHandle& e) {
             return static_cast<Py_ssize_t>(reinterpret_cast<std::uintptr_t>(e.state.get()) >> 4);
           })
      .def("__repr__", [](const ExecutableHandle& e) {
        return DEVRT_CLASS_PREFIX "LoadedExecutable(" + e.state->signature().name +
               ", devices=" + std::to_string(e.state->devices().size()) +
               (e.state->is_deleted() ? ", deleted)" : ")");
      });
  bind_array_calls(module, cls);
  bind_executable_facts(cls);
}

}  // namespace

nb::list live_executables(const Client& client) {
  nb::list live;
  const std::shared_ptr<Engine> engine = client.engine();
  if (!engine) return live;
  for (Ref<Executable>& executable : engine->executables().snapshot()) {
    live.append(wrap_executable(std::move(executable)));
  }
  return live;
}

nb::dict engine_stats(const Client& client) {
  nb::dict stats;
  const std::shared_ptr<Engine> engine = client.engine();
  const auto add = [&](const char* name, std::atomic<std::int64_t> EngineCounters::* counter) {
    stats[name] = engine ? (engine->counters().*counter).load() : 0;
  };
  add("executions", &EngineCounters::executions);
  add("views", &EngineCounters::views);
  add("copies", &EngineCounters::copies);
  add("bytes_copied", &EngineCounters::bytes_copied);
  return stats;
}

/// Returns the minor version of the C API, and the version of StableHLO, that a library reports.
nb::tuple identify_engine(const std::string& library) {
  std::shared_ptr<const pjrt::Api> api;
  std::vector<std::int64_t> stablehlo;
  {
    GilRelease released;
    api = load_engine(library);
    stablehlo = api->attribute("stablehlo_current_version");
  }
  return nb::make_tuple(api->minor_version(), to_tuple(stablehlo));
}

void bind_executable(nb::module_& module) {
  bind_token(module);
  bind_class(module);
  module.def("_identify_engine", &identify_engine, "library"_a,
             nb::sig("def _identify_engine(library: str) -> tuple[int, tuple[int, ...]]"));
  module.def("_engine_devices", &engine_devices, "client"_a, "library"_a,
             nb::sig("def _engine_devices(client: " DEVRT_CLASS_PREFIX
                     "Client, library: str) -> tuple[int, ...]"));
  module.def("_join_engine", &join_engine, "client"_a, "library"_a, "keys"_a,
             nb::sig("def _join_engine(client: " DEVRT_CLASS_PREFIX
                     "Client, library: str, keys: typing.Any) -> tuple[tuple[int, ...], "
                     "list[tuple[int, int]]]"));
  module.def("_compile", &compile, "client"_a, "library"_a, "program"_a, "format"_a, "options"_a,
             nb::sig("def _compile(client: " DEVRT_CLASS_PREFIX
                     "Client, library: str, program: bytes, format: str, "
                     "options: bytes) -> " DEVRT_CLASS_PREFIX "LoadedExecutable"));
  module.def("_deserialize", &deserialize, "client"_a, "library"_a, "serialized"_a, "options"_a,
             nb::sig("def _deserialize(client: " DEVRT_CLASS_PREFIX
                     "Client, library: str, serialized: bytes, "
                     "options: bytes) -> " DEVRT_CLASS_PREFIX "LoadedExecutable"));
}

}  // namespace devrt::native
