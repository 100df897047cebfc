"""What to do about a refused program, from the words that compilers were seen to use."""

import contextlib
import random
from pathlib import Path

import pytest

from devrt.compiling.bytecode_types import _Walk, has_six_bit_floats, makes_or_reads_booleans
from devrt.compiling.refusals import check, check_for_host, explain
from devrt.compiling.stablehlo import _Bytecode, module_facts, operations
from devrt.errors import InvalidArgumentError, UnimplementedError

BYTECODE = b"ML\xefR..."
GUESS = (
    "\n<unknown>:0: error: Failed to parse using StableHLO v1.13.3, this could indicate forward "
    "incompatibility, >12w old unsupported plugin, or worse.\n"
)
YOUNG = (
    "error: unregistered operation 'vhlo.composite_v2' found in dialect ('vhlo')\n"
    "note: in bytecode version 6 produced by: StableHLO_v1.15.0"
)


def test_nothing_is_guessed_of_text():
    said = "-:2:7: error: custom op 'stablehlo.addd' is unknown"
    assert explain(said + GUESS, b"func.func @main()") == said


def test_bytecode_of_a_later_version_is_told_with_both_versions():
    told = explain(YOUNG + GUESS, BYTECODE)
    assert told.startswith(YOUNG)
    assert "up to 1.13.3, and the program's bytecode was written with 1.15.0." in told


def test_bytecode_that_is_wrong_in_another_way_is_not_called_too_young():
    assert "reads StableHLO up to" not in explain("error: expected a return" + GUESS, BYTECODE)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("error: 'stablehlo.dynamic_broadcast_in_dim' op can't be translated to XLA HLO", "sizes"),
        ("error: 'stablehlo.real_dynamic_slice' op can't be translated to XLA HLO", "sizes"),
        ("error: UNIMPLEMENTED: Only dense elements attr are supported", "dense_resource"),
    ],
)
def test_advice_comes_last(said, advice):
    lines = explain(said, b"module {}").splitlines()
    assert lines[0] == said
    assert advice in lines[-1]


def test_other_words_stay_what_they_are():
    assert explain("Shape mismatch\n", b"module {}") == "Shape mismatch"


PROGRAMS = Path(__file__).parents[1] / "bytecode"
LACKING = {
    "reads_booleans": "bitcast_convert of booleans",
    "makes_booleans": "bitcast_convert of booleans",
    "booleans_in_a_loop": "bitcast_convert of booleans",
    "booleans_not_portable": "bitcast_convert of booleans",
    "f6e2m3fn": "6-bit floating-point",
    "f6e3m2fn": "6-bit floating-point",
}


def test_text_that_the_compiler_for_the_host_aborts_on_is_refused():
    lines = {
        "6-bit": "%0 = stablehlo.constant dense<1.0> : tensor<2xf6E3M2FN>",
        "quantised": "%0 = stablehlo.abs %a : tensor<2x!quant.uniform<i8:f32, 1.0>>",
        "bitcast_convert of booleans": "%0 = stablehlo.bitcast_convert %a : (tensor<i8>) -> "
        "tensor<8xi1>",
        "without replica_groups": '%0 = "stablehlo.all_to_all"(%a) <{replica_groups = dense<> : '
        "tensor<0x0xi64>}> : (tensor<i8>) -> tensor<i8>",
    }
    for what, line in lines.items():
        with pytest.raises(UnimplementedError, match=f"line 2: .* have .*{what}"):
            check_for_host(f"func.func @main(%a: tensor<i8>) {{\n{line}\nreturn }}".encode(), "")


@pytest.mark.parametrize("name", LACKING)
def test_bytecode_that_the_compiler_for_the_host_aborts_on_is_refused(name):
    with pytest.raises(UnimplementedError, match=LACKING[name]) as caught:
        check_for_host((PROGRAMS / f"{name}.mlirbc").read_bytes(), "compile_and_load")
    assert "the program's bytecode" in str(caught.value)
    assert caught.value.operation == "compile_and_load"


@pytest.mark.parametrize("name", ["nearby", "nearby_in_a_loop", "nearby_not_portable", "f8e3m4"])
def test_bytecode_with_the_same_words_apart_is_not(name):
    code = (PROGRAMS / f"{name}.mlirbc").read_bytes()
    check_for_host(code, "compile_and_load")
    assert not has_six_bit_floats(code)
    assert not makes_or_reads_booleans(code, "bitcast_convert")


