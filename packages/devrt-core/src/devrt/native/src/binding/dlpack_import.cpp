#include "binding/dlpack_import.hpp"

#include <string>

#include "client/release_queue.hpp"
#include "devrt/buffers/dlpack.hpp"

namespace devrt::native {

namespace {

constexpr const char* kTensorOperation = "buffer_from_pyval";

[[noreturn]] void refuse_tensor(std::string message) {
  raise_type(std::move(message), kTensorOperation);
}

/// A DLPack tensor that is given back through the release queue, as its deleter may take the GIL.
template <class Managed>
struct DlpackRelease : DeferredRelease {
  explicit DlpackRelease(Managed* tensor) noexcept
      : DeferredRelease(&DlpackRelease::release), managed(tensor) {}
  static void release(DeferredRelease* node) {
    auto* self = static_cast<DlpackRelease*>(node);
    if (self->managed->deleter) self->managed->deleter(self->managed);
    delete self;
  }
  Managed* managed;
};

/// Takes the tensor out of a capsule, so that the capsule frees it no more.
template <class Managed>
Managed* take_tensor(nb::handle capsule, const char* name, const char* used_name) {
  if (!PyCapsule_IsValid(capsule.ptr(), name)) {
    refuse_tensor("__dlpack__ returned no unused DLPack capsule but a value of type " +
                  kind_of(capsule) + ". The exporter is at fault; pass numpy.asarray(x) instead.");
  }
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (!managed || PyCapsule_SetName(capsule.ptr(), used_name) != 0) throw nb::python_error();
  return managed;
}

/// Refuses a tensor that does not lie where it was reported to lie: its address would be read
/// wrongly.
void check_device(dlpack::Device own, dlpack::Device reported) {
  const bool is_on_host = reported.type == dlpack::kCpu;  // one memory, whatever the number
  if (own.type == reported.type && (is_on_host || own.id == reported.id)) return;
  const auto pair = [](dlpack::Device device) {
    return "(" + std::to_string(device.type) + ", " + std::to_string(device.id) + ")";
  };
  refuse_tensor("The tensor of a DLPack capsule lies on device " + pair(own) +
                ", and its exporter's __dlpack_device__ says " + pair(reported) +
                ". The exporter is at fault; copy the array by its own library first.");
}

}  // namespace

nb::object call_dlpack(nb::handle value, nb::handle stream) {
  const nb::object export_of = value.attr("__dlpack__");
  nb::dict options;
  if (stream.is_valid()) options["stream"] = stream;
  const nb::dict older = nb::borrow<nb::dict>(nb::object(options.attr("copy")()));
  options["max_version"] = nb::make_tuple(dlpack::kMajor, dlpack::kMinor);
  try {
    return apply_python(export_of, nb::make_tuple(), options);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // an exporter from before max_version
    return apply_python(export_of, nb::make_tuple(), older);
  }
}

void open_capsule(nb::handle capsule, dlpack::Device reported, ImportedTensor& found) {
  const dlpack::Tensor* tensor = nullptr;
  bool padded = false;  // whether elements of less than a byte have a byte each, as NumPy has them
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    using Managed = dlpack::ManagedVersioned;
    auto* managed = take_tensor<Managed>(capsule, "dltensor_versioned", "used_dltensor_versioned");
    found.hold = release_later(new DlpackRelease<Managed>(managed));
    if (managed->version.major != dlpack::kMajor) refuse_tensor("The DLPack version is not 1.");
    tensor = &managed->tensor;
    padded = (managed->flags & dlpack::kSubbytePadded) != 0;
  } else {
    auto* managed = take_tensor<dlpack::Managed>(capsule, "dltensor", "used_dltensor");
    found.hold = release_later(new DlpackRelease<dlpack::Managed>(managed));
    tensor = &managed->tensor;
  }
  check_device(tensor->device, reported);
  const auto type = dlpack::type_of(tensor->dtype);
  if (!type || tensor->ndim < 0 || (info(*type).bits < 8 && !padded)) {
    refuse_tensor("A DLPack tensor of type code " + std::to_string(tensor->dtype.code) + " and " +
                  std::to_string(tensor->dtype.bits) +
                  " bits cannot be held by a device. Convert it.");
  }
  if (tensor->ndim > 0 && !tensor->shape) refuse_tensor("A DLPack tensor has no shape.");
  const std::span<const std::int64_t> shape{tensor->shape, static_cast<std::size_t>(tensor->ndim)};
  const auto size = static_cast<std::int64_t>(itemsize(*type));
  found.bytes = checked_bytes(shape, itemsize(*type));
  if (found.bytes > 0 && !tensor->data) refuse_tensor("A DLPack tensor has no data.");
  found.strides = dense_strides(shape, itemsize(*type));
  for (std::size_t i = 0; tensor->strides && i < shape.size(); ++i) {
    found.strides[i] = tensor->strides[i] * size;
  }
  found.array = {{static_cast<const std::byte*>(tensor->data) + tensor->byte_offset, shape,
                  found.strides.span(), itemsize(*type), 1},
                 *type};
}

}  // namespace devrt::native
