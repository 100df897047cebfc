// What executables say of themselves to Python: signatures, shardings, analyses.
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "binding/python.hpp"

namespace devrt::native {

namespace {

nb::bytes to_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::dict cost_analysis(const ExecutableHandle& self) {
  nb::dict figures;
  for (const pjrt::CostItem& item : self.state->loaded("cost_analysis")->cost_analysis()) {
    figures[item.name.c_str()] = nb::cast(item.value);
  }
  return figures;
}

nb::dict memory_stats(const ExecutableHandle& self) {
  const auto stats = self.state->loaded("get_compiled_memory_stats")->memory_stats();
  nb::dict figures;
  figures["generated_code_size_in_bytes"] = stats.generated_code_size_in_bytes;
  figures["argument_size_in_bytes"] = stats.argument_size_in_bytes;
  figures["output_size_in_bytes"] = stats.output_size_in_bytes;
  figures["alias_size_in_bytes"] = stats.alias_size_in_bytes;
  figures["temp_size_in_bytes"] = stats.temp_size_in_bytes;
  figures["peak_memory_in_bytes"] = stats.peak_memory_in_bytes;
  return figures;
}

nb::list to_specs(const std::vector<pjrt::Tensor>& tensors) {
  nb::list specs;
  for (const pjrt::Tensor& tensor : tensors) {
    specs.append(nb::make_tuple(to_tuple(tensor.dims.span()), numpy_dtype(tensor.type)));
  }
  return specs;
}

nb::list local_devices(const ExecutableHandle& self) {
  nb::list devices;
  for (Device* device : self.state->devices()) devices.append(device->shared());
  return devices;
}

void bind_facts(nb::class_<ExecutableHandle>& cls) {
  cls.def_prop_ro("name", [](const ExecutableHandle& e) { return e.state->signature().name; })
      .def_prop_ro(
          "client", [](const ExecutableHandle& e) { return e.state->client().shared(); },
          nb::sig("def client(self) -> " DEVRT_CLASS_PREFIX "Client"))
      .def("local_devices", &local_devices,
           nb::sig("def local_devices(self) -> list[" DEVRT_CLASS_PREFIX "Device]"),
           "Return the devices of this process that it runs on, in the order of arguments.")
      .def_prop_ro("num_replicas",
                   [](const ExecutableHandle& e) { return e.state->signature().num_replicas; })
      .def_prop_ro("num_partitions",
                   [](const ExecutableHandle& e) { return e.state->signature().num_partitions; })
      .def_prop_ro(
          "parameters",
          [](const ExecutableHandle& e) { return to_specs(e.state->signature().parameters); },
          nb::sig("def parameters(self) -> list[tuple[tuple[int, ...], numpy.dtype[typing.Any]]]"),
          "Shape and dtype of each parameter, of one device's shard.")
      .def_prop_ro(
          "outputs",
          [](const ExecutableHandle& e) { return to_specs(e.state->signature().outputs); },
          nb::sig("def outputs(self) -> list[tuple[tuple[int, ...], numpy.dtype[typing.Any]]]"),
          "Shape and dtype of each output, of one device's shard.")
      .def_prop_ro(
          "donated_parameters",
          [](const ExecutableHandle& e) {
            nb::list donated;
            const auto& parameters = e.state->signature().parameters;
            for (std::size_t i = 0; i < parameters.size(); ++i) {
              if (parameters[i].is_donated) donated.append(i);
            }
            return donated;
          },
          nb::sig("def donated_parameters(self) -> list[int]"),
          "Indices of the parameters whose buffers a call deletes.")
      .def_prop_ro("is_collective",
                   [](const ExecutableHandle& e) {
                     return e.state->signature().is_collective && e.state->devices().size() > 1;
                   })
      .def_prop_ro("custom_calls",
                   [](const ExecutableHandle& e) { return e.state->signature().custom_calls; })
      .def("get_output_memory_kinds", [](const ExecutableHandle& e) {
        std::vector<std::string> kinds;
        for (const auto& output : e.state->signature().outputs) {
          const bool is_named = !output.memory_kind.empty();
          kinds.push_back(is_named ? output.memory_kind
                                   : e.state->devices().front()->default_memory().kind());
        }
        return kinds;
      });
}

void bind_analyses(nb::class_<ExecutableHandle>& cls) {
  cls.def(
         "serialize",
         [](const ExecutableHandle& e) {
           static PyObject* function = nullptr;
           const pjrt::Serialized found = e.state->loaded("serialize")->serialize();
           return call_python(module_attribute(function, "devrt.native.engines", "serialized"),
                              to_bytes(found.code), to_bytes(found.options),
                              nb::str(e.state->engine().client().api().path().c_str()));
         },
         nb::sig("def serialize(self) -> bytes"),
         "Return the compiled program, for `deserialize_executable` on a machine of this kind.")
      .def(
          "_serialize",
          [](const ExecutableHandle& e) {
            return to_bytes(e.state->loaded("serialize")->serialize().code);
          },
          "Return the compiler's own serialised form, which nothing guards against damage.")
      .def(
          "optimized_program",
          [](const ExecutableHandle& e) {
            return nb::make_tuple(
                "hlo_with_config",
                to_bytes(e.state->loaded("optimized_program")->optimized_program()));
          },
          nb::sig("def optimized_program(self) -> tuple[str, bytes]"),
          "Return the compiler's own program: its format, and its bytes.")
      .def(
          "_options",
          [](const ExecutableHandle& e) {
            return to_bytes(e.state->loaded("compile_options")->options());
          },
          "Return the serialised compile options that it was made with; empty for its own.")
      .def_prop_ro("fingerprint",
                   [](const ExecutableHandle& e) {
                     return to_bytes(e.state->loaded("fingerprint")->fingerprint());
                   })
      .def("cost_analysis", &cost_analysis,
           nb::sig("def cost_analysis(self) -> dict[str, typing.Any]"),
           "Return the compiler's estimate of work: flops, bytes accessed and others.")
      .def("get_compiled_memory_stats", &memory_stats,
           nb::sig("def get_compiled_memory_stats(self) -> dict[str, int]"),
           "Return the bytes that the compiler planned for code, arguments, outputs and the rest.")
      .def("size_of_generated_code_in_bytes", [](const ExecutableHandle& e) {
        return e.state->loaded("size_of_generated_code_in_bytes")->generated_code_bytes();
      });
}

}  // namespace

void bind_executable_facts(nb::class_<ExecutableHandle>& cls) {
  bind_facts(cls);
  bind_analyses(cls);
}

}  // namespace devrt::native
