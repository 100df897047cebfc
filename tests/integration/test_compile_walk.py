"""What each client that compiles StableHLO does with a program: reads it once, compiles it once."""

import inspect
from pathlib import Path

import numpy as np
import pytest

from devrt.compiling import bytecode, text
from devrt.compiling.options import CompileOptions
from devrt.errors import InvalidTypeError, UnimplementedError
from devrt.programs import load_program

pytestmark = pytest.mark.engine
devrt_cpu = pytest.importorskip("devrt_cpu")
devrt_pjrt = pytest.importorskip("devrt_pjrt")

PACKAGES = Path(__file__).parents[2] / "packages"
PROGRAMS = PACKAGES / "devrt-cpu" / "tests" / "programs"
TUPLES = PACKAGES / "devrt-core" / "tests" / "bytecode"


def cpu_client():
    return devrt_cpu.make_cpu_client(num_devices=4)


def loader_client():
    from devrt_cpu._library import choose

    library = devrt_pjrt.library_for("xla_cpu_walk", choose().path)
    return devrt_pjrt.make_client(library, "xla_cpu_walk", {"cpu_device_count": 4})


@pytest.fixture(params=[cpu_client, loader_client], ids=["devrt-cpu", "the loader"])
def client(request):
    with request.param() as made:
        yield made


@pytest.fixture
def read(monkeypatch):
    """Return a list to which the size of each program that is read is added."""
    found = []
    for module, name, kind in (
        (bytecode, "Bytecode", bytecode.Bytecode),
        (text, "_Pass", text._Pass),
    ):
        monkeypatch.setattr(module, name, counting(kind, lambda code: found.append(len(code))))
    return found


@pytest.fixture
def compiled(monkeypatch, client):
    """Return a list to which each native call is added that compiles or loads."""
    found = []
    if isinstance(client, devrt_pjrt.PjrtClient):
        from devrt_pjrt.library.api import Api

        call = Api.call

        def counted(api, function, **fields):
            if function in ("PJRT_Client_Compile", "PJRT_Executable_DeserializeAndLoad"):
                found.append(function)
            return call(api, function, **fields)

        monkeypatch.setattr(Api, "call", counted)
    else:
        from devrt_cpu import _ext

        for name in ("_compile", "_deserialize"):
            native = counting(getattr(_ext, name), lambda *_, name=name: found.append(name))
            monkeypatch.setattr(_ext, name, native)
    return found


def counting(function, note):
    def call(*arguments):
        note(*arguments)
        return function(*arguments)

    return call


def code_of(name):
    return (PROGRAMS / name).read_bytes()


@pytest.mark.parametrize("name", ["gspmd_mlp", "mlp", "shard_map_dp"])
@pytest.mark.parametrize("suffix", ["mlir", "mlirbc"])
def test_a_program_is_read_once_and_compiled_once(client, read, compiled, name, suffix):
    code = code_of(f"{name}.{suffix}")
    assert client.compile_and_load(code).name
    assert read == [len(code)]
    assert len(compiled) == 1


def test_a_program_of_arrays_is_read_once(client, read, compiled):
    code = code_of("gspmd_mlp.mlirbc")
    assert load_program(code, client).mesh.axis_names == ("dp", "tp")
    assert read == [len(code)]
    assert len(compiled) == 1


def test_a_compilation_is_entered_in_python(client):
    assert inspect.isfunction(type(client).compile_and_load)
    assert inspect.isfunction(type(client).deserialize_executable)


@pytest.mark.parametrize("form", [".mlir", "_generic.mlir", ".mlirbc", "_not_portable.mlirbc"])
@pytest.mark.parametrize("name", ["takes_tuple", "gives_tuple"])
def test_tuples_that_no_buffer_holds_are_refused_before_the_plugin_sees_them(
    client, compiled, name, form
):
    with pytest.raises(UnimplementedError, match="function @main takes or gives a tuple") as caught:
        client.compile_and_load((TUPLES / f"{name}{form}").read_bytes())
    assert caught.value.operation == "compile_and_load"
    assert not compiled


def test_tuples_within_a_program_are_compiled(client):
    assert client.compile_and_load((TUPLES / "tuple_within.mlirbc").read_bytes()).name


@pytest.mark.parametrize("name", ["resources.mlir", "resources_not_portable.mlirbc"])
def test_constants_of_torch_mlir_are_handed_over_as_stablehlo_s(client, name):
    program = load_program(TUPLES / name, client)
    results = program(np.zeros((2, 5), np.float32))
    weights, mask, numbers, none, pair = map(np.asarray, results)
    np.testing.assert_array_equal(weights, np.arange(10).reshape(2, 5))
    np.testing.assert_array_equal(mask.astype(int), [[1, 0, 1, 1, 0], [0, 1, 0, 0, 1]])
    np.testing.assert_array_equal(numbers, [1, 2, 3])
    assert none.shape == (0,)
    np.testing.assert_array_equal(pair, [7, 8])


def test_options_come_third_as_in_jaxlib_or_by_name(client):
    code, devices = code_of("mlp.mlir"), client.local_devices()[:2]
    two = CompileOptions(num_replicas=2)
    for arguments, options in (
        ((devices, two), {}),
        ((devices,), {"compile_options": two}),
        ((devices, CompileOptions(memory_fitting_effort=0.5)), {"num_replicas": 2}),
        ((devices, None), {"num_replicas": 2}),
    ):
        made = client.compile_and_load(code, *arguments, **options)
        assert (made.num_replicas, made.local_devices()) == (2, devices)
    loaded = client.deserialize_executable(made.serialize(), devices[::-1], two)
    assert (loaded.num_replicas, loaded.local_devices()) == (2, devices[::-1])
    with pytest.raises(InvalidTypeError, match="compile_options must be CompileOptions"):
        client.compile_and_load(code, devices, {"num_replicas": 2})
    assert client.compile(code, compile_options=CompileOptions()).num_replicas == 1
