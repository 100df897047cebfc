"""Quirks: which versions they hold for, and what is done about each."""

from pathlib import Path

import pytest

from devrt.compiling import Program
from devrt.compiling.quirks import LibraryVersion, Quirk, flags_of, matching, refuse
from devrt.compiling.xla_cpu_engines import ENGINES, engine_named, recognised, version_of
from devrt.compiling.xla_cpu_quirks import QUIRKS
from devrt.errors import UnimplementedError

DISTRIBUTION = "xla-cpu-pjrt"
OF_IT = matching(QUIRKS, LibraryVersion(DISTRIBUTION, (0, 0, 1)))
PROGRAMS = Path(__file__).resolve().parents[1] / "bytecode"


def read(name):
    return Program.of((PROGRAMS / f"{name}.mlirbc").read_bytes())


@pytest.mark.parametrize(
    ("version", "is_there"),
    [
        ((1, 1, 9), False),
        ((1, 2), True),
        ((1, 2, 5), True),
        ((1, 10), True),
        ((1, 10, 1), False),
        ((2,), False),
    ],
)
def test_a_quirk_holds_for_the_versions_in_which_it_was_seen(version, is_there):
    quirk = Quirk("lib", (1, 2), (1, 10), "fails", "case", flags={"xla_unusual": False})
    assert matching([quirk], LibraryVersion("lib", version)) == ((quirk,) if is_there else ())
    assert matching([quirk], LibraryVersion("other", version)) == ()
    assert str(quirk) == "lib 1.2 to 1.10 fails"


def test_nothing_is_done_about_a_library_that_is_not_known():
    assert matching(QUIRKS, None) == ()
    assert matching(QUIRKS, LibraryVersion(DISTRIBUTION, (0, 0, 2))) == ()
    refuse((), read("makes_booleans"), "compile")
    assert flags_of((), Program()) == {}


def test_the_flags_of_several_quirks_add_up():
    assert flags_of(OF_IT, Program.of("func.func @main() { return }")) == {
        "xla_cpu_use_xnnpack": False,
        "xla_cpu_enable_fast_min_max": False,
    }


TANGENTS = Quirk(
    "lib", (1,), (1,), "fails", "case", flags={"width": 128}, operations=frozenset({"chlo.tan"})
)


@pytest.mark.parametrize(
    ("program", "flags"),
    [
        ("func.func @main() { return }", {}),
        ("func.func @main(%a: tensor<f32>) { %0 = chlo.tan %a : tensor<f32> }", {"width": 128}),
        ('func.func @main() { %0 = "chlo.tan"(%a) : (tensor<f32>) -> () }', {"width": 128}),
        (b"ML\xefR, and no more", {"width": 128}),  # its operations cannot be read
        ("", {"width": 128}),
    ],
)
def test_flags_may_be_for_programs_with_some_operations_alone(program, flags):
    assert flags_of([TANGENTS], Program.of(program) if program else Program()) == flags


def test_each_quirk_says_what_is_done_and_which_case_shows_it():
    for quirk in QUIRKS:
        assert [bool(quirk.subject), bool(quirk.flags), quirk.is_avoided].count(True) == 1
        assert engine_named(quirk.library) is not None
        assert quirk.effect
        assert quirk.case
        assert quirk.first <= quirk.last


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("quantised types", "%0 = stablehlo.abs %a : tensor<2x!quant.uniform<i8:f32, 1.0>>"),
        (
            "bitcast_convert of booleans",
            "%0 = stablehlo.bitcast_convert %a : (tensor<i8>) -> tensor<8xi1>",
        ),
        (
            "all_to_all without replica_groups",
            '%0 = "stablehlo.all_to_all"(%a) <{replica_groups = dense<> : '
            "tensor<0x0xi64>}> : (tensor<i8>) -> tensor<i8>",
        ),
    ],
)
def test_text_that_a_compiler_aborts_on_is_refused_with_its_line(what, line):
    program = Program.of(f"func.func @main(%a: tensor<i8>) {{\n{line}\nreturn }}")
    match = f"line 2: {DISTRIBUTION} 0.0.1 ends the process over {what}"
    with pytest.raises(UnimplementedError, match=match) as caught:
        refuse(OF_IT, program, "compile")
    assert (caught.value.operation, caught.value.library) == ("compile", DISTRIBUTION)


@pytest.mark.parametrize(
    "name", ["reads_booleans", "makes_booleans", "booleans_in_a_loop", "booleans_not_portable"]
)
def test_bytecode_that_a_compiler_aborts_on_is_refused(name):
    with pytest.raises(UnimplementedError, match=r"program's bytecode: .*convert of booleans"):
        refuse(OF_IT, read(name), "compile")


@pytest.mark.parametrize("name", ["nearby", "nearby_in_a_loop", "nearby_not_portable", "f8e3m4"])
def test_bytecode_with_the_same_words_apart_is_not(name):
    refuse(QUIRKS, read(name), "compile")
    assert read(name).facts.functions


ONE_BY_TWO, ONE_BY_NONE = b"\x05\x05\x09", b"\x05\x05\x01"
"""Extents in bytecode. No parser takes an all_to_all without groups, so none can be written out."""


@pytest.mark.parametrize("name", ["all_to_all", "all_to_all_not_portable"])
def test_bytecode_of_an_all_to_all_without_groups_is_refused(name):
    program = read(name)
    assert program.count(ONE_BY_TWO) == 1
    refuse(QUIRKS, program, "compile")
    with pytest.raises(UnimplementedError, match=r"bytecode: .*all_to_all without"):
        refuse(QUIRKS, Program.of(program.replace(ONE_BY_TWO, ONE_BY_NONE)), "compile")


@pytest.mark.parametrize("number", [24, 30])
def test_bytecode_with_quantised_types_is_refused(number):
    program, kind = read("all_to_all"), bytes([4 << 1 | 1])  # the entry of f32: its number
    replaced = bytes([number << 1 | 1])
    places = [at for at in range(len(program)) if program[at : at + 1] == kind]
    made = [Program.of(program[:at] + replaced + program[at + 1 :]) for at in places]
    assert any("quantised_types" in each.facts.first for each in made)
    assert not read("all_to_all").facts.first


def test_groups_of_other_collectives_are_taken():
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.all_to_all"(%a) {replica_groups = dense<0> : tensor<1x1xi64>}
        : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "stablehlo.all_reduce"(%0) {replica_groups = dense<> : tensor<0x0xi64>}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32> }"""
    refuse(QUIRKS, Program.of(text), "compile")


def test_each_engine_is_known_by_its_name_and_by_what_it_reports():
    for engine in ENGINES:
        for name in (engine.wheel, engine.wheel.replace("-", "_").upper()):
            assert engine_named(name) is engine
        found = recognised(engine.c_api, engine.stablehlo)
        assert found == LibraryVersion(engine.wheel, engine.version)
    assert engine_named("nothing") is None
    assert recognised((0, 81), (1, 99, 0)) is None


def test_engines_are_in_the_order_of_their_age():
    assert [engine.c_api for engine in ENGINES] == sorted((e.c_api for e in ENGINES), reverse=True)


@pytest.mark.parametrize(
    ("text", "version"),
    [("0.11.2", (0, 11, 2)), ("1.0rc1", (1, 0)), ("2026.6.23+local", (2026, 6, 23)), ("x", ())],
)
def test_a_version_is_read_as_numbers(text, version):
    assert version_of(text) == version
