"""Compiling on the CPU client: programs, options, what an executable says of itself, its end."""

import gc
import os
import re
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from devrt import contract
from devrt.compiling import serialized
from devrt.compiling.options import CompileOptions
from devrt.errors import (
    ClosedError,
    InvalidArgumentError,
    InvalidTypeError,
    UnimplementedError,
)
from devrt_cpu import make_cpu_client
from support import python

pytestmark = pytest.mark.engine

PROGRAMS = Path(__file__).parents[1] / "programs"

ADD = """
module @add {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xi1>) {
    %0 = stablehlo.add %a, %b : tensor<8xf32>
    %1 = stablehlo.compare LT, %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    return %0, %1 : tensor<8xf32>, tensor<8xi1>
  }
}
"""

SHARDED = """
module @sharded attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> tensor<16xf32> {
    %i = stablehlo.iota dim = 0 : tensor<16xf32>
    %0 = stablehlo.add %a, %i : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
"""


@pytest.fixture
def pair(client):
    """Two arguments of ADD, and their host values."""
    values = np.arange(8, dtype=np.float32), np.full(8, 3, np.float32)
    return [client.buffer_from_pyval(value) for value in values], values


def test_a_program_runs(client, pair):
    arguments, (a, b) = pair
    executable = client.compile_and_load(ADD)
    total, less = executable.execute(arguments)
    np.testing.assert_array_equal(np.asarray(total), a + b)
    np.testing.assert_array_equal(np.asarray(less), a < b)
    assert total.device is client.local_devices()[0]
    assert not arguments[0].is_deleted()


def test_an_executable_describes_itself(client, cpu_library):
    executable = client.compile_and_load(ADD)
    assert isinstance(executable, contract.LoadedExecutable)
    assert executable.name == "add"
    assert executable.client is client
    assert executable.local_devices() == client.local_devices()[:1]
    assert (executable.num_replicas, executable.num_partitions) == (1, 1)
    assert executable.parameters == [((8,), np.dtype(np.float32))] * 2
    assert executable.outputs == [((8,), np.dtype(np.float32)), ((8,), np.dtype(bool))]
    if "cost_of_a_program" in {quirk.case for quirk in cpu_library.quirks}:
        with pytest.raises(UnimplementedError, match="GetCostAnalysis"):
            executable.cost_analysis()
    else:
        assert executable.cost_analysis()["flops"] >= 8
    assert executable.get_compiled_memory_stats()["argument_size_in_bytes"] == 64
    assert executable.fingerprint == client.compile_and_load(ADD).fingerprint
    assert executable.optimized_program()[1]
    assert executable.donated_parameters == []


def test_live_executables_come_and_go(client):
    assert client.live_executables() == []
    first = client.compile_and_load(ADD)
    second = client.compile(ADD.encode())
    assert [e.name for e in client.live_executables()] == ["add", "add"]
    first.delete()
    first.delete()
    assert first.is_deleted()
    assert len(client.live_executables()) == 1
    del second
    gc.collect()
    assert client.live_executables() == []


def test_a_closed_client_refuses_to_run_and_to_compile(pair, client):
    executable = client.compile_and_load(ADD)
    client.close()
    assert executable.is_deleted()
    with pytest.raises(ClosedError):
        executable.execute(pair[0])
    with pytest.raises(ClosedError):
        client.compile_and_load(ADD)


def test_the_compiler_s_own_program_reads_as_text(client):
    text = client.compile_and_load(ADD).get_hlo_text()
    assert text.startswith("HloModule add\n")
    assert re.search(r"^ENTRY %main\S* \(\S+: f32\[8\]\{0\}, \S+: f32\[8\]\{0\}\)", text, re.M)
    assert re.search(r"= pred\[8\]\{0\} compare\(%\S+, %\S+\), direction=LT", text)
    assert text.count("ROOT") == text.count("{\n") == text.count("\n}")


