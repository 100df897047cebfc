// A value of the host that a transfer can read: its bytes, its shape, and what keeps it alive.
#pragma once

#include <cstddef>

#include "binding/dlpack_import.hpp"
#include "binding/python.hpp"
#include "client/release_queue.hpp"

namespace devrt::native {

/// Opens a Python value for reading. Made and destroyed with the GIL held.
class HostValue {
 public:
  /// With `keep`, the source can be kept beyond this object through `hold()`.
  HostValue(nb::handle argument, bool keep);
  HostValue(const HostValue&) = delete;
  HostValue& operator=(const HostValue&) = delete;
  ~HostValue();

  const HostArray& array() const noexcept { return array_; }
  /// Returns the bytes of the array if it were dense.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Returns what keeps the source alive; empty unless `keep` was requested.
  ExternalOwner& hold() noexcept { return hold_; }

 private:
  void open_array(nb::handle array, bool keep);
  bool open_python_scalar(nb::handle value);
  void open_dlpack(nb::handle value);
  void open_other(nb::handle value, bool keep);
  void show_view(const Py_buffer& view, DtypeInfo info);
  template <class T>
  bool show_scalar(ElementType type, T value);

  Py_buffer view_{};
  alignas(16) std::byte scalar_[16] = {};
  HostArray array_;
  std::size_t bytes_ = 0;
  ImportedTensor tensor_;  // of a DLPack source
  ExternalOwner hold_;
};

}  // namespace devrt::native
