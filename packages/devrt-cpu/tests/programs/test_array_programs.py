"""Compiled programs on arrays: sharded in, sharded out, named by the program's mesh."""

from pathlib import Path

import numpy as np
import pytest

import devrt
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.programs import load_program
from devrt.sharding import Mesh, NamedSharding, P, SingleDeviceSharding
from devrt_cpu import make_cpu_client
from support import double

pytestmark = pytest.mark.engine

PROGRAMS = Path(__file__).parents[1] / "programs"

ADD = double(alias=" {tf.aliasing_output = 0 : i32}")


def stored(name):
    data = np.load(PROGRAMS / f"{name}.npz")
    count = sum(key.startswith("in") for key in data.files)
    return [data[f"in{i}"] for i in range(count)], data


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc"])
@pytest.mark.parametrize(
    ("name", "axes", "inputs", "outputs"),
    [
        ("gspmd_mlp", ("dp", "tp"), [P("dp"), P(None, "tp"), P("tp")], [P("dp")]),
        ("shard_map_dp", ("x",), [P(), P(), P("x"), P("x")], [P(), P(), P()]),
    ],
)
def test_shardings_are_named_by_the_program_s_own_mesh(name, axes, inputs, outputs, suffix):
    program = load_program((PROGRAMS / f"{name}.{suffix}").read_bytes())
    assert program.mesh.axis_names == axes
    assert [sharding.spec for sharding in program.in_shardings] == inputs
    assert [sharding.spec for sharding in program.out_shardings] == outputs
    values, data = stored(name)
    assert [(value.shape, value.dtype) for value in values] == list(program.in_avals)
    results = program(*values)
    for i, (result, (shape, dtype)) in enumerate(zip(results, program.out_avals, strict=True)):
        assert (result.shape, result.dtype, result.committed) == (shape, dtype, True)
        assert result.sharding is program.out_shardings[i]
        np.testing.assert_allclose(np.asarray(result), data[f"out{i}"], rtol=1e-4, atol=1e-5)


def test_results_are_arguments_again_without_a_copy():
    program = load_program((PROGRAMS / "gspmd_mlp.mlirbc").read_bytes())
    (x, *weights), _ = stored("gspmd_mlp")
    weights = [
        devrt.device_put(w, s) for w, s in zip(weights, program.in_shardings[1:], strict=True)
    ]
    client = program.executable.client
    (y,) = program(x, *weights)
    before = client.engine_stats()["bytes_copied"]
    (y,) = program(y, *weights)
    assert y.shape == (8, 16)
    assert client.engine_stats()["bytes_copied"] == before


def test_a_mesh_of_the_caller_s_names_the_shardings():
    devices = devrt.devices("cpu")[4:8]
    mesh = Mesh(np.array(devices).reshape(2, 2), ("rows", "columns"))
    program = load_program((PROGRAMS / "gspmd_mlp.mlir").read_bytes(), mesh=mesh)
    assert program.out_shardings[0] == NamedSharding(mesh, P("rows"))
    values, data = stored("gspmd_mlp")
    (result,) = program(*values)
    assert result.devices() == set(devices)
    np.testing.assert_allclose(np.asarray(result), data["out0"], rtol=1e-4, atol=1e-5)


def test_arrays_placed_elsewhere_on_request_are_refused_and_others_are_moved():
    program = load_program((PROGRAMS / "gspmd_mlp.mlir").read_bytes())
    values, data = stored("gspmd_mlp")
    wrong = devrt.device_put(values[0], NamedSharding(program.mesh, P("tp")))
    with pytest.raises(InvalidArgumentError, match=r"argument 0 .* must lie as"):
        program(wrong, *values[1:])
    (result,) = program(devrt.device_put(values[0]), *values[1:])
    np.testing.assert_allclose(np.asarray(result), data["out0"], rtol=1e-4, atol=1e-5)


