#include "binding/call_site.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace devrt::native {

namespace {

/// CPython's own functions on frames that are public but not in the stable ABI; found by name, as
/// the attributes of the same meaning are many times slower. All are there from Python 3.11 on.
struct FrameFunctions {
  PyFrameObject* (*back)(PyFrameObject*);
  int (*last_instruction)(PyFrameObject*);
  int (*line)(PyCodeObject*, int);

  bool complete() const noexcept { return back && last_instruction && line; }
};

template <class Function>
void find(Function& function, const char* name) noexcept {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

const FrameFunctions& frame_functions() noexcept {
  static const FrameFunctions functions = [] {
    FrameFunctions f{};
    find(f.back, "PyFrame_GetBack");
    find(f.last_instruction, "PyFrame_GetLasti");
    find(f.line, "PyCode_Addr2Line");
    return f;
  }();
  return functions;
}

/// A call: what is executed and how far. Borrowed, or owned by a `CallSite`.
struct Call {
  PyCodeObject* code;
  int instruction;

  bool operator==(const Call&) const = default;
};

/// Enough for the runtime's own calls and several of the program; each costs about a hundred
/// nanoseconds where the interpreter has made no frame object yet.
constexpr std::size_t kMostCalls = 12;

/// The calls on the stack of this thread, the innermost first.
struct Calls {
  std::array<Call, kMostCalls> items;
  std::size_t count = 0;
  std::size_t hash = 0;

  std::span<const Call> span() const noexcept { return {items.data(), count}; }
};

/// Reads the stack. The codes stay borrowed: nothing runs until the caller has used them.
void read_stack(Calls& calls) noexcept {
  const FrameFunctions& functions = frame_functions();
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame || !functions.complete()) return;
  Py_INCREF(reinterpret_cast<PyObject*>(frame));
  while (frame && calls.count < kMostCalls) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const int instruction = functions.last_instruction(frame);
    Py_DECREF(reinterpret_cast<PyObject*>(code));  // its frame keeps it
    calls.items[calls.count++] = {code, instruction};
    const auto address = reinterpret_cast<std::uintptr_t>(code) >> 4;
    calls.hash = (calls.hash ^ (address + static_cast<std::size_t>(instruction))) *
                 std::size_t{0x9e3779b97f4a7c15};
    PyFrameObject* outer = calls.count < kMostCalls ? functions.back(frame) : nullptr;
    Py_DECREF(reinterpret_cast<PyObject*>(frame));
    frame = outer;
  }
  calls.hash ^= calls.hash >> 32;
}

std::string to_utf8(PyObject* text) {
  nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.ptr(), &data, &size) != 0) throw nb::python_error();
  return {data, static_cast<std::size_t>(size)};
}

/// The folders of the runtime's own Python code, each with a slash at the end.
const std::vector<std::string>& internal_folders() {
  static const std::vector<std::string> folders = [] {
    std::vector<std::string> found;
    for (const char* name : {"devrt", DEVRT_PACKAGE}) {
      for (nb::handle path : nb::module_::import_(name).attr("__path__")) {
        found.push_back(to_utf8(path.ptr()) + "/");
      }
    }
    return found;
  }();
  return folders;
}

SiteFrame describe(const Call& call) {
  const nb::handle code(reinterpret_cast<PyObject*>(call.code));
  SiteFrame frame;
  frame.file = to_utf8(nb::object(code.attr("co_filename")).ptr());
  frame.function = to_utf8(nb::object(code.attr("co_qualname")).ptr());
  frame.start_line = nb::cast<std::int64_t>(code.attr("co_firstlineno"));
  frame.line = frame_functions().line(call.code, call.instruction);
  for (const std::string& folder : internal_folders()) {
    frame.is_internal = frame.is_internal || frame.file.starts_with(folder);
  }
  return frame;
}

