// Calls of executables from Python, whatever holds the arguments.
#pragma once

#include <span>

#include "binding/python.hpp"
#include "devrt/base/small_array.hpp"
#include "execution/outputs.hpp"

namespace devrt::native {

/// The arguments of a call on one device.
using Row = SmallArray<Buffer*, kFew>;

/// Calls a program with arguments that it has checked: with the GIL where that takes no time,
/// without it elsewhere. `is_immediate` is what the check returned.
void call_checked(const Executable& executable, bool is_immediate,
                  std::span<const std::span<Buffer* const>> arguments,
                  std::span<Ref<Buffer>> results, std::span<ReadyEvent> ended = {});

/// Makes a list without items, and sets one of them.
nb::object new_list(std::size_t size);
void set_item(nb::handle list, std::size_t i, nb::object item);

/// Binds calls on arrays to the class of executables.
void bind_array_calls(nb::module_& module, nb::class_<ExecutableHandle>& cls);

}  // namespace devrt::native
