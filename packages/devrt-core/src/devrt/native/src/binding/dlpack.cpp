// DLPack export of buffers.
#include <memory>

#include "binding/exchange.hpp"
#include "binding/python.hpp"
#include "client/release_queue.hpp"
#include "devrt/buffers/dlpack.hpp"

namespace devrt::native {

namespace {

/// An exported tensor and what it points to; freed by the consumer, with or without the GIL.
template <class Managed>
struct Export {
  Managed managed{};
  Ref<Storage> storage;
  Dims shape;
  Dims strides;
  Consumer consumer;

  /// The consumer is done with it, its stream may not be: what is there stays until it is.
  static void release(Managed* managed) {
    const std::unique_ptr<Export> self(static_cast<Export*>(managed->context));
    if (self->consumer.stream) hold_until_used(*self->storage, *self->consumer.stream);
  }
};

template <class Managed>
std::unique_ptr<Export<Managed>> make_export(const Buffer& buffer, Ref<Storage> storage,
                                             dlpack::Device device, Consumer consumer) {
  auto exported = std::make_unique<Export<Managed>>();
  exported->shape = buffer.shape().copy();
  exported->strides = ordered_strides(buffer.shape().span(), 1, buffer.order());
  dlpack::Tensor& tensor = exported->managed.tensor;
  tensor.data = storage->data();
  tensor.device = device;
  tensor.ndim = static_cast<std::int32_t>(buffer.shape().size());
  tensor.dtype = dlpack::dtype_of(buffer.type());
  tensor.shape = exported->shape.data();
  tensor.strides = exported->strides.data();
  exported->storage = std::move(storage);
  exported->consumer = std::move(consumer);
  exported->managed.context = exported.get();
  exported->managed.deleter = &Export<Managed>::release;
  return exported;
}

/// Frees the tensor of a capsule that nobody consumed.
template <class Managed>
void free_unused(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  DrainScope drain;
  managed->deleter(managed);
}

template <class Managed>
nb::object to_capsule(std::unique_ptr<Export<Managed>> exported, const char* name,
                      PyCapsule_Destructor destructor) {
  nb::object capsule = nb::steal(PyCapsule_New(&exported->managed, name, destructor));
  if (!capsule.is_valid()) throw nb::python_error();
  exported.release();
  return capsule;
}

constexpr dlpack::Device kHost{dlpack::kCpu, 0};

bool is_same(dlpack::Device one, dlpack::Device other) noexcept {
  return one.type == other.type && one.id == other.id;
}

/// Returns the device that a tensor is requested on: the buffer's own, or the host.
dlpack::Device requested_device(const Memory& memory, nb::handle dl_device) {
  const dlpack::Device own = memory.dlpack_device();
  if (dl_device.is_none()) return own;
  if (!PyTuple_Check(dl_device.ptr()) || nb::len(dl_device) != 2) {
    raise_type("dl_device must be a tuple of a device type and a device id, or None, not of type " +
                   kind_of(dl_device) + ".",
               "__dlpack__");
  }
  const dlpack::Device wanted{to_int(dl_device[0], "dl_device[0]", "__dlpack__"),
                              to_int(dl_device[1], "dl_device[1]", "__dlpack__")};
  if (is_same(wanted, own) || is_same(wanted, kHost)) return wanted;
  const std::string name = "(" + std::to_string(own.type) + ", " + std::to_string(own.id) + ")";
  throw nb::buffer_error(("A " + platform().name + " buffer can be exported to DLPack device " +
                          name + (is_same(own, kHost) ? "" : " and (1, 0)") +
                          " only. Copy it to the other device.")
                             .c_str());
}

/// Returns the storage once the consumer's stream, or else the host, has waited for the buffer.
Ref<Storage> read_in_order(const Buffer& buffer, const Consumer& consumer) {
  Ref<Storage> storage = buffer.memory()->client().storage_of(buffer, "__dlpack__");
  if (buffer.ready().is_ready()) {
    raise_if_error(buffer.ready().error());
  } else if (!consumer.is_unordered &&
             !(consumer.stream && consumer.stream->wait(buffer.ready()))) {
    await(buffer);
  }
  return storage;
}

Ref<Storage> duplicate_on_host(const Storage& source) {
  Ref<Storage> copied = Storage::allocate(std::make_shared<AlignedAllocator>(), source.bytes());
  if (source.bytes() > 0) std::memcpy(copied->data(), source.data(), source.bytes());
  return copied;
}

/// What is exported, and whether it is a copy.
struct Exported {
  Ref<Storage> storage;
  bool is_copy = false;
};

Exported storage_on(const Buffer& buffer, dlpack::Device device, nb::handle copy,
                    const Consumer& consumer) {
  const Memory& memory = *buffer.memory();
  const bool must_copy = !copy.is_none() && to_bool(copy, "copy", "__dlpack__");
  if (memory.is_host_visible()) {
    Ref<Storage> storage = read(buffer, "__dlpack__");
    return must_copy ? Exported{duplicate_on_host(*storage), true}
                     : Exported{std::move(storage), false};
  }
  if (is_same(device, kHost) && !is_same(memory.dlpack_device(), kHost)) {
    if (!copy.is_none() && !must_copy) {
      throw nb::buffer_error(
          "The host reaches the buffer by a copy only, and copy=False forbids it.");
    }
    return {read_on_host(buffer, "__dlpack__"), true};
  }
  if (!must_copy) return {read_in_order(buffer, consumer), false};
  Ref<Buffer> copied;
  {
    const GilRelease released;
    copied = memory.client().copy(buffer, *buffer.memory(), false);
  }
  return {read_in_order(*copied, consumer), true};
}

}  // namespace

nb::object export_dlpack(const BufferHandle& self, nb::handle stream, nb::handle max_version,
                         nb::handle dl_device, nb::handle copy) {
  const Buffer& buffer = *self.state;
  (void)buffer.memory()->client().storage_of(buffer, "__dlpack__");
  Consumer consumer = consumer_of(*buffer.memory(), stream);
  const dlpack::Device device = requested_device(*buffer.memory(), dl_device);
  if (!max_version.is_none() && (!PyTuple_Check(max_version.ptr()) || nb::len(max_version) != 2)) {
    raise_type("max_version must be a tuple of a major and a minor version, or None, not of type " +
                   kind_of(max_version) + ".",
               "__dlpack__");
  }
  const bool versioned =
      !max_version.is_none() &&
      to_int(max_version[0], "max_version[0]", "__dlpack__") >= static_cast<int>(dlpack::kMajor);
  const bool subbyte = info(buffer.type()).bits < 8;
  if (subbyte && !versioned) {
    throw nb::buffer_error(
        "A type of less than 8 bits needs DLPack 1.0: pass max_version=(1, 0), or convert it.");
  }
  auto [storage, copied] = storage_on(buffer, device, copy, consumer);
  if (!versioned) {
    return to_capsule(
        make_export<dlpack::Managed>(buffer, std::move(storage), device, std::move(consumer)),
        "dltensor", [](PyObject* c) { free_unused<dlpack::Managed>(c, "dltensor"); });
  }
  auto exported = make_export<dlpack::ManagedVersioned>(buffer, std::move(storage), device,
                                                        std::move(consumer));
  exported->managed.version = {dlpack::kMajor, dlpack::kMinor};
  exported->managed.flags =
      (copied ? dlpack::kIsCopied : dlpack::kReadOnly) | (subbyte ? dlpack::kSubbytePadded : 0);
  return to_capsule(std::move(exported), "dltensor_versioned", [](PyObject* c) {
    free_unused<dlpack::ManagedVersioned>(c, "dltensor_versioned");
  });
}

}  // namespace devrt::native
