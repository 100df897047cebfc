"""Programs whose function takes or gives tuples: their elements are parameters and results."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from devrt import errors
from devrt_cpu._tuples import without_tuples

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")

PAIR = "tuple<tensor<2xf32>, tensor<3xf32>>"

TAKES = f"""func.func @main(%t: {PAIR}) -> tensor<2xf32> {{
  %0 = stablehlo.get_tuple_element %t[0] : ({PAIR}) -> tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  return %1 : tensor<2xf32> }}"""

GIVES = f"""func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> {PAIR} {{
  %0 = stablehlo.add %a, %a : tensor<2xf32>
  %1 = stablehlo.tuple %0, %b : {PAIR}
  return %1 : {PAIR} }}"""

NESTED = "tuple<tensor<2xf32>, tuple<tensor<3xf32>>>"

BOTH = f"""module @both {{
  func.func public @main(%t: {NESTED}, %q: tensor<2xf32>)
      -> ({PAIR}, tensor<2xf32> {{jax.result_info = "a>,"}}) {{
    %0 = stablehlo.get_tuple_element %t[0] : ({NESTED}) -> tensor<2xf32>
    %1 = stablehlo.get_tuple_element %t[1] : ({NESTED}) -> tuple<tensor<3xf32>>
    %2 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<3xf32>>) -> tensor<3xf32>
    %3 = stablehlo.add %0, %q : tensor<2xf32>
    %4 = stablehlo.tuple %3, %2 : {PAIR}
    return %4, %0 : {PAIR}, tensor<2xf32>
  }}
}}"""

TWO, THREE = np.array([1, 2], np.float32), np.array([3, 4, 5], np.float32)


@pytest.mark.parametrize("options", [{}, {"parameter_is_tupled_arguments": True}])
@pytest.mark.parametrize(
    ("program", "values", "wanted"),
    [
        (TAKES, (TWO, THREE), (TWO * 2,)),
        (GIVES, (TWO, THREE), (TWO * 2, THREE)),
        (BOTH, (TWO, THREE, TWO * 3), (TWO * 4, THREE, TWO)),
    ],
)
def test_elements_are_parameters_and_results(client, program, values, wanted, options):
    executable = client.compile_and_load(program, **options)
    assert [shape for shape, _ in executable.parameters] == [value.shape for value in values]
    assert [shape for shape, _ in executable.outputs] == [value.shape for value in wanted]
    results = executable.execute([client.buffer_from_pyval(value) for value in values])
    for result, expected in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(result), expected)
    again = client.deserialize_executable(executable.serialize())
    assert again.parameters == executable.parameters


def test_a_head_in_a_comment_is_none():
    head = "func.func @main(%a: tuple<tensor<2xf32>>) -> tensor<2xf32> { return }"
    plain = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    program = f"// was: {head}\n{plain}".encode()
    assert without_tuples(program) is program


def test_programs_without_tuples_are_left_as_they_are():
    program = b"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    assert without_tuples(program) is program
    inside = program.replace(b"{ return", b"{ // tuple<tensor<2xf32>>\n return")
    assert without_tuples(inside) is inside


def test_what_an_attribute_says_of_a_whole_tuple_is_refused(client):
    program = TAKES.replace(f"%t: {PAIR}", f"%t: {PAIR} {{mhlo.sharding = {chr(34)}x{chr(34)}}}")
    with pytest.raises(errors.UnimplementedError, match="%t is a tuple with attributes"):
        client.compile_and_load(program)


def test_the_compilers_lines_stay_those_of_the_program(client):
    program = BOTH.replace("stablehlo.add %0, %q", "stablehlo.nothing %0, %q")
    line = 1 + program[: program.index("stablehlo.nothing")].count("\n")
    with pytest.raises(errors.InvalidArgumentError, match=f":{line}:"):
        client.compile_and_load(program)


def test_what_the_plugin_would_end_the_process_on_is_refused():
    """As bytecode, in which nothing is rewritten: the same program, given past the front."""
    code = f"""
import devrt_cpu
from devrt import errors
from devrt_cpu import _engine, _ext
from devrt.compiling.options import CompileOptions
with devrt_cpu.make_cpu_client() as client:
    options = _engine._complete(client, b"", None, CompileOptions()).serialize()
    try:
        _ext._compile(client, _engine.find_library(), {TAKES.encode()!r}, "mlir", options)
    except errors.UnimplementedError as error:
        print("takes a tuple" in str(error))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_tuples_that_are_nested_too_deep_are_refused(client):
    deep = "tuple<" * 65 + "f32" + ">" * 65
    with pytest.raises(errors.UnimplementedError, match="nested deeper than 64"):
        client.compile_and_load(f"func.func @main(%a: {deep}) {{ return }}")


@pytest.mark.parametrize(
    "text",
    [
        "func.func @main(%a: tuple<f32>",
        "func.func @main(%a: tuple<f32>)",
        "func.func @main(%a: tuple<f32>) -> (",
        "func.func @main(%a: tuple<f32>) attributes {",
        "func.func @main(%a: tuple<f32>) {",
        "func.func @main(tuple<f32>) { return }",
        "func.func @main(%a: tuple<f32) { return }",
    ],
)
def test_a_program_that_is_cut_short_is_the_compilers_to_refuse(client, text):
    with pytest.raises(errors.DevrtError):
        client.compile_and_load(text)
