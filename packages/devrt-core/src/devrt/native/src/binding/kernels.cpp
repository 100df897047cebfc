// Kernels, as the Python half of the client compiles and launches them.
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binding/python.hpp"
#include "client/kernels.hpp"
#include "client/release_queue.hpp"
#include "execution/kernel_calls.hpp"

namespace devrt::native {

using namespace nb::literals;

namespace {

/// What Python holds of a function: with its client, which must outlive it.
struct FunctionHandle {
  std::shared_ptr<Device> device;
  std::shared_ptr<KernelFunction> function;
};
struct ModuleHandle {
  std::shared_ptr<Device> device;
  std::shared_ptr<KernelModule> module;
};

std::array<unsigned, 3> to_sizes(nb::handle sizes, const char* name) {
  const Dims given = to_dims(sizes, name, "launch");
  std::array<unsigned, 3> made{1, 1, 1};
  if (given.size() < 1 || given.size() > 3) {
    raise_invalid(std::string(name) + " must have one to three sizes.", "launch");
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 1 || given[i] > 0xffffffff) {
      raise_invalid(std::string(name) + " must have sizes from 1 to 4294967295, not " +
                        std::to_string(given[i]) + ".",
                    "launch");
    }
    made[i] = static_cast<unsigned>(given[i]);
  }
  return made;
}

/// Reads a buffer, the bytes of a number, or the dtype and shape of an array to be made.
KernelArgument to_argument(nb::handle value) {
  if (value.type().is(types.buffer)) return nb::inst_ptr<BufferHandle>(value)->state.get();
  if (PyBytes_Check(value.ptr())) {
    const auto bytes = nb::cast<nb::bytes>(value);
    KernelScalar scalar;
    if (bytes.size() > scalar.bytes.size()) {
      raise_invalid("A number of a kernel has at most 16 bytes.", "launch");
    }
    std::memcpy(scalar.bytes.data(), bytes.c_str(), bytes.size());
    scalar.size = bytes.size();
    return scalar;
  }
  if (!PyTuple_Check(value.ptr()) || nb::len(value) != 2) {
    raise_type("A kernel's argument must be an array, a number or a description, not of type " +
                   kind_of(value) + ".",
               "launch");
  }
  return KernelOutput{dtype_info(value[0]).type, to_dims(value[1], "A shape", "launch")};
}

nb::object launch(const FunctionHandle& self, nb::handle arguments, nb::handle grid,
                  nb::handle block, unsigned shared_bytes) {
  const DrainScope drain;
  const LaunchShape shape{to_sizes(grid, "grid"), to_sizes(block, "block"), shared_bytes};
  const std::vector<nb::object> items = to_items(arguments, "arguments", "launch");
  std::vector<KernelArgument> read;
  for (const nb::object& item : items) read.push_back(to_argument(item));
  const std::int64_t stream = execution_stream();
  std::vector<Ref<Buffer>> results;
  {
    GilRelease released;
    results = launch_kernel(*self.device, self.function, shape, read, stream);
  }
  return wrap_all(std::move(results));
}

/// Lets programs call it by a key.
void provide(const FunctionHandle& self, const std::string& key) {
  GilRelease released;
  provide_kernel(*self.device, key, self.function);
}

/// Refuses a launch that the device cannot make, with parameters of these sizes in bytes.
void check(const FunctionHandle& self, nb::handle sizes, nb::handle grid, nb::handle block,
           unsigned shared_bytes) {
  std::vector<std::size_t> given;
  const Dims read = to_dims(sizes, "sizes", "launch");
  for (const std::int64_t size : read.span()) given.push_back(static_cast<std::size_t>(size));
  const LaunchShape shape{to_sizes(grid, "grid"), to_sizes(block, "block"), shared_bytes};
  self.function->check(shape, given);
}

nb::dict attributes(const FunctionHandle& self) {
  self.device->client().check_open("attributes");
  nb::dict made;
  for (const auto& [name, value] : self.function->attributes()) made[name.c_str()] = value;
  return made;
}

nb::object suggest_block(const FunctionHandle& self, std::size_t shared_bytes) {
  self.device->client().check_open("suggest_block");
  const auto [block, grid] = self.function->suggest_block(shared_bytes);
  return nb::make_tuple(block, grid);
}

ModuleHandle load(nb::handle device, nb::bytes image) {
  drain_release_queue();
  std::shared_ptr<Device> found = nb::cast<std::shared_ptr<Device>>(device);
  const std::string bytes(image.c_str(), image.size());
  GilRelease released;
  std::shared_ptr<KernelModule> module = load_kernels(found->client(), *found, bytes);
  return {std::move(found), std::move(module)};
}

FunctionHandle function(const ModuleHandle& self, const std::string& name) {
  self.device->client().check_open("function");
  GilRelease released;
  return {self.device, self.module->function(name)};
}

}  // namespace

void bind_kernels(nb::module_& module) {
  nb::class_<FunctionHandle>(module, "_Kernel", nb::type_slots(no_new_slots))
      .def("launch", &launch, "arguments"_a, "grid"_a, "block"_a, "shared_bytes"_a)
      .def("check", &check, "sizes"_a, "grid"_a, "block"_a, "shared_bytes"_a)
      .def("provide", &provide, "key"_a)
      .def("attributes", &attributes, nb::sig("def attributes(self) -> dict[str, int]"))
      .def("suggest_block", &suggest_block, "shared_bytes"_a);
  nb::class_<ModuleHandle>(module, "_KernelModule", nb::type_slots(no_new_slots))
      .def("function", &function, "name"_a);
  module.def("_load_kernels", &load, "device"_a, "image"_a);
  module.def(
      "_provide_kernel_calls",
      [](const std::string& library) {
        GilRelease released;
        provide_kernel_calls(library);
      },
      "library"_a);
}

}  // namespace devrt::native
