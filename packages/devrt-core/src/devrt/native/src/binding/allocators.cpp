// The SDK's allocators as capsules, for memory kinds: composed from Python, run by native code.
#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "binding/python.hpp"
#include "client/release_queue.hpp"
#include "devrt/memory/arena_allocator.hpp"
#include "devrt/memory/huge_page_allocator.hpp"
#include "devrt/memory/lent_allocator.hpp"
#include "devrt/memory/limit_allocator.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

nb::object to_capsule(std::shared_ptr<HostAllocator> allocator) {
  auto lent = std::make_unique<LentAllocator>(std::move(allocator));
  // The table is the first thing that a user of the capsule reads, the owner what it frees.
  nb::object capsule = nb::steal(PyCapsule_New(
      const_cast<devrt_host_allocator*>(&lent->table()), DEVRT_HOST_ALLOCATOR_CAPSULE,
      [](PyObject* self) { delete static_cast<LentAllocator*>(PyCapsule_GetContext(self)); }));
  if (!capsule.is_valid() || PyCapsule_SetContext(capsule.ptr(), lent.get()) != 0) {
    throw nb::python_error();
  }
  (void)lent.release();
  return capsule;
}

std::shared_ptr<HostAllocator> upstream_of(nb::handle capsule) {
  return foreign_allocator(nb::borrow(capsule), "an allocator's upstream");
}

nb::object arena(nb::handle upstream, std::size_t region_bytes, std::size_t granule,
                 std::optional<std::size_t> keep_bytes) {
  if (granule < 64 || (granule & (granule - 1)) != 0 || region_bytes == 0) {
    raise_invalid(
        "granule must be a power of two from 64 on, and region_bytes at least 1; they are " +
            std::to_string(granule) + " and " + std::to_string(region_bytes) + ".",
        "arena");
  }
  ArenaOptions options{region_bytes, granule};
  if (keep_bytes) options.keep_bytes = *keep_bytes;
  return to_capsule(std::make_shared<ArenaAllocator>(upstream_of(upstream), options));
}

nb::object limited(nb::handle upstream, std::size_t limit_bytes) {
  return to_capsule(std::make_shared<LimitAllocator>(upstream_of(upstream),
                                                     std::make_shared<ByteBudget>(limit_bytes)));
}

}  // namespace

std::shared_ptr<HostAllocator> foreign_allocator(nb::object capsule, const std::string& whose) {
  if (!PyCapsule_IsValid(capsule.ptr(), DEVRT_HOST_ALLOCATOR_CAPSULE)) {
    const nb::str type(capsule.type().attr("__qualname__"));
    raise_invalid("The allocator of " + whose +
                      " must return a capsule named '" DEVRT_HOST_ALLOCATOR_CAPSULE
                      "', and returned a value of type " +
                      type.c_str() + ". The plugin that adds the kind must be fixed.",
                  make_operation());
  }
  auto* table = static_cast<const devrt_host_allocator*>(
      PyCapsule_GetPointer(capsule.ptr(), DEVRT_HOST_ALLOCATOR_CAPSULE));
  return std::make_shared<ForeignAllocator>(table, keep_object(std::move(capsule)));
}

void bind_allocators(nb::module_& module) {
  module.def("system_allocator", [] { return to_capsule(std::make_shared<AlignedAllocator>()); });
  module.def("page_locked_allocator",
             [] { return to_capsule(std::make_shared<PageLockedAllocator>()); });
  module.def("huge_page_allocator",
             [] { return to_capsule(std::make_shared<HugePageAllocator>()); });
  module.def("arena_allocator", &arena, "upstream"_a, nb::kw_only(), "region_bytes"_a, "granule"_a,
             "keep_bytes"_a.none());
  module.def("limited_allocator", &limited, "upstream"_a, "limit_bytes"_a);
}

}  // namespace devrt::native