def test_damaged_bytecode_is_left_to_the_compiler():
    dice = random.Random(11)
    whole = [path.read_bytes() for path in sorted(PROGRAMS.glob("*.mlirbc"))]
    for _ in range(3000):
        code = bytearray(dice.choice(whole))
        for _ in range(dice.randrange(1, 4)):
            code[dice.randrange(4, len(code))] = dice.randrange(256)
        end = dice.choice([len(code), dice.randrange(5, len(code))])
        with contextlib.suppress(UnimplementedError):
            check_for_host(bytes(code[:end]), "")


def test_a_tuple_as_an_argument_is_refused_with_its_line():
    program = b"""func.func public @main(
        %a: tensor<i32>, %b: tuple<tensor<i32>>) -> tensor<i32> {
      %0 = stablehlo.get_tuple_element %b[0] : (tuple<tensor<i32>>) -> tensor<i32>
      return %0 : tensor<i32> }"""
    with pytest.raises(UnimplementedError, match=r"line 1: .* not have tuples as arguments"):
        check_for_host(program, "compile")


def test_tuples_within_a_program_and_groups_of_other_collectives_are_taken():
    check_for_host(
        b"""func.func @main(%a: tensor<i32>) -> tensor<i32> {
      %0 = stablehlo.tuple %a : tuple<tensor<i32>>
      %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<i32>>) -> tensor<i32>
      return %1 : tensor<i32> }""",
        "compile",
    )
    check_for_host(
        b"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.all_to_all"(%a) {replica_groups = dense<0> : tensor<1x1xi64>}
        : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "stablehlo.all_reduce"(%0) {replica_groups = dense<> : tensor<0x0xi64>}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32> }""",
        "compile",
    )


def test_a_section_that_is_aligned_to_nothing_is_left_to_the_compiler():
    damaged = b"ML\xefR" + b"\x0dname\0" + b"\x80\x03\x01"  # a section of one byte, alignment 0
    assert module_facts(damaged).num_partitions is None
    assert operations(damaged) == ()
    check_for_host(damaged, "compile")


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
    for checked in (check, check_for_host):
        with pytest.raises(UnimplementedError, match=f"line 3: {name} exchanges data") as caught:
            checked(FED.format(line).encode(), "compile")
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
    check_for_host(FED.format(line).encode(), "compile")


@pytest.mark.parametrize("name", ["infeed", "outfeed"])
@pytest.mark.parametrize("form", ["", "_not_portable"])
def test_bytecode_that_waits_for_the_host_is_refused(name, form):
    code = (PROGRAMS / f"{name}{form}.mlirbc").read_bytes()
    for checked in (check, check_for_host):
        with pytest.raises(UnimplementedError, match=f"bytecode: stablehlo.{name} exchanges"):
            checked(code, "compile")
    check_for_host((PROGRAMS / f"named_infeed{form}.mlirbc").read_bytes(), "compile")


def portable_recursion():
    """Return a program in which main calls itself: the last of the properties is the callee."""
    code = (PROGRAMS / "named_infeed.mlirbc").read_bytes()
    assert code.endswith(b"\x03%")  # the name of the function that it calls
    return code, code[:-1] + b"-"


def plain_recursion():
    """Return the same in MLIR's plain bytecode, with another name in the symbol of the call."""
    code = (PROGRAMS / "named_infeed_not_portable.mlirbc").read_bytes()
    bytecode = _Bytecode(code)
    at = bytecode.places[bytecode.attributes.index(("builtin", b"\x09\x03"))]
    main = next(i for i in range(99) if bytecode.builtin(i, 0) == "main")
    return code, code[: at + 1] + bytes([main << 1 | 1]) + code[at + 2 :]


@pytest.mark.parametrize("make", [portable_recursion, plain_recursion])
def test_functions_of_bytecode_that_call_themselves_are_refused(make):
    plain, recursive = make()
    for checked in (check, check_for_host):
        checked(plain, "compile")
        with pytest.raises(InvalidArgumentError, match="@main calls itself"):
            checked(recursive, "compile")


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
        check(code, "compile")


@pytest.mark.parametrize("name", ["named_infeed", "named_infeed_not_portable"])
def test_regions_that_share_a_section_are_walked(name):
    bytecode = _Bytecode((PROGRAMS / f"{name}.mlirbc").read_bytes())
    assert len(_Walk(bytecode).types_of(set(bytecode.operations()))) > 5
