"""Programs through a real plugin: compiled, run, refused, serialised, on one device and several."""

import re
from pathlib import Path

import numpy as np
import pytest

import devrt_pjrt
from devrt.errors import (
    ClosedError,
    DeletedError,
    InvalidArgumentError,
    InvalidTypeError,
    UnimplementedError,
)

PROGRAMS = Path(__file__).parents[1] / "programs"
MANY = """
module @many {
  func.func public @main(%a: tensor<2x3xf32>)
      -> (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xi32>, tensor<f32>) {
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %1 = stablehlo.convert %a : (tensor<2x3xf32>) -> tensor<2x3xi32>
    %2 = stablehlo.constant dense<4.0> : tensor<f32>
    return %a, %0, %1, %2 : tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xi32>, tensor<f32>
  }
}
"""
REDUCE = """
module @total attributes {mhlo.num_replicas = 4 : i32} {
  func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}
      : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""
X = np.arange(8, dtype=np.float32)


def load(name):
    """Return a program's bytecode, its arguments and its results."""
    data = np.load(PROGRAMS / f"{name}.npz")
    count = {kind: sum(key.startswith(kind) for key in data.files) for kind in ("in", "out")}
    return (
        (PROGRAMS / f"{name}.mlirbc").read_bytes(),
        [data[f"in{i}"] for i in range(count["in"])],
        [data[f"out{i}"] for i in range(count["out"])],
    )


def close(got, wanted):
    """Compare a result with what was stored; bfloat16 is stored as bits."""
    if got.dtype != wanted.dtype:
        wanted = wanted.view(got.dtype)
    if got.dtype.kind in "iub":
        return np.array_equal(got, wanted)
    return np.allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["mlp", "attention_bf16", "control_flow", "top_k"])
def test_exported_programs_give_what_they_gave(xla_cpu, name):
    program, arguments, wanted = load(name)
    executable = xla_cpu.compile_and_load(program)
    specs = executable.parameter_specs()
    arguments = [
        a if a.dtype == spec.dtype else a.view(spec.dtype)
        for a, spec in zip(arguments, specs, strict=True)
    ]
    made = executable.execute([xla_cpu.buffer_from_pyval(a) for a in arguments])
    assert [buffer.shape for buffer in made] == [w.shape for w in wanted]
    assert all(close(np.asarray(b), w) for b, w in zip(made, wanted, strict=True))


def test_text_and_bytes_are_taken_alike(xla_cpu):
    text = (PROGRAMS / "mlp.mlir").read_text()
    prints = {xla_cpu.compile_and_load(p).fingerprint for p in (text, text.encode())}
    assert len(prints) == 1