def test_the_text_of_a_loop_names_body_and_condition(client):
    from devrt.compiling.hlo_text import hlo_text

    loop = """func.func @main(%a: tensor<i32>) -> tensor<i32> {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %0 = stablehlo.while(%i = %a) : tensor<i32>
        cond { %c = stablehlo.constant dense<7> : tensor<i32>
          %t = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %t : tensor<i1> }
        do { %n = stablehlo.multiply %i, %i : tensor<i32>
          %m = stablehlo.add %n, %one : tensor<i32>
          stablehlo.return %m : tensor<i32> }
      return %0 : tensor<i32> }"""
    _, program = client.compile_and_load(loop).optimized_program()
    text = hlo_text(program)
    body, condition = re.search(r"while\(%\S+\), body=%(\S+), condition=%(\S+)", text).groups()
    assert f"\n%{body} (" in text
    assert f"\n%{condition} (" in text
    assert "constant(7)" in text
    with pytest.raises(InvalidArgumentError, match="no protobuf message"):
        hlo_text(program[: len(program) // 2])


def test_serialised_programs_load_again(client, pair):
    arguments, (a, b) = pair
    data = client.serialize_executable(client.compile_and_load(ADD))
    loaded = client.deserialize_executable(data)
    np.testing.assert_array_equal(np.asarray(loaded.execute(arguments)[0]), a + b)
    assert loaded.parameters == [((8,), np.dtype(np.float32))] * 2


@pytest.mark.parametrize("cut", [0, 1, 100, 1000])
def test_broken_serialised_programs_are_refused(client, cut):
    data = client.compile_and_load(ADD).serialize()
    with pytest.raises(InvalidArgumentError):
        client.deserialize_executable(data[:cut])
    with pytest.raises(InvalidArgumentError):
        client.deserialize_executable(b"\xff" * cut)


def test_changed_serialised_programs_are_refused_and_end_nothing(client):
    """The compiler's runtime reads them without a check: most changes end the process."""
    data = client.compile_and_load(ADD).serialize()
    random = np.random.default_rng(0)
    for _ in range(1000):
        changed = bytearray(data)
        for at in random.integers(0, len(data), random.integers(1, 4)):
            changed[at] ^= int(random.integers(1, 256))
        if changed != data:
            with pytest.raises(InvalidArgumentError, match="cannot be loaded here"):
                client.deserialize_executable(bytes(changed))


@pytest.mark.parametrize(("part", "match"), [("_compiler", "version"), ("_machine", "processor")])
def test_foreign_serialised_programs_are_refused(client, monkeypatch, part, match):
    data = client.compile_and_load(ADD).serialize()
    monkeypatch.setattr(serialized, part, lambda *_: b"x" * 32)
    with pytest.raises(InvalidArgumentError, match=match):
        client.deserialize_executable(data)
    with pytest.raises(InvalidArgumentError, match="no executable that devrt-cpu"):
        client.deserialize_executable(client.compile_and_load(ADD)._serialize())
    with pytest.raises(InvalidTypeError, match="of type int"):
        client.deserialize_executable(7)


def test_bytecode_that_is_newer_than_the_compiler_runs(client):
    code = (Path(__file__).parents[1] / "programs" / "top_k.mlirbc").read_bytes()
    assert b"composite_v2" in code
    x = client.buffer_from_pyval(np.array([3, 1, 4, 1, 5, 9], np.float32))
    values, places = client.compile_and_load(code).execute([x])
    assert np.asarray(values).tolist() == [9, 5, 4]
    assert np.asarray(places).tolist() == [5, 4, 2]


def test_devices_that_are_none_of_the_client_s_are_refused(client):
    with pytest.raises(InvalidArgumentError, match="another client's"):
        client.compile_and_load(ADD, make_cpu_client().devices())
    for wrong in (7, [0], [None], "cpu", client.devices()[0]):
        with pytest.raises(InvalidTypeError, match="devices must"):
            client.compile_and_load(ADD, wrong)


def test_what_the_plugin_throws_is_an_error_of_devrt(client, cpu_library):
    if cpu_library.wheel == "fastatomstruct-xla-cpu":
        pytest.skip("what it throws ends the process: its C++ runtime is its own")
    huge = "tensor<9999999999x9999999999x99xf32>"
    with pytest.raises(InvalidArgumentError, match="overflow"):
        client.compile_and_load(f"func.func @main(%a: {huge}) -> {huge} {{ return %a : {huge} }}")


def test_a_wrong_program_names_line_and_column(client):
    with pytest.raises(InvalidArgumentError, match=r":3:\d+: error: custom op 'nothing'"):
        client.compile_and_load("module {\n  func.func @main() {\n    nothing\n  }\n}")


@pytest.mark.parametrize(
    ("program", "error"),
    [("", InvalidArgumentError), (b" \n", InvalidArgumentError), (3, InvalidTypeError),
     (None, InvalidTypeError)],
)  # fmt: skip
def test_what_is_no_program_is_refused(client, program, error):
    with pytest.raises(error):
        client.compile_and_load(program)


def test_programs_that_buffers_cannot_feed_are_refused_by_name(client):
    token = (
        "func.func @main(%a: !stablehlo.token) -> !stablehlo.token { return %a : !stablehlo.token }"
    )
    with pytest.raises(UnimplementedError, match="takes parameter 0 of a type that no buffer has"):
        client.compile_and_load(token)


def test_unknown_custom_calls_are_refused_by_name(client):
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @nobody_knows_this(%a) {api_version = 4 : i32}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    with pytest.raises(UnimplementedError, match="nobody_knows_this"):
        client.compile_and_load(text)


@pytest.mark.parametrize(
    "line",
    [
        "%0 = stablehlo.bitcast_convert %a : (tensor<64xi1>) -> tensor<i64>",
        '%0 = "stablehlo.bitcast_convert"(%b) : (tensor<i64>) -> tensor<64xi1>',
    ],
)
def test_what_the_compiler_aborts_on_is_refused_with_its_line(client, line, cpu_quirks):
    if "bitcast_of_booleans" not in cpu_quirks:
        pytest.skip("this compiler takes it")
    quirk = cpu_quirks["bitcast_of_booleans"]
    with pytest.raises(UnimplementedError, match=f"line 2: {re.escape(str(quirk))}"):
        client.compile_and_load(f"module {{\n{line}\n}}")


@pytest.mark.parametrize("name", ["reads_booleans", "booleans_in_a_loop"])
def test_the_same_in_bytecode_is_refused(client, name, cpu_quirks):
    if "bitcast_of_booleans" not in cpu_quirks:
        pytest.skip("this compiler takes it")
    folder = Path(__file__).resolve().parents[3] / "devrt-core" / "tests" / "bytecode"
    quirk = re.escape(str(cpu_quirks["bitcast_of_booleans"]))
    with pytest.raises(UnimplementedError, match=f"the program's bytecode: {quirk}"):
        client.compile_and_load((folder / f"{name}.mlirbc").read_bytes())


@pytest.mark.parametrize(
    ("body", "problem"), [("", "has no body"), ("{ func.call @f() : () -> ()\n return }", "itself")]
)
def test_functions_that_the_compiler_does_not_survive_are_refused(client, body, problem):
    call = "func.func public @main() { func.call @f() : () -> ()\n return }"
    with pytest.raises(InvalidArgumentError, match=f"function @f .*{problem}"):
        client.compile_and_load(f"module {{\n{call}\nfunc.func private @f() {body}\n}}")


def test_comparisons_near_a_bitcast_are_not_refused(client):
    program = """func.func public @main(%a: tensor<8xf32>) -> (tensor<8xi32>, tensor<8xi1>) {
      %0 = stablehlo.bitcast_convert %a : (tensor<8xf32>) -> tensor<8xi32>
      %1 = stablehlo.compare LT, %0, %0 : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      return %0, %1 : tensor<8xi32>, tensor<8xi1> }"""
    assert client.compile_and_load(program).outputs[1][1] == np.bool_


def test_sharded_programs_run_on_all_devices(client):
    executable = client.compile_and_load(SHARDED)
    assert not executable.is_collective
    assert executable.parameters == [((8,), np.dtype(np.float32))]
    shards = [client.buffer_from_pyval(np.zeros(8, np.float32), d) for d in client.devices()]
    (results,) = executable.execute_sharded([shards])
    np.testing.assert_array_equal(np.concatenate(list(map(np.asarray, results))), np.arange(16))
    assert [r.device for r in results] == client.devices()


def test_devices_may_come_in_any_order(client):
    first, second = client.devices()
    executable = client.compile_and_load(SHARDED, [second, first])
    assert executable.local_devices() == [second, first]
    shards = [client.buffer_from_pyval(np.zeros(8, np.float32), d) for d in (second, first)]
    (results,) = executable.execute_sharded([shards])
    np.testing.assert_array_equal(np.concatenate(list(map(np.asarray, results))), np.arange(16))


def test_a_sharded_program_with_too_few_devices_is_refused(client):
    code = (PROGRAMS / "gspmd_mlp.mlirbc").read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"needs 4 devices .* and there are 2"):
        client.compile_and_load(code)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_partitions": 3}, "needs 3 devices"),
        ({"num_partitions": 0}, "num_partitions must be an int from 1"),
        ({"num_replicas": True}, "num_replicas must be an int from 1"),
        ({"nothing": 1}, "no compile option 'nothing'"),
        ({"compile_portable_executable": True}, "are bound to some. Leave it out"),
        ({"env_option_overrides": {"xla_\ud800": 1}}, "names without dashes"),
        ({"env_option_overrides": {"xla_dump_to": "\ud800"}}, "must be a string"),
        ({"use_spmd_partitioning": 1}, "True, False or None"),
        ({"device_assignment": [[7]]}, "device 7 is none of this process's"),
        ({"device_assignment": 3}, "rows of device ids"),
        ({"env_option_overrides": {"--xla_x": 1}}, "names without dashes"),
        ({"env_option_overrides": {"xla_no_such_flag": True}}, "xla_no_such_flag"),
    ],
)
def test_options_that_do_not_fit_are_refused(client, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        client.compile_and_load(ADD, **options)


def test_options_reach_the_compiler(client, pair):
    options = CompileOptions(env_option_overrides={"xla_cpu_enable_fast_math": False})
    executable = client.compile_and_load(ADD, compile_options=options)
    assert np.asarray(executable.execute(pair[0])[0])[1] == 4


def test_nothing_is_opened_before_the_first_compilation(cpu_library):
    code = (
        "import pathlib, sys, devrt_cpu\n"
        "path, package = sys.argv[1:]\n"
        "client = devrt_cpu.make_cpu_client(cpu_engine=path)\n"
        "client.buffer_from_pyval(1.0)\n"
        "assert client.platform_version\n"
        "maps = pathlib.Path('/proc/self/maps')\n"
        "assert path not in maps.read_text()\n"
        "client.compile_and_load('func.func @main() { return }')\n"
        "assert path in maps.read_text()\n"
        "assert package not in sys.modules\n"
    )
    path = os.path.realpath(cpu_library.path)
    python(code, path, Path(path).parent.name)


def test_clients_have_engines_of_their_own(pair, client):
    with make_cpu_client() as other:
        executable = other.compile_and_load(ADD)
        with pytest.raises(InvalidArgumentError, match="belongs to another client"):
            executable.execute(pair[0])
        with pytest.raises(InvalidArgumentError, match="another client"):
            client.serialize_executable(executable)


def test_a_deep_program_compiles_where_stacks_have_no_limit():
    """A C library gives threads 2 MiB then, and the compiler recurses along the program."""
    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        pytest.skip("this process may not lift the limit of its stack")
    program = """
        from devrt_cpu import make_cpu_client
        depth = 13
        lines = ["func.func private @f0(%a: tensor<4xf32>) -> tensor<4xf32> {",
                 "%0 = stablehlo.sine %a : tensor<4xf32>", "return %0 : tensor<4xf32> }"]
        for i in range(1, depth + 1):
            who = "public @main" if i == depth else f"private @f{i}"
            lines += [f"func.func {who}(%a: tensor<4xf32>) -> tensor<4xf32> {{",
                      f"%0 = func.call @f{i - 1}(%a) : (tensor<4xf32>) -> tensor<4xf32>",
                      f"%1 = func.call @f{i - 1}(%0) : (tensor<4xf32>) -> tensor<4xf32>",
                      "return %1 : tensor<4xf32> }"]
        make_cpu_client().compile_and_load("\\n".join(["module @deep {", *lines, "}"]))
        print("compiled")
    """
    # The limit at the start of a program is what counts.
    command = ["sh", "-c", 'ulimit -s unlimited && exec "$@"', "sh", sys.executable, "-c"]
    done = subprocess.run(
        [*command, textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "compiled\n"), done.stderr
