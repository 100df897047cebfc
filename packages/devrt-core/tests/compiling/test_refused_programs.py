"""What to do about a refused program, from the words that compilers were seen to use."""

from pathlib import Path

import pytest

from devrt.compiling import Program
from devrt.compiling.mlir_bytecode import Bytecode
from devrt.compiling.mlir_walk import Walk
from devrt.compiling.refusals import check, compile_explained, explain
from devrt.errors import InternalError, InvalidArgumentError, StatusCode, UnimplementedError

TEXT, BYTECODE = Program(b"func.func @main()"), Program(b"ML\xefR...")
GUESS = (
    "\n<unknown>:0: error: Failed to parse using StableHLO v1.13.3, this could indicate forward "
    "incompatibility, >12w old unsupported plugin, or worse.\n"
)
YOUNG = (
    "error: unregistered operation 'vhlo.composite_v2' found in dialect ('vhlo')\n"
    "note: in bytecode version 6 produced by: StableHLO_v1.15.0"
)


def test_nothing_is_guessed_of_text():
    output = "-:2:7: error: custom op 'stablehlo.addd' is unknown"
    assert explain(output + GUESS, TEXT) == output


def test_the_line_that_a_message_is_about_is_shown():
    program = Program(b"func.func @main() {\n  %0 = stablehlo.abs %nope : tensor<f32>\n}")
    reported = "-:2:22: error: use of undeclared SSA value name"
    assert explain(reported, program) == (
        f"{reported}\nLine 2, at '%nope': %0 = stablehlo.abs %nope : tensor<f32>"
    )


@pytest.mark.parametrize("place", ["3:1", "1:99", "0:1", "2:0"])
def test_a_place_that_is_not_there_is_not_shown(place):
    program = Program(b"func.func @main() {\n}")
    assert explain(f"-:{place}: error: no", program) == f"-:{place}: error: no"


def test_what_is_no_stablehlo_at_all_is_called_that():
    reported = explain(
        "-:1:1: error: custom op 'import' is unknown", Program(b"import jax  # func")
    )
    assert "Line 1, at 'import': import jax" in reported
    assert reported.endswith(
        "Is it StableHLO? Its operations have names such as stablehlo.add or func.func."
    )


def test_bytecode_of_a_later_version_is_reported_with_both_versions():
    reported = explain(YOUNG + GUESS, BYTECODE)
    assert reported.startswith(YOUNG)
    assert "up to 1.13.3, and the program's bytecode was written with 1.15.0." in reported


def test_bytecode_that_is_wrong_in_another_way_is_not_called_too_young():
    assert "reads StableHLO up to" not in explain("error: expected a return" + GUESS, BYTECODE)


@pytest.mark.parametrize(
    ("expected", "advice"),
    [
        ("error: 'stablehlo.dynamic_broadcast_in_dim' op can't be translated to XLA HLO", "sizes"),
        ("error: 'stablehlo.real_dynamic_slice' op can't be translated to XLA HLO", "sizes"),
    ],
)
def test_advice_comes_last(expected, advice):
    lines = explain(expected, TEXT).splitlines()
    assert lines[0] == expected
    assert advice in lines[-1]


def test_other_words_stay_what_they_are():
    assert explain("Shape mismatch\n", TEXT) == "Shape mismatch"


PROGRAMS = Path(__file__).parents[1] / "bytecode"
CPU_PROGRAMS = Path(__file__).parents[3] / "devrt-cpu" / "tests" / "programs"


def read(name, folder=PROGRAMS):
    return Program.of((folder / f"{name}.mlirbc").read_bytes())


def test_what_an_older_compiler_lacks_is_renamed_and_compiled_again():
    program = read("top_k", CPU_PROGRAMS)
    given = []

    def compile(code):
        given.append(code)
        if b"\0composite_v2\0" in code:
            raise InternalError(YOUNG, code=StatusCode.UNKNOWN)
        return "made"

    assert compile_explained(program, compile) == "made"
    older = given[1]
    assert older.replace(b"composite_v1", b"composite_v2") == program == given[0]


@pytest.mark.parametrize("program", [TEXT, BYTECODE])
def test_other_refusals_are_explained(program):
    def refuse(code):
        raise InternalError("'vhlo.composite_v2'" + GUESS, code=StatusCode.UNKNOWN, operation="x")

    with pytest.raises(InvalidArgumentError, match="composite_v2") as caught:
        compile_explained(program, refuse)
    assert (caught.value.code, caught.value.operation) == (StatusCode.UNKNOWN, "x")


