"""What is read of a program, text or bytecode, without a compiler."""

import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.compiling import Program, mlir_bytecode
from devrt.compiling.program_facts import ProgramFacts
from devrt.compiling.refusals import check
from devrt.errors import InvalidArgumentError, InvalidTypeError

PACKAGES = Path(__file__).parents[3]
PROGRAMS = PACKAGES / "devrt-cpu" / "tests" / "programs"
BYTECODE = PACKAGES / "devrt-core" / "tests" / "bytecode"
EXPECTED = {  # replicas, partitions, meshes, whether their shardings are Shardy's
    "gspmd_mlp": (1, 4, ((("dp", 2), ("tp", 2)),), True),
    "shard_map_dp": (1, 4, ((("x", 4),),), True),
    "mlp": (1, 1, (), False),
    "linalg": (1, 1, (), False),
    "gspmd_mlp_old": (1, 4, (), False),
}


def read(name):
    return Program.of((PROGRAMS / name).read_bytes()).facts


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc"])
@pytest.mark.parametrize("name", EXPECTED)
def test_text_and_bytecode_say_the_same(name, suffix):
    program = Program.of((PROGRAMS / f"{name}.{suffix}").read_bytes())
    assert program.is_bytecode == (suffix == "mlirbc")
    facts = program.facts
    found = facts.num_replicas, facts.num_partitions, facts.meshes, facts.has_shardy
    assert found == EXPECTED[name]
    assert facts.main.has_body
    assert facts.is_whole
    assert not facts.main.has_tuples


@pytest.mark.parametrize("name", EXPECTED)
def test_text_and_bytecode_are_written_in_the_same_operations(name):
    text = read(f"{name}.mlir").operations
    assert "stablehlo.dot_general" in text or name.startswith("linalg")
    assert read(f"{name}.mlirbc").operations == text


def test_it_is_made_of_text_as_well_as_of_bytes():
    assert Program("func.func") == Program(b"func.func") == Program.of("func.func")
    for other in (5, None, ["func.func"]):
        with pytest.raises(InvalidTypeError, match="a program is StableHLO"):
            Program(other)


def test_custom_calls_are_named():
    text, bytecode = read("linalg.mlir").custom_calls, read("linalg.mlirbc").custom_calls
    assert {"lapack_spotrf_ffi", "lapack_strsm_ffi"} <= bytecode <= text
    assert not read("mlp.mlirbc").custom_calls
    generic = b"""func.func @main() {
      "stablehlo.custom_call"() <{call_target_name = "a\\62", x = "c"}> : () -> ()
      stablehlo.abs %a {call_target_name = "d"} // stablehlo.custom_call @e()
      return }"""
    assert Program.of(generic).facts.custom_calls == {"ab"}


@pytest.mark.parametrize("suffix", [".mlir", ".mlirbc", "_not_portable.mlirbc", "_older.mlirbc"])
def test_donated_parameters_are_numbered(suffix):
    facts = Program.of((BYTECODE / f"tuple_within{suffix}").read_bytes()).facts
    assert facts.main.donated == (0, 2)
    assert facts.main.calls == {b"f"}


def test_what_a_string_or_a_comment_says_donates_nothing():
    text = b"""func.func @main(%a: i32 {a.b = "tf.aliasing_output = 0"}, // jax.buffer_donor = true
      %b: i32 {jax.buffer_donor = true}) -> i32 { return %a : i32 }"""
    assert Program.of(text).facts.main.donated == (1,)


GENERIC = """
  "func.func"() <{%s}> ({
  ^bb0(%%a: tensor<2xf32>, %%b: tensor<2xf32>):
    "func.return"(%%a) {arg_attrs = [{jax.buffer_donor = true}]} : (tensor<2xf32>) -> ()
  }) {%s} : () -> ()
"""
TYPE = 'function_type = (i32, i32) -> i32, sym_name = "main"'
GIVEN = 'arg_attrs = [{a.b = "tf.aliasing_output, "}, {tf.aliasing_output = 0 : i32}]'


@pytest.mark.parametrize(
    ("properties", "attributes", "expected"),
    [
        (f"{GIVEN}, {TYPE}", "", (1,)),
        (f"{TYPE}, // [\n {GIVEN}", "", (1,)),
        (TYPE, f"a = [1, 2], {GIVEN}", (1,)),
        (TYPE, GIVEN.replace("arg_attrs", '"arg_attrs"'), (1,)),
        (TYPE, GIVEN.replace("arg", "res"), ()),
        (TYPE, "a = {" + GIVEN + "}", ()),
    ],
)
def test_donated_parameters_are_numbered_in_generic_form(properties, attributes, expected):
    assert Program.of(GENERIC % (properties, attributes)).facts.main.donated == expected


