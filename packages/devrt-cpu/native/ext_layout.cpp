// Layouts: between the Python classes and the order of a buffer's dimensions.
#include "python.hpp"

namespace devrt::cpu {

namespace {

constexpr const char* kModule = "devrt.layout";
PyObject* layout_class = nullptr;
PyObject* pjrt_layout_class = nullptr;
PyObject* storage_order_function = nullptr;

nb::object make_pjrt_layout(nb::object layout) {
  return module_attribute(pjrt_layout_class, kModule, "PjRtLayout")(layout);
}

nb::object row_major_layout(std::size_t ndim) {
  Dims order(ndim);
  for (std::size_t i = 0; i < ndim; ++i) order[i] = static_cast<std::int64_t>(ndim - 1 - i);
  return module_attribute(layout_class, kModule, "Layout")(to_tuple(order.span()));
}

}  // namespace

Dims to_storage_order(nb::handle layout, ElementType type, std::size_t ndim) {
  const nb::object found = module_attribute(storage_order_function, kModule, "storage_order")(
      layout, ndim, numpy_dtype(type));
  Dims order(ndim);
  for (std::size_t i = 0; i < ndim; ++i) order[i] = nb::cast<std::int64_t>(found[i]);
  return order;
}

nb::object layout_of(const Buffer& buffer) {
  if (buffer.order().empty()) return row_major_layout(buffer.shape().size());
  return module_attribute(layout_class, kModule, "Layout")(to_tuple(buffer.order()));
}

nb::object pjrt_layout_of(const Buffer& buffer) { return make_pjrt_layout(layout_of(buffer)); }

nb::object default_layout(Client& client, nb::handle dtype, nb::handle shape, nb::handle device) {
  (void)resolve_memory(client, device, "get_default_layout");
  const nb::object element = nb::module_::import_("devrt.dtypes").attr("from_numpy")(dtype);
  const Dims extents = to_dims(shape, "A shape", "get_default_layout");
  (void)checked_bytes(extents.span(), nb::cast<std::size_t>(element.attr("itemsize")));
  return make_pjrt_layout(row_major_layout(extents.size()));
}

}  // namespace devrt::cpu