def test_a_program_on_one_device_takes_and_gives_arrays_on_it():
    device = devrt.devices("cpu")[3]
    program = load_program(ADD, devices=[device])
    x = devrt.device_put(np.arange(8, dtype=np.float32), device)
    (y,) = program(x)
    assert y.devices() == {device}
    assert program.mesh is None
    np.testing.assert_array_equal(np.asarray(y), 2 * np.arange(8))
    assert x.is_deleted()  # donated
    with pytest.raises(
        DeletedError, match=r"argument 0 of program '\w+', .* donated to an earlier"
    ):
        program(x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes 1 argument, and 0 were"),
        ([np.ones(4, np.float32)], r"is float32\[4\] and must be float32\[8\]"),
        ([np.ones(8)], r"is float64\[8\] and must be float32\[8\]"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        load_program(ADD)(*arguments)


def test_too_few_devices_and_meshes_that_do_not_fit_are_refused():
    code = (PROGRAMS / "gspmd_mlp.mlir").read_bytes()
    with pytest.raises(InvalidArgumentError, match="needs 4 devices"):
        load_program(code, devices=devrt.devices("cpu")[:2])
    line = Mesh(np.array(devrt.devices("cpu")[:4]), ("x",))
    with pytest.raises(InvalidArgumentError, match="cannot say"):
        load_program(code, mesh=line)


def test_python_s_numbers_and_lists_become_what_the_program_takes():
    add = load_program(
        "func.func @main(%a: tensor<2xf32>, %b: tensor<i8>) -> (tensor<2xf32>, tensor<i8>)"
        "{return %a, %b : tensor<2xf32>, tensor<i8>}"
    )
    pair, one = add([0.1, 2], 7)
    np.testing.assert_array_equal(pair, np.asarray([0.1, 2], np.float32))
    assert int(one) == 7
    with pytest.raises(InvalidArgumentError, match=r"argument 1 .* is 300 of type int, and int8"):
        add([1, 2], 300)
    with pytest.raises(InvalidTypeError, match=r"argument 0 .*: a value of type list"):
        add([[1], [2, 3]], 1)
    with pytest.raises(InvalidArgumentError, match="by position, and 'b' was given by name"):
        add([1, 2], b=1)
    with pytest.raises(InvalidArgumentError, match=r"argument 1 .* is None of type NoneType, and"):
        add([1, 2], None)


def test_arrays_of_one_device_are_checked_by_the_program_and_named_by_the_call():
    double = load_program(ADD.replace(" {tf.aliasing_output = 0 : i32}", ""))
    x = devrt.device_put(np.arange(8, dtype=np.float32))
    (y,) = double(x)
    (z,) = double(y)
    np.testing.assert_array_equal(z, 4 * np.arange(8))
    assert y.committed
    assert y.sharding is z.sharding is double.out_shardings[0]
    for wrong, words in (
        (devrt.device_put(np.arange(8)), r"is int64\[8\] and must be float32\[8\]"),
        (devrt.device_put(np.ones(8, np.float32), "pinned_host"), "must lie as"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            double(wrong)
    halves = NamedSharding(Mesh(np.array(devrt.devices("cpu")[:2]), ("x",)), P("x"))
    with pytest.raises(InvalidArgumentError, match=r"is float32\[16\] and must be float32\[8\]"):
        double(devrt.device_put(np.ones(16, np.float32), halves))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"mesh": 3}, "mesh must be a devrt Mesh or None, not of type int"),
        ({"client": "cpu"}, r"Client or None, not of type str\. Give devrt\.get_backend\('cpu'\)"),
        ({"devices": 3}, "devices must be a sequence of devices, not of type int"),
        ({"devices": [3]}, "devices must hold devices, and one is of type int"),
    ],
)
def test_what_is_no_place_for_a_program_is_refused(place, message):
    with pytest.raises(InvalidTypeError, match=message):
        load_program((PROGRAMS / "mlp.mlir").read_bytes(), **place)


def test_too_few_devices_are_reported_with_what_makes_more():
    code = (PROGRAMS / "gspmd_mlp.mlirbc").read_bytes()
    with (
        make_cpu_client(num_devices=1) as client,
        pytest.raises(InvalidArgumentError, match=r"DEVRT_NUM_CPU_DEVICES=4.* num_cpu_devices"),
    ):
        load_program(code, client)


def test_arrays_that_lie_there_are_passed_without_a_step_in_python(monkeypatch):
    text = ADD.replace(" {tf.aliasing_output = 0 : i32}", "")
    one, two = load_program(text), load_program(text.replace("add", "multiply"))
    device = devrt.devices("cpu")[0]
    x = np.arange(8, dtype=np.float32)
    named = devrt.device_put(x, SingleDeviceSharding(device))
    one(named)  # an equal sharding becomes the programs' own
    monkeypatch.setattr(type(one), "call_flat", None)
    for array in (devrt.device_put(x), devrt.device_put(x, device), named):
        (y,) = one(array)
        (z,) = two(y)
        np.testing.assert_array_equal(z, (x + x) ** 2)
        assert array.sharding is y.sharding is z.sharding is two.out_shardings[0]
        assert array.sharding == SingleDeviceSharding(device)


@pytest.mark.parametrize(
    "arguments",
    [(), (np.ones(8, np.float32),), (None,), (1, 2)],
    ids=["none", "host", "None", "two"],
)
def test_a_caller_of_arrays_takes_nothing_else(arguments):
    program = load_program(ADD)
    call = caller_of(program, devrt.Array)
    assert call(arguments) is None
    assert call(list(arguments)) is None


