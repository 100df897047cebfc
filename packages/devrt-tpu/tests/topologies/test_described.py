"""What a loaded program says of itself, beside devrt-cpu's word for it, and arrays through it."""

from pathlib import Path

import numpy as np
import pytest

import devrt_pjrt
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.programs import load_program
from devrt.sharding import P
from devrt_cuda.traits import CUDA
from devrt_pjrt.programs.compiled import Executable

PROGRAMS = Path(__file__).parents[1] / "programs"
TWO_PARTS = """module @two attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
      %b: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>,
                           tf.aliasing_output = 0 : i32}) -> tensor<4x6xf32> {
    %0 = stablehlo.add %a, %b : tensor<4x6xf32>
    return %0 : tensor<4x6xf32> } }"""
CALLING = """func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @shape_assertion_twin(%a)
    {api_version = 4 : i32, mhlo.backend_config = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32> }"""
MEMBERS = ("name", "parameters", "outputs", "num_replicas", "donated_parameters", "custom_calls")


@pytest.fixture(scope="module")
def native():
    """Return devrt-cpu's client, whose engine reads the same facts in C++."""
    devrt_cpu = pytest.importorskip("devrt_cpu")
    with devrt_cpu.make_cpu_client(num_devices=8) as client:
        yield client


@pytest.mark.parametrize("name", ["mlp", "control_flow", "gspmd_mlp", "shard_map_dp", None])
def test_both_clients_say_the_same_of_a_program(xla_cpu, native, name):
    code = (PROGRAMS / f"{name}.mlirbc").read_bytes() if name else TWO_PARTS
    found, known = xla_cpu.compile_and_load(code), native.compile_and_load(code)
    for member in MEMBERS:
        for one in found, found.executable:
            assert list_of(getattr(one, member)) == list_of(getattr(known, member)), member
    assert found.is_collective == known.is_collective
    for one in found, found.executable:
        assert one.get_parameter_shardings() == known.get_parameter_shardings()
        assert one.get_output_shardings() == known.get_output_shardings()
        assert one.get_hlo_text().splitlines()[0] == known.get_hlo_text().splitlines()[0]


def list_of(value):
    return [*value] if isinstance(value, list | tuple) else value


def test_shardings_are_named_and_arrays_divided(xla_cpu):
    values = [np.arange(24, dtype=np.float32).reshape(4, 6) for _ in range(2)]
    program = load_program(TWO_PARTS, xla_cpu)
    assert [one.spec for one in program.in_shardings] == [P(None, "x"), P("x")]
    assert program.in_avals[0] == ((4, 6), np.float32)
    assert program.executable.donated_parameters == [1]
    np.testing.assert_array_equal(np.asarray(program(*values)[0]), values[0] * 2)


@pytest.mark.parametrize("name", ["mlp", "gspmd_mlp", "shard_map_dp"])
def test_exported_programs_run_on_arrays(xla_cpu, name):
    data = np.load(PROGRAMS / f"{name}.npz")
    inputs = [data[f"in{i}"] for i in range(sum(key.startswith("in") for key in data.files))]
    results = load_program((PROGRAMS / f"{name}.mlirbc").read_bytes(), xla_cpu)(*inputs)
    for i, result in enumerate(results):
        np.testing.assert_allclose(np.asarray(result), data[f"out{i}"], rtol=1e-4, atol=1e-5)


def test_custom_calls_are_named(xla_cpu):
    xla_cpu.register_custom_call("shape_assertion_twin", lambda a: a * 2)
    executable = xla_cpu.compile_and_load(CALLING)
    assert executable.custom_calls == ["shape_assertion_twin"]


def test_a_client_with_too_few_devices_says_how_many_bytecode_needs(xla_cpu_library):
    code = (PROGRAMS / "gspmd_mlp.mlirbc").read_bytes()
    library = devrt_pjrt.library_for("few", xla_cpu_library)
    with devrt_pjrt.make_client(library, "few", {"cpu_device_count": 1}) as client:  # noqa: SIM117
        with pytest.raises(InvalidArgumentError, match="needs 4 devices"):
            client.compile_and_load(code)


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc"])
def test_gpu_topologies_take_the_partitions_that_a_program_names(cuda, suffix):
    code = TWO_PARTS if suffix == "mlir" else (PROGRAMS / "gspmd_mlp.mlirbc").read_bytes()
    library = devrt_pjrt.library_for("gpus", cuda, traits=[CUDA])
    wanted = 2 if suffix == "mlir" else 4
    made = devrt_pjrt.make_topology(library, "gpus", f"h100:{wanted}").compile(code)
    assert made.num_partitions == wanted
    assert made.donated_parameters == ([1] if suffix == "mlir" else [])
    assert made.parameters
    with pytest.raises(InvalidArgumentError, match=f"needs {wanted} devices.*topology has 1"):
        devrt_pjrt.make_topology(library, "gpus", "h100:1").compile(code)


def test_what_a_plugin_does_not_tell_of_a_program_is_unimplemented(xla_cpu, add_text, monkeypatch):
    monkeypatch.setattr(Executable, "facts", None)
    program = xla_cpu.compile_and_load(add_text).executable
    for member in "parameters", "custom_calls", "get_parameter_shardings", "get_hlo_text":
        with pytest.raises(UnimplementedError, match=f"{member} failed: the PJRT plugin"):
            getattr(program, member)()
