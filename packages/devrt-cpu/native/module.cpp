// What the module devrt_cpu._ext has beside the native client's front.
#include "module.hpp"

#include "binding/python.hpp"

namespace devrt::native {

const char* platform_version() noexcept {
  return "devrt-cpu " DEVRT_CPU_VERSION " (g++-compatible " __VERSION__ ", C++20)";
}

void bind_backend(nb::module_& module) {
  cpu::bind_make_client(module);
  cpu::bind_lapack(module);
}

void describe_backend(nb::module_& module) {
  module.doc() = "The native half of devrt's CPU backend.";
  const auto describe = [&](const char* name, const char* words) {
    module.attr(name).attr("__doc__") = words;
  };
  describe("CpuMemory", "One address space of one CPU device.");
  describe("CpuDevice", "One virtual CPU device.");
  describe("CpuClient", "A live connection to the host's processors and memory.");
  describe("CpuBuffer", "One immutable allocation on one memory of a CPU device.");
  describe("CpuLoadedExecutable", "A compiled program, loaded on devices of a cpu client.");
  nb::borrow<nb::class_<Device>>(types.device)
      .def_prop_ro(
          "attributes", [](const Device&) { return nb::dict(); },
          nb::sig("def attributes(self) -> collections.abc.Mapping[str, typing.Any]"),
          "Nothing: a virtual device has no more to say of itself.");
}

}  // namespace devrt::native
