// Custom calls that are answered by functions of the program's own.
#pragma once

#include <cstddef>
#include <string>

#include "client/client.hpp"
#include "devrt/pjrt/engine/ffi.hpp"

namespace devrt::native {

/// Answers a call on behalf of a language binding, on whatever thread a program runs. A call frame
/// does not say which name it was called by, so every name has a slot of its own.
using CustomCallAnswer = Status (*)(std::size_t slot, const XLA_FFI_CallFrame& frame) noexcept;

/// How many names there can be in a process: a plugin forgets none.
inline constexpr std::size_t kCustomCallSlots = 256;

/// Lets the programs of a plugin call `answer` by a name. Returns the slot. Throws UNIMPLEMENTED
/// where the plugin takes no handlers or no slot is left.
std::size_t register_custom_call(const std::string& library, const std::string& name,
                                 CustomCallAnswer answer);

/// The same with native code, an XLA FFI handler.
std::size_t register_custom_call(const std::string& library, const std::string& name,
                                 XLA_FFI_Handler handler);

/// Copies between memory that a call was given and the host's, in that order, and waits.
using CustomCallCopy = Status (*)(const XLA_FFI_CallFrame& frame, void* to, const void* from,
                                  std::size_t bytes, bool is_to_host);
/// Has functions of the host be given copies: it does not see the memory of programs.
void set_custom_call_copy(CustomCallCopy copy) noexcept;
/// Returns how to copy; null where the host sees the memory.
CustomCallCopy custom_call_copy() noexcept;

/// Returns whether a plugin has called this thread: a program waits for it to return.
bool is_in_program() noexcept;

/// Throws FAILED_PRECONDITION where a program on the device has called this thread, and programs
/// there run one after the other: another one would wait for it for ever.
void check_not_called_from(const Device& device, const char* operation);

/// Throws the same where what makes a buffer comes after the program that has called this thread,
/// or depends on its end: to wait for it would wait for ever.
void check_not_behind_caller(const Buffer& buffer, const char* operation);

/// Returns whether a language binding answers calls, and so may need its locks while a program
/// runs.
bool has_bound_custom_calls() noexcept;

}  // namespace devrt::native