def split(array, shape, devices):
    """Return an array's blocks of a shape, one for each device, along the dimension that is cut."""
    axes = [at for at, (n, m) in enumerate(zip(array.shape, shape, strict=True)) if n != m]
    if not axes:
        return [array] * devices
    parts = np.split(array, array.shape[axes[0]] // shape[axes[0]], axes[0])
    if len(axes) > 1:
        parts = [q for p in parts for q in np.split(p, p.shape[axes[1]] // shape[axes[1]], axes[1])]
    return parts


def test_a_data_parallel_step_over_four_devices(xla_cpu):
    program, arguments, wanted = load("shard_map_dp")
    devices = xla_cpu.devices()[:4]
    executable = xla_cpu.compile_and_load(program, devices)
    assert executable.local_devices() == devices
    assert len(executable.executable.facts.parameter_shardings) == len(arguments)
    shards = [
        [xla_cpu.buffer_from_pyval(np.ascontiguousarray(part), device)
         for part, device in zip(split(a, spec.shape, 4), devices, strict=True)]
        for a, spec in zip(arguments, executable.parameter_specs(), strict=True)
    ]  # fmt: skip
    made = executable.execute_sharded(shards)
    for outputs, want in zip(made, wanted, strict=True):
        assert [buffer.device for buffer in outputs] == devices
        assert all(close(np.asarray(buffer), want) for buffer in outputs)
    # The order of the buffers does not count, their devices do.
    again = executable.execute_sharded([part[::-1] for part in shards])
    assert np.array_equal(np.asarray(again[0][0]), np.asarray(made[0][0]))


def test_devices_that_wait_for_each_other_are_started_together(xla_cpu):
    executable = xla_cpu.compile_and_load(REDUCE)
    assert not executable._runner._one_by_one
    shards = [
        xla_cpu.buffer_from_pyval(np.full(2, i, np.float32), device)
        for i, device in enumerate(executable.local_devices())
    ]
    (made,) = executable.execute_sharded([shards])
    assert [np.asarray(buffer).tolist() for buffer in made] == [[6, 6]] * 4


@pytest.mark.parametrize("is_one_by_one", [True, False])
def test_devices_that_do_not_wait_give_the_same_either_way(
    xla_cpu, add_everywhere, is_one_by_one, monkeypatch
):
    runner = add_everywhere._runner
    takes_apart = xla_cpu.connection.library.version <= (0, 106)
    assert runner._one_by_one is takes_apart
    if is_one_by_one and not takes_apart:
        pytest.skip("this library begins a program once all its shards are there")
    monkeypatch.setattr(runner, "_one_by_one", is_one_by_one)
    devices = xla_cpu.devices()
    shards = [xla_cpu.buffer_from_pyval(X + i, d) for i, d in enumerate(devices)]
    (made,) = add_everywhere.execute_sharded([shards, shards])
    for i, buffer in enumerate(made):
        assert buffer.device is devices[i]
        assert buffer.memory is devices[i].default_memory()
        assert np.asarray(buffer).tolist() == (2 * (X + i)).tolist()


@pytest.fixture(scope="module")
def add_everywhere(xla_cpu, add_text):
    return xla_cpu.compile_and_load(add_text, xla_cpu.devices())


def test_a_device_assignment_is_followed(xla_cpu, add_text):
    order = [xla_cpu.devices()[i] for i in (3, 1)]
    executable = xla_cpu.compile_and_load(add_text, order, num_replicas=2)
    assert executable.local_devices() == order
    (one,) = xla_cpu.compile_and_load(add_text, [order[0]]).local_devices()
    assert one is order[0]


def test_every_result_is_what_the_program_says(xla_cpu):
    executable = xla_cpu.compile_and_load(MANY)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    same, turned, whole, four = executable.execute([xla_cpu.buffer_from_pyval(array)])
    assert np.array_equal(np.asarray(same), array)
    assert np.array_equal(np.asarray(turned), array.T)
    assert np.array_equal(np.asarray(whole), array.astype(np.int32))
    assert np.asarray(four) == 4
    assert [str(spec) for spec in executable.output_specs()] == [
        "float32[2,3]",
        "float32[3,2]",
        "int32[2,3]",
        "float32[]",
    ]


def test_a_result_in_another_order_is_read_in_row_major(xla_cpu):
    text = MANY.replace(
        "tensor<3x2xf32>, tensor<2x3xi32>, tensor<f32>) {",
        'tensor<3x2xf32> {mhlo.layout_mode = "{0,1}"}, tensor<2x3xi32>, tensor<f32>) {',
    )
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    turned = xla_cpu.compile_and_load(text).execute([xla_cpu.buffer_from_pyval(array)])[1]
    assert np.array_equal(np.asarray(turned), array.T)


class TestRefusals:
    def refused(self, executable, arguments, message):
        with pytest.raises((InvalidArgumentError, DeletedError), match=message):
            executable.execute(arguments)

    def test_arguments_that_do_not_fit(self, xla_cpu, add):
        good = xla_cpu.buffer_from_pyval(X)
        elsewhere = xla_cpu.buffer_from_pyval(X, xla_cpu.devices()[1])
        self.refused(add, [good], r"takes 2 argument\(s\), and got 1")
        self.refused(add, [good] * 3, "and got 3")
        self.refused(add, [good, X], "argument 1 .* is of type ndarray")
        self.refused(add, [good, None], "argument 1 .* is of type NoneType")
        self.refused(add, [good, elsewhere], "argument 1 .* lies on xla_cpu_tests:1")
        wrong = xla_cpu.buffer_from_pyval(X.astype(np.int32))
        self.refused(add, [wrong, good], r"argument 0 .* must be float32\[8\], and is int32\[8\]")
        wrong = xla_cpu.buffer_from_pyval(X.reshape(2, 4))
        self.refused(add, [good, wrong], r"and is float32\[2,4\]")
        gone = xla_cpu.buffer_from_pyval(X)
        gone.delete()
        self.refused(add, [good, gone], "was deleted or donated")
        assert np.asarray(add.execute([good, good])[0])[7] == 14

    def test_a_shard_that_does_not_fit_leaves_the_client_whole(
        self, xla_cpu, add_everywhere, monkeypatch
    ):
        devices = xla_cpu.devices()
        good = [xla_cpu.buffer_from_pyval(X, d) for d in devices]
        wrong = [*good[:-1], xla_cpu.buffer_from_pyval(X[:4], devices[-1])]
        gone = [*good[:-1], xla_cpu.buffer_from_pyval(X, devices[-1])]
        gone[-1].delete()
        for bad in (wrong, gone, good[:-1], good[:-1] + good[:1], X, [None] * 8):
            with pytest.raises((InvalidArgumentError, DeletedError)):
                add_everywhere.execute_sharded([good, bad])
        with pytest.raises(InvalidArgumentError, match="runs on 8 devices"):
            add_everywhere.execute([good[0], good[0]])
        # One failed call would make every later one hang.
        monkeypatch.setattr(add_everywhere._runner, "_one_by_one", False)
        (made,) = add_everywhere.execute_sharded([good, good])
        assert np.asarray(made[7])[1] == 2

    @pytest.mark.parametrize(
        "program", ["", "garbage", b"ML\xefRjunk", b"\0\1\2func", "module { func.func @main( }"]
    )
    def test_what_is_no_program(self, xla_cpu, program):
        with pytest.raises(InvalidArgumentError):
            xla_cpu.compile_and_load(program)

    def test_a_mistake_in_a_program_is_reported_with_its_place(self, xla_cpu, add, add_text):
        with pytest.raises(InvalidArgumentError, match=r"4:\d+"):
            xla_cpu.compile_and_load(add_text.replace("stablehlo.add", "stablehlo.nope"))

    @pytest.mark.parametrize("program", [None, 3, ["module"]])
    def test_a_program_of_another_type(self, xla_cpu, program):
        with pytest.raises(InvalidTypeError, match="a program is StableHLO"):
            xla_cpu.compile_and_load(program)

    def test_devices_that_do_not_fit(self, xla_cpu, fake, add_text):
        device = xla_cpu.devices()[0]
        for devices in ([], [device, device], ["x"], [None]):
            with pytest.raises(InvalidArgumentError, match="compile_and_load failed"):
                xla_cpu.compile_and_load(add_text, devices)
        with pytest.raises(InvalidArgumentError, match="needs 9 devices"):
            xla_cpu.compile_and_load(add_text, num_partitions=9)
        with pytest.raises(InvalidArgumentError, match=r"needs 4 devices .*, and 2 were named"):
            xla_cpu.compile_and_load(REDUCE, xla_cpu.devices()[:2])

    def test_bytes_that_are_no_executable(self, xla_cpu, add):
        data = xla_cpu.serialize_executable(add)
        for bad in (data[: len(data) // 2], b"x" * 100, data[1:]):
            with pytest.raises(Exception, match=r"DeserializeAndLoad|damaged") as caught:
                xla_cpu.deserialize_executable(bad)
            assert hasattr(caught.value, "code")
        with pytest.raises(InvalidArgumentError, match="no bytes"):
            xla_cpu.deserialize_executable(b"")
        for bad in (None, "text"):
            with pytest.raises(InvalidTypeError):
                xla_cpu.deserialize_executable(bad)


class TestLife:
    def test_an_executable_that_was_deleted(self, xla_cpu, add_text):
        executable = xla_cpu.compile_and_load(add_text)
        buffer = xla_cpu.buffer_from_pyval(X)
        assert executable in xla_cpu.live_executables()
        executable.delete()
        executable.delete()
        assert executable.is_deleted()
        assert executable not in xla_cpu.live_executables()
        with pytest.raises(DeletedError, match="program 'add' was deleted"):
            executable.execute([buffer, buffer])

    def test_an_executable_of_a_client_that_was_closed(self, xla_cpu_library, add_text):
        client = devrt_pjrt.make_client(devrt_pjrt.library_for("closed", xla_cpu_library), "closed")
        executable, buffer = client.compile_and_load(add_text), client.buffer_from_pyval(X)
        client.close()
        client.close()
        assert executable.is_deleted()
        assert buffer.is_deleted()
        for use in (
            lambda: executable.execute([buffer, buffer]),
            lambda: client.compile_and_load(add_text),
            lambda: client.buffer_from_pyval(X),
            buffer.block_until_ready,
            executable.serialize,
            lambda: executable.fingerprint,
            executable.memory_analysis,
            client.topology,
        ):
            with pytest.raises(ClosedError):
                use()
        assert "closed" in repr(client)
        assert "deleted" in repr(executable)

    def test_what_is_left_of_an_executable_that_is_gone(self, xla_cpu, add_text):
        loaded = xla_cpu.compile_and_load(add_text)
        left = loaded.executable
        del loaded
        assert left.name == "add"
        with pytest.raises(DeletedError, match="its loaded executable is gone"):
            _ = left.fingerprint

    def test_an_executable_goes_through_bytes(self, xla_cpu, add):
        data = add.serialize()
        again = xla_cpu.deserialize_executable(data)
        buffer = xla_cpu.buffer_from_pyval(X)
        assert np.asarray(again.execute([buffer, buffer])[0]).tolist() == (2 * X).tolist()
        assert again.name == add.name == "add"
        wrong = xla_cpu.buffer_from_pyval(X.astype(np.int32))
        with pytest.raises(InvalidArgumentError, match="must be"):
            again.execute([wrong, buffer])

    def test_a_portable_executable_runs_where_its_arguments_are(self, xla_cpu, add_text):
        executable = xla_cpu.compile_and_load(add_text, compile_portable_executable=True)
        for device in xla_cpu.devices():
            buffer = xla_cpu.buffer_from_pyval(X, device)
            (made,) = executable.execute([buffer, buffer])
            assert made.device is device
            assert np.asarray(made)[3] == 6
        with pytest.raises(InvalidArgumentError, match="is portable"):
            executable.execute_sharded([[buffer], [buffer]])

    def test_figures_are_reported(self, xla_cpu, add, cpu_library):
        memory = add.memory_analysis()
        assert memory.argument_size_in_bytes == 64
        assert memory.output_size_in_bytes == 32
        if "cost_of_a_program" in {quirk.case for quirk in cpu_library.quirks}:
            with pytest.raises(UnimplementedError, match="GetCostAnalysis"):
                add.cost_analysis()
        else:
            assert add.cost_analysis()["flops"] == 8
        form, data = add.optimized_program()
        assert form == "hlo_with_config"
        assert b"add" in data
        assert add.fingerprint
        assert (add.executable.num_replicas, add.executable.num_partitions) == (1, 1)


BYTECODE = Path(__file__).resolve().parents[3] / "devrt-core" / "tests" / "bytecode"


def test_what_a_compiler_aborts_on_is_refused_with_its_line(xla_cpu, cpu_quirks):
    if "bitcast_of_booleans" not in cpu_quirks:
        pytest.skip("this compiler takes it")
    quirk = cpu_quirks["bitcast_of_booleans"]
    line = "%0 = stablehlo.bitcast_convert %a : (tensor<64xi1>) -> tensor<i64>"
    with pytest.raises(UnimplementedError, match=f"line 2: {re.escape(str(quirk))}"):
        xla_cpu.compile_and_load(f"module {{\n{line}\nfunc }}")


@pytest.mark.parametrize(
    "name", ["reads_booleans", "makes_booleans", "booleans_in_a_loop", "booleans_not_portable"]
)
def test_it_is_refused_in_bytecode_too(xla_cpu, name, cpu_quirks):
    if "bitcast_of_booleans" not in cpu_quirks:
        pytest.skip("this compiler takes it")
    quirk = re.escape(str(cpu_quirks["bitcast_of_booleans"]))
    with pytest.raises(UnimplementedError, match=quirk):
        xla_cpu.compile_and_load((BYTECODE / f"{name}.mlirbc").read_bytes())
    for other in ("nearby", "nearby_in_a_loop", "nearby_not_portable"):
        xla_cpu.compile_and_load((BYTECODE / f"{other}.mlirbc").read_bytes())


def test_a_buffer_of_another_client_is_named_as_such(add, xla_cpu, xla_cpu_library):
    """Devices of two clients have the same names."""
    library = devrt_pjrt.library_for("another", xla_cpu_library)
    with devrt_pjrt.make_client(library, "another", {"cpu_device_count": 1}) as other:
        ours, theirs = (
            c.buffer_from_pyval(np.ones(8, np.float32), c.devices()[0]) for c in (xla_cpu, other)
        )
        for operation, call in (
            ("execute", lambda: add.execute([ours, theirs])),
            ("execute_sharded", lambda: add.execute_sharded([[ours], [theirs]])),
        ):
            with pytest.raises(InvalidArgumentError, match=r"argument 1 of .* another client's"):
                call()
            with pytest.raises(InvalidArgumentError, match=f"^{operation} failed: "):
                call()