def test_failures_that_are_no_refusals_stay_as_they_are():
    def fail(code):
        raise UnimplementedError("no custom call")

    with pytest.raises(UnimplementedError, match="no custom call"):
        compile_explained(TEXT, fail)


TUPLE = "tuple<tensor<2xf32>, tensor<3xf32>>"


@pytest.mark.parametrize("form", [".mlirbc", "_not_portable.mlirbc", "_older.mlirbc"])
@pytest.mark.parametrize("name", ["takes_tuple", "gives_tuple"])
def test_tuples_of_the_function_that_runs_are_refused_in_bytecode(name, form):
    program = Program.of((PROGRAMS / f"{name}{form}").read_bytes())
    with pytest.raises(UnimplementedError, match=r"bytecode: function @main takes or gives a tup"):
        check(program, "compile")


@pytest.mark.parametrize("form", [".mlir", "_generic.mlir"])
@pytest.mark.parametrize("name", ["takes_tuple", "gives_tuple"])
def test_tuples_of_the_function_that_runs_are_refused_with_the_line(name, form):
    program = Program.of((PROGRAMS / f"{name}{form}").read_bytes())
    with pytest.raises(UnimplementedError, match=r"line 2: function @main takes or gives a tuple"):
        check(program, "compile")


@pytest.mark.parametrize(
    "head",
    [
        f"(%a: i32,\n %b: {TUPLE}) -> i32",
        f"(%a: i32) -> (i32, {TUPLE} {{a.b}})",
        f"(i32) -> // why\n {TUPLE}",
        "(%a: !pair)",
        "() -> !same",
    ],
)
def test_a_tuple_by_any_name_is_refused(head):
    text = f"!pair = {TUPLE}\n!same = !pair\nfunc.func public @main{head} {{ return }}"
    with pytest.raises(UnimplementedError, match=r"line 3: function @main takes or gives a tuple"):
        check(Program.of(text), "compile")


@pytest.mark.parametrize(
    "text",
    [
        f"func.func private @f(%a: {TUPLE}) {{ return }} func.func @main() {{ return }}",
        f"// func.func @main(%a: {TUPLE}) {{ return }}\nfunc.func @main() {{ return }}",
        f"!pair = {TUPLE} func.func @main(%a: !token, %b: !stablehlo.token) {{ return }}",
        f'func.func @main(%a: i32 {{a.b = "{TUPLE}"}}) -> i32 {{ return %a : i32 }}',
        f"""module {{ module @inner {{ func.func @main(%a: {TUPLE}) {{ return }} }}
          func.func @main() {{ return }} }}""",
    ],
)
def test_tuples_that_no_call_takes_or_gives_are_none(text):
    check(Program.of(text), "compile")


@pytest.mark.parametrize(
    "name", ["tuple_within.mlir", "tuple_within_generic.mlir", "tuple_within.mlirbc"]
)
def test_tuples_within_a_program_are_taken(name):
    check(Program.of((PROGRAMS / name).read_bytes()), "compile")


FED = """func.func @main(%a: tensor<i32>) -> tensor<i32> {{
  %t = stablehlo.create_token : !stablehlo.token
  {}
  return %a : tensor<i32> }}"""


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('%0 = "stablehlo.outfeed"(%a, %t) : () -> ()', "stablehlo.outfeed"),
        ('%0 = "stablehlo.outfeed" // comment\n  (%a, %t)', "stablehlo.outfeed"),
        ('%0 = "stablehlo.\\69nfeed"(%t) {infeed_config = ""}', "stablehlo.infeed"),
        ("%0:2 = stablehlo.infeed %t", "stablehlo.infeed"),
        ("%0:2=stablehlo.infeed %t", "stablehlo.infeed"),
        ('%0:2 = "mhlo.infeed"(%t)', "mhlo.infeed"),
        ('call @loc(%a) %0:2 = "stablehlo.infeed"(%t)', "stablehlo.infeed"),
        ('%0 = stablehlo.abs %a loc("a") %1 = "stablehlo.infeed"(%t)', "stablehlo.infeed"),
        ('%0:2 = "vhlo.infeed_v1"(%t)', "vhlo.infeed"),
    ],
)
def test_a_program_that_waits_for_the_host_is_refused_with_the_line(line, name):
    with pytest.raises(UnimplementedError, match=f"line 3: {name} exchanges data") as caught:
        check(Program.of(FED.format(line)), "compile")
    assert caught.value.operation == "compile"