/// One stack that buffers were made at. Its table keeps a share, so the last one goes there, under
/// the GIL, and not where a buffer ends.
class CallSite final : public AllocationSite {
 public:
  explicit CallSite(const Calls& calls)
      : hash(calls.hash), calls_(calls.span().begin(), calls.span().end()) {
    for (const Call& call : calls_) Py_INCREF(reinterpret_cast<PyObject*>(call.code));
  }
  ~CallSite() override {
    for (const Call& call : calls_) Py_DECREF(reinterpret_cast<PyObject*>(call.code));
  }

  bool is(const Calls& calls) const noexcept {
    return hash == calls.hash && std::ranges::equal(calls_, calls.span());
  }

  const std::vector<SiteFrame>& frames() const override {
    if (frames_.empty()) {
      std::vector<SiteFrame> frames;
      for (const Call& call : calls_) frames.push_back(describe(call));
      frames_ = std::move(frames);
    }
    return frames_;
  }

  const std::size_t hash;

 private:
  const std::vector<Call> calls_;
  mutable std::vector<SiteFrame> frames_;
};

/// The call sites in use, found by their calls. Under the GIL, which the module never runs without.
class SiteTable {
 public:
  Ref<AllocationSite> find(const Calls& calls) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    std::size_t at = calls.hash;
    for (;; ++at) {
      const Ref<CallSite>& slot = slots_[at & (slots_.size() - 1)];
      if (!slot) break;
      if (slot->is(calls)) return Ref<AllocationSite>::share_of(slot.get());
    }
    Ref<CallSite>& slot = slots_[at & (slots_.size() - 1)];
    slot = Ref<CallSite>::adopt(new CallSite(calls));
    ++count_;
    return Ref<AllocationSite>::share_of(slot.get());
  }

 private:
  /// Drops the call sites that no buffer has any more, and grows for the others.
  void grow() {
    std::vector<Ref<CallSite>> kept;
    kept.reserve(count_);
    for (Ref<CallSite>& slot : slots_) {
      if (slot && !slot->is_unique()) kept.push_back(std::move(slot));
    }
    std::size_t size = kFewest;
    while (size < 4 * (kept.size() + 1)) size *= 2;
    std::vector<Ref<CallSite>> former(size);
    former.swap(slots_);
    count_ = kept.size();
    for (Ref<CallSite>& call_site : kept) {
      std::size_t at = call_site->hash;
      while (slots_[at & (size - 1)]) ++at;
      slots_[at & (size - 1)] = std::move(call_site);
    }
  }  // the others end here, when the table is whole again: a code's end may run Python code

  static constexpr std::size_t kFewest = 1024;
  std::vector<Ref<CallSite>> slots_;
  std::size_t count_ = 0;
};

PyObject* kept_frame_class = nullptr;
PyObject* kept_traceback_class = nullptr;

}  // namespace

Ref<AllocationSite> note_calls() {
  static auto* const table = new SiteTable;  // never destroyed: the interpreter may be gone by then
  Calls calls;
  read_stack(calls);
  if (calls.count == 0) return {};
  return table->find(calls);
}

nb::object to_traceback(const AllocationSite* call_site) {
  if (!call_site) return nb::none();
  const nb::handle frame_class = module_attribute(kept_frame_class, "devrt.contract", "Frame");
  nb::list frames;
  for (const SiteFrame& frame : call_site->frames()) {
    frames.append(call_python(frame_class, nb::str(frame.file.c_str()),
                              nb::str(frame.function.c_str()), nb::int_(frame.start_line),
                              nb::int_(frame.line)));
  }
  return call_python(module_attribute(kept_traceback_class, "devrt.contract", "Traceback"),
                     nb::tuple(frames));
}

std::string describe_call_site(const AllocationSite* call_site) {
  const SiteFrame* frame = user_frame(call_site);
  if (!frame) return {};
  return frame->file + ":" + std::to_string(frame->line) + " (" + frame->function + ")";
}

}  // namespace devrt::native
