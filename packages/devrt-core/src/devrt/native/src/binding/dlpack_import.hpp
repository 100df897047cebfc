// Tensors that other libraries export through DLPack.
#pragma once

#include "binding/python.hpp"

namespace devrt::native {

/// A tensor taken out of its capsule. What it shows stays until `hold` goes.
struct ImportedTensor {
  HostArray array;
  std::size_t bytes = 0;
  Dims strides;  ///< in bytes; the array's point here
  ExternalOwner hold;
};

/// Returns the capsule of an exporter, for the consumer's stream if that is not null. An exporter
/// from before DLPack 1.0 is called in its own way.
nb::object call_dlpack(nb::handle value, nb::handle stream = {});
/// Takes a tensor out of its capsule. `reported` is where its exporter's `__dlpack_device__` says
/// that it lies. Throws what is wrong with it.
void open_capsule(nb::handle capsule, dlpack::Device reported, ImportedTensor& tensor);

}  // namespace devrt::native
