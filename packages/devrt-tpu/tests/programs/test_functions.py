"""Programs that compilers do not survive are refused by their text, and no other one is."""

from pathlib import Path

import pytest

from devrt.compiling.text import read_text
from devrt.errors import InvalidArgumentError

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.mlir"))
ANY = "(%a: tensor<8xf32>) -> tensor<8xf32>"
CALLS = "{ %0 = func.call @NAME(%a) : (tensor<8xf32>) -> tensor<8xf32> return %0 : tensor<8xf32> }"
MAIN = f"func.func @main{ANY} {{ return %a : tensor<8xf32> }}"


def program(*functions):
    return "module {\n" + "\n".join(functions) + "\n}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (program("func.func private @main()"), "@main has no body"),
        (program("func.func private @f(tensor<8xf32>) -> tensor<8xf32>", MAIN), "@f has no body"),
        (program(MAIN, "func.func private @f(i32) -> (i32, f32) // {"), "@f has no body"),
        (
            program('func.func private @f(i32 {a.b = "{"}) attributes {c.d = "x}"}', MAIN),
            "@f has no body",
        ),
        (program(f"func.func @main{ANY} {CALLS.replace('NAME', 'main')}"), "@main calls itself"),
        (
            program(
                f"func.func private @f{ANY} {CALLS.replace('NAME', 'g')}",
                f"func.func private @g{ANY} {CALLS.replace('NAME', 'f')}",
                MAIN,
            ),
            "calls itself",
        ),
    ],
)
def test_what_ends_the_process_is_refused(xla_cpu, text, message):
    with pytest.raises(InvalidArgumentError, match=message):
        xla_cpu.compile_and_load(text)


@pytest.mark.parametrize(
    "text",
    [
        program(MAIN),
        program(MAIN.replace("tensor<8xf32> {", '(tensor<8xf32> {jax.result_info = "{("}) {')),
        program(MAIN.replace("> {", "> attributes {a.b = [1, 2], c.d = {e = 1}} {")),
        program(MAIN.replace("> {", "> // a comment {\n{")),
        program(
            f"func.func private @f{ANY} {CALLS.replace('NAME', 'g')}",
            f"func.func private @g{ANY} {{ return %a : tensor<8xf32> }}",
            f"func.func @main{ANY} {CALLS.replace('NAME', 'f')}",
        ),
        program('func.func @"a (b"() -> !stablehlo.token {', "}"),
        program("func.func @f() -> vector<[4]xf32> {", "}"),
        "func.func @main(",
        "func.func @main() ->",
        "func.func",
    ],
)
def test_others_are_left_to_the_compiler(text):
    assert read_text(text.encode()).problem() == ""


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_exported_programs_are_taken(path):
    assert read_text(path.read_bytes()).problem() == ""