@pytest.mark.parametrize(
    "line",
    [
        "// stablehlo.infeed",
        "%0 = stablehlo.custom_call @stablehlo.infeed()",
        '%0 = stablehlo.add %a, %a {b = "stablehlo.infeed"} : tensor<i32> loc("stablehlo.infeed")',
        '%0 = stablehlo.add %a, %a : tensor<i32> loc("stablehlo.infeed"("f.py":1:2))',
        "%stablehlo.infeed = stablehlo.infeed_like %a",
        '%0 = stablehlo.abs %a : tensor<i32> loc(fused["stablehlo.infeed"("f.py":1:2), "b"])',
        '%0 = stablehlo.abs %a : tensor<i32> loc(callsite("stablehlo.infeed"("f") at "g"))',
        '%0 = stablehlo.abs %a : tensor<i32> loc( // why\n "stablehlo.infeed"("f.py":1:2))',
        '%0 = stablehlo.abs %a : tensor<i32> loc ("stablehlo.infeed"("f.py":1:2))',
        "%0 = stablehlo.abs %a {stablehlo.infeed = 1 : i32, stablehlo.outfeed} : tensor<i32>",
        '{-# dialect_resources: { builtin: { stablehlo.infeed: "0x04" } } #-}',
    ],
)
def test_the_words_alone_are_no_reason(line):
    check(Program.of(FED.format(line)), "compile")


@pytest.mark.parametrize("name", ["infeed", "outfeed"])
@pytest.mark.parametrize("form", ["", "_not_portable"])
def test_bytecode_that_waits_for_the_host_is_refused(name, form):
    with pytest.raises(UnimplementedError, match=f"bytecode: stablehlo.{name} exchanges"):
        check(read(f"{name}{form}"), "compile")
    check(read(f"named_infeed{form}"), "compile")


def portable_recursion():
    """Return a program in which main calls itself: the last of the properties is the callee."""
    code = (PROGRAMS / "named_infeed.mlirbc").read_bytes()
    assert code.endswith(b"\x03%")  # the name of the function that it calls
    return code, code[:-1] + b"-"


def plain_recursion():
    """Return the same in MLIR's plain bytecode, with another name in the symbol of the call."""
    code = (PROGRAMS / "named_infeed_not_portable.mlirbc").read_bytes()
    at = code.index(b"\x09\x03")  # a symbol, and its name
    main = next(i for i in range(99) if Bytecode(code).texts(i) == [b"main"])
    return code, code[: at + 1] + bytes([main << 1 | 1]) + code[at + 2 :]


@pytest.mark.parametrize("make", [portable_recursion, plain_recursion])
def test_functions_of_bytecode_that_call_themselves_are_refused(make):
    plain, recursive = make()
    check(Program.of(plain), "compile")
    with pytest.raises(InvalidArgumentError, match="@main calls itself"):
        check(Program.of(recursive), "compile")


def section(kind, data):
    return bytes([kind, len(data) << 1 | 1]) + data


@pytest.mark.parametrize("name", ["infeed", "outfeed"])
def test_bytecode_of_the_older_dialect_that_waits_for_the_host_is_refused(name):
    strings = [b"mhlo\0", name.encode() + b"\0"]
    lengths = bytes(len(each) << 1 | 1 for each in reversed(strings))
    code = b"ML\xefR\x07name\0" + b"".join(
        [
            section(0, b"\x05" + lengths + b"".join(strings)),
            section(1, b"\x03\x01\x01\x03\x03"),
            section(2, b""),
            section(3, b"\x01\x01"),
            section(4, b"\x01"),
        ]
    )
    with pytest.raises(UnimplementedError, match=f"bytecode: mhlo.{name} exchanges"):
        check(Program.of(code), "compile")


@pytest.mark.parametrize("name", ["named_infeed", "named_infeed_not_portable"])
def test_regions_that_share_a_section_are_walked(name):
    seen = []

    class Names(Walk):
        def enter(self, operation):
            seen.append(operation.name)

    Names(Bytecode(read(name))).run()
    assert len(seen) > 5
