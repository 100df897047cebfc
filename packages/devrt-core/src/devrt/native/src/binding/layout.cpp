// Layouts: between the Python classes and the order of a buffer's dimensions.
#include <span>
#include <string>
#include <vector>

#include "binding/python.hpp"

namespace devrt::native {

namespace {

constexpr const char* kModule = "devrt.layout";
PyObject* layout_class = nullptr;
PyObject* pjrt_layout_class = nullptr;
PyObject* storage_order_function = nullptr;
PyObject* from_numpy_function = nullptr;

nb::object make_pjrt_layout(nb::object layout) {
  return call_python(module_attribute(pjrt_layout_class, kModule, "PjRtLayout"), layout);
}

nb::object make_layout(std::span<const std::int64_t> order) {
  return call_python(module_attribute(layout_class, kModule, "Layout"), to_tuple(order));
}

nb::object row_major_layout(std::size_t ndim) {
  Dims order(ndim);
  for (std::size_t i = 0; i < ndim; ++i) order[i] = static_cast<std::int64_t>(ndim - 1 - i);
  return make_layout(order.span());
}

/// A subclass of Layout may answer anything, and memory is written by what it says.
void check_permutation(std::span<const std::int64_t> order, std::size_t ndim) {
  std::vector<bool> named(ndim);
  bool holds = order.size() == ndim;
  for (const std::int64_t dim : order) {
    holds = holds && dim >= 0 && static_cast<std::size_t>(dim) < ndim &&
            !named[static_cast<std::size_t>(dim)];
    if (!holds) break;
    named[static_cast<std::size_t>(dim)] = true;
  }
  if (!holds) {
    raise_invalid("minor_to_major of the layout must name each of the " + std::to_string(ndim) +
                      " dimensions once, from 0. Pass a devrt.layout.Layout, whose constructor "
                      "checks that.",
                  "buffer_from_pyval");
  }
}

}  // namespace

Dims to_storage_order(nb::handle layout, ElementType type, std::size_t ndim) {
  const nb::object found =
      call_python(module_attribute(storage_order_function, kModule, "storage_order"), layout,
                  nb::int_(ndim), numpy_dtype(type));
  Dims order = to_dims(found, "minor_to_major", "buffer_from_pyval");
  check_permutation(order.span(), ndim);
  return order;
}

nb::object layout_of(const Buffer& buffer) {
  if (buffer.order().empty()) return row_major_layout(buffer.shape().size());
  return make_layout(buffer.order());
}

nb::object pjrt_layout_of(const Buffer& buffer) { return make_pjrt_layout(layout_of(buffer)); }

nb::object default_layout(Client& client, nb::handle dtype, nb::handle shape, nb::handle device) {
  (void)resolve_memory(client, device, "get_default_layout");
  if (dtype.is_none()) raise_type("dtype must be a dtype, not None.", "get_default_layout");
  const nb::object element =
      call_python(module_attribute(from_numpy_function, "devrt.dtypes", "from_numpy"), dtype);
  const Dims extents = to_dims(shape, "A shape", "get_default_layout");
  (void)checked_bytes(extents.span(), nb::cast<std::size_t>(element.attr("itemsize")));
  return make_pjrt_layout(row_major_layout(extents.size()));
}

}  // namespace devrt::native
