// What passes between this client and other libraries on a device: memory, and the order of
// streams.
#pragma once

#include "binding/python.hpp"

namespace devrt::native {

/// Who gets a buffer's memory: the stream that it will use it on, and what keeps that.
struct Consumer {
  std::shared_ptr<OtherStream> stream;  ///< null where there is none to order
  ExternalOwner owner;
  bool is_unordered = false;  ///< waits by itself
};

/// Reads the `stream` of `__dlpack__`: None, a number, or an object with `__cuda_stream__`.
Consumer consumer_of(const Memory& memory, nb::handle stream);
/// Has a storage outlive what a stream was given until now, if the stream is known to be there.
void hold_until_used(Storage& storage, OtherStream& stream) noexcept;

/// Returns the handle of the stream that others have wait for what they fill.
nb::object stream_for_others(const Device& device);
/// Returns the buffer of another library's array on one of the client's devices, or None.
nb::object buffer_from_external(Client& self, nb::handle value, nb::handle copy);
/// Returns what `__cuda_array_interface__` is to say of a buffer.
nb::object array_interface(const BufferHandle& self);

}  // namespace devrt::native