def caller_of(program, array_class, gives=1):
    rows = [(program.out_shardings[0], None, None)] * gives
    return program.executable.array_caller(array_class, program.in_shardings, [], rows, True, False)


def test_a_caller_of_arrays_takes_a_buffer_on_one_device():
    program = load_program(ADD)
    call, x = caller_of(program, devrt.Array), np.arange(8, dtype=np.float32)
    (made,) = call([devrt.device_put(x)._buffers[0]])
    np.testing.assert_array_equal(made, np.asarray(program(x)[0]))


def test_a_caller_of_arrays_makes_instances_of_a_class_with_slots():
    with pytest.raises((TypeError, AttributeError)):
        caller_of(load_program(ADD), object)
    with pytest.raises(ValueError, match="one row for each result"):
        caller_of(load_program(ADD), devrt.Array, gives=2)


def test_a_caller_of_arrays_is_for_several_devices_too():
    program = load_program((PROGRAMS / "gspmd_mlp.mlir").read_bytes())
    arguments = [
        devrt.device_put(np.ones(shape, dtype), sharding)
        for (shape, dtype), sharding in zip(program.in_avals, program.in_shardings, strict=True)
    ]
    shapes = [shape for shape, _ in program.out_avals]
    rows = [(s, n, None) for s, n in zip(program.out_shardings, shapes, strict=True)]
    call = program.executable.array_caller(
        devrt.Array, program.in_shardings, [], rows, False, False
    )
    found = call(arguments)
    assert [x.sharding for x in found] == list(program.out_shardings)
    assert not any(x.committed for x in found)
    for mine, expected in zip(found, program.call_flat(arguments), strict=True):
        np.testing.assert_array_equal(mine, expected)
    assert call(arguments[:-1]) is None
    assert call([*arguments[:-1], devrt.device_put(np.ones(3))]) is None


def test_a_program_runs_where_arrays_were_placed_on_request():
    program = load_program(ADD.replace(" {tf.aliasing_output = 0 : i32}", ""))
    first, second, third = devrt.devices("cpu")[:3]
    x = np.ones(8, np.float32)
    for device in (second, third, second, first):
        (y,) = program(devrt.device_put(x, device))
        assert y.devices() == {device}
        (z,) = program(y)
        assert z.devices() == {device}
    (y,) = program(x)
    assert y.devices() == {first}
    fixed = load_program(ADD, devices=[first])
    with pytest.raises(InvalidArgumentError, match=r"must lie as .*load_program\(\.\.\., devices"):
        fixed(devrt.device_put(x, second))


@pytest.mark.parametrize("is_executable", [False, True])
def test_a_program_is_loaded_on_the_default_device(is_executable):
    program = ADD
    if is_executable:
        program = load_program(ADD).executable.serialize()
    device = devrt.devices("cpu")[3]
    with devrt.default_device(device):
        program = load_program(program)
    (y,) = program(np.ones(8, np.float32))
    assert y.devices() == {device}


def test_arrays_on_several_devices_are_refused_by_a_program_of_one():
    two = load_program(
        "func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {return %a: tensor<f32>}"
    )
    first, second, third = devrt.devices("cpu")[:3]
    put = [devrt.device_put(np.float32(1), device) for device in (second, third)]
    with pytest.raises(InvalidArgumentError, match="must lie as"):
        two(*put)
    (y,) = two(put[0], devrt.device_put(np.float32(1)))  # the other was not placed on request
    assert y.devices() == {second}
    assert first in two(1, 2)[0].devices()


def test_a_program_by_itself_says_that_it_gives_a_list():
    program = load_program(ADD)
    assert (program.in_tree, program.out_tree) == (None, None)
    assert repr(program).endswith("gives=[*])")


@pytest.mark.parametrize(
    ("name", "words"), [("platform", r"client=devrt\.get_backend"), ("device", r"devices=\[")]
)
def test_places_under_other_names_are_refused_with_the_right_one(name, words):
    with pytest.raises(InvalidArgumentError, match=words):
        load_program(ADD, **{name: "cpu"})


def test_a_program_on_another_default_device_is_read_once(cpu, monkeypatch):
    import devrt.compiling.text

    read, found = devrt.compiling.text.read_text, []
    counted = lambda code: found.append(1) or read(code)  # noqa: E731
    monkeypatch.setattr(devrt.compiling.text, "read_text", counted)
    with devrt.default_device(cpu[1]):
        program = load_program(
            "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
        )
    assert program.executable.local_devices() == [cpu[1]]
    assert len(found) == 1
