// A program, and the arrays that it takes and gives.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "binding/array_class.hpp"
#include "binding/calls.hpp"

namespace devrt::native {

/// What an array that a program gives is made with.
struct Given {
  nb::object sharding, shape, key;
};

/// Calls a program with devrt's arrays, without a step in Python for each of them.
class ArrayCaller {
 public:
  ArrayCaller(nb::handle executable, nb::handle cls, nb::handle takes, nb::handle first,
              nb::handle gives, bool is_committed, bool gives_one);

  /// Calls the program. Returns None, and has done nothing, for what are no arrays that lie where
  /// the program takes them, or do not fit it. The arguments are borrowed.
  nb::object operator()(std::span<PyObject* const> arguments) const;

  /// Returns the caller that a function of `array_caller` calls; null for any other value.
  static const ArrayCaller* of(nb::handle function) noexcept;

 private:
  /// Where the buffers of one argument go: one for each device, `step` apart.
  struct Column {
    Buffer** first;
    std::size_t step;
  };

  bool take(const Executable& executable, nb::handle array, const nb::object& wanted,
            Column column) const;
  nb::object called(const Executable& executable, bool is_immediate,
                    std::span<const std::span<Buffer* const>> rows) const;
  nb::object array_of(std::size_t i, std::span<Ref<Buffer>> results) const;

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

/// The items of a list or tuple, borrowed: as long as nobody changes it.
class BorrowedItems {
 public:
  explicit BorrowedItems(nb::handle sequence);
  std::span<PyObject* const> span() noexcept { return items_.span(); }

 private:
  SmallArray<PyObject*, kFew> items_;
};

nb::object as_tuple(nb::handle sequence);

/// Binds tables of calls, and to the class of executables what makes one.
void bind_call_table(nb::module_& module, nb::class_<ExecutableHandle>& cls);

}  // namespace devrt::native