@pytest.mark.parametrize(
    "aliases",
    [
        "#given = [{}, {tf.aliasing_output = 0 : i32}]",
        "#one = {tf.aliasing_output = 0 : i32}\n#given = [{}, #one]",
        "#given = #other\n#other = [{}, {tf.aliasing_output = 0 : i32}]",
    ],
)
def test_donated_parameters_are_numbered_where_their_attributes_have_names(aliases):
    text = f"{aliases}\n{GENERIC % (f'arg_attrs = #given, {TYPE}', '')}"
    assert Program.of(text).facts.main.donated == (1,)


@pytest.mark.parametrize("aliases", ["#given = #given", "#given = #b\n#b = #given", ""])
def test_names_of_attributes_that_stand_for_nothing_donate_nothing(aliases):
    text = f"{aliases}\n{GENERIC % (f'arg_attrs = #given, {TYPE}', '')}"
    assert Program.of(text).facts.main.donated == ()


@pytest.mark.parametrize(
    ("text", "is_shardy"),
    [
        ('sdy.mesh @m = <["x"=1]>', True),
        ('%0 = sdy.sharding_constraint %a <mesh<["x"=2]>, [{"x"}]> : tensor<2xf32>', True),
        ('module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{}"}} {}', True),
        ("%0 = stablehlo.custom_call @f(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<>}", False),
        ('// sdy.mesh @m = <["x"=1]>', False),
        (
            'func.func @f() attributes {a = "sdy.mesh @m"} { return } loc("sdy.mesh"("a.py":1:1))',
            False,
        ),
        ('func.func @f(%a: f32 {mhlo.sharding = "{replicated}"}) { return }', False),
    ],
)
def test_shardy_is_known_by_its_meshes(text, is_shardy):
    assert Program(text.encode()).facts.has_shardy == is_shardy


def test_operations_in_comments_and_strings_do_not_count():
    text = b"""// stablehlo.add
      %0 = "stablehlo.negate"(%a) {name = "x = stablehlo.sine"} : (tensor<f32>) -> tensor<f32>
      stablehlo.return %0 : tensor<f32>"""
    assert Program(text).facts.operations == {"stablehlo.negate"}
    assert not Program(b"ML\xefR").facts.operations


def test_a_program_that_says_nothing_has_no_facts():
    facts = Program.of("func.func private @f()").facts
    assert (facts.num_replicas, facts.num_partitions, facts.meshes) == (None, None, ())


def test_a_program_is_its_code_and_is_read_once(monkeypatch):
    code = (PROGRAMS / "mlp.mlirbc").read_bytes()
    program = Program.of(code)
    assert program == code
    assert isinstance(program, bytes)
    assert Program.of(program) is program
    assert program.facts is program.facts
    assert pickle.loads(pickle.dumps(program)) == code
    assert repr(program) == str(program) == f"Program(bytecode of {len(code)} bytes)"
    assert repr(Program.of(memoryview(b"func.func"))) == "Program(text of 9 bytes)"


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (3, InvalidTypeError, "not of type int"),
        (None, InvalidTypeError, "not of type NoneType"),
        ("half \udc80 func", InvalidTypeError, "cannot be written as UTF-8"),
        (" \n", InvalidArgumentError, "the program is empty"),
        (b"", InvalidArgumentError, "the program is empty"),
        (b"PK\x03\x04", InvalidArgumentError, "neither: it begins with b'PK"),
        ("module\nfunc.func\0", InvalidArgumentError, "^line 2: .*byte 16 of this one is zero"),
        ("add.mlir", InvalidArgumentError, "neither"),
    ],
)
def test_what_is_no_program_is_refused(source, error, message):
    with pytest.raises(error, match=message) as caught:
        check(Program.of(source, "compile"), "compile")
    assert caught.value.operation == "compile"


@given(st.data())
def test_broken_bytecode_says_nothing_or_something_but_never_fails(data):
    code = bytearray((PROGRAMS / "gspmd_mlp.mlirbc").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        code[data.draw(st.integers(4, len(code) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(4, len(code)))
    assert isinstance(Program(code[:end]).facts, ProgramFacts)


def test_damaged_bytecode_is_left_to_the_compiler():
    dice = random.Random(11)
    whole = [path.read_bytes() for path in sorted(BYTECODE.glob("*.mlirbc"))]
    for _ in range(3000):
        code = bytearray(dice.choice(whole))
        for _ in range(dice.randrange(1, 4)):
            code[dice.randrange(4, len(code))] = dice.randrange(256)
        end = dice.choice([len(code), dice.randrange(5, len(code))])
        assert isinstance(Program(code[:end]).facts, ProgramFacts)


def test_a_section_that_is_aligned_to_nothing_is_left_to_the_compiler():
    damaged = b"ML\xefR" + b"\x0dname\0" + b"\x80\x03\x01"  # a section of one byte, alignment 0
    assert Program(damaged).facts == ProgramFacts(is_whole=False)
    with pytest.raises(ValueError, match="aligned to nothing"):
        mlir_bytecode.Bytecode(damaged)
