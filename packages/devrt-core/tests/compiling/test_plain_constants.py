"""Constants as torch-mlir writes them, written as compilers read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from devrt.compiling import Program
from devrt.compiling.mlir_bytecode import Bytecode
from devrt.compiling.plain_constants import with_plain_constants
from devrt.compiling.refusals import compile_explained
from devrt.errors import InvalidArgumentError

FOLDER = Path(__file__).parents[1] / "bytecode"
TEXT = (FOLDER / "resources.mlir").read_text()


def test_a_text_has_its_constants_before_the_first_line_and_no_resources():
    made = with_plain_constants(Program(TEXT)).decode()
    assert "dense_resource" not in made
    assert "arith" not in made
    assert "dialect_resources" not in made
    assert made.count("\n") == TEXT[: TEXT.index("{-#")].count("\n")
    first = made.partition("\n")[0]
    assert '#devrt_constant_0 = dense<"0x0000000000' in first
    assert "dense<[[true,false,true,true,false],[false,true,false,false,true]]>" in first
    assert "dense<> : tensor<0xf32>" in first


def test_a_constant_that_is_used_twice_is_written_once():
    line = "  %9 = stablehlo.constant dense_resource<w> : tensor<2x5xf32>\n"
    twice = TEXT.replace("  return", line * 50 + "  return")
    made = with_plain_constants(Program(twice))
    assert made.count(b"0000803F00000040") == 1


def test_bytecode_keeps_its_numbers_and_has_no_resources():
    code = (FOLDER / "resources_not_portable.mlirbc").read_bytes()
    made = with_plain_constants(Program(code))
    assert made.is_bytecode
    before, after = Bytecode(code), Bytecode(made)
    assert "arith.constant" in before.names
    assert after.names == [name.replace("arith.", "stablehlo.") for name in before.names]
    assert after.strings == before.strings
    assert after.operations == before.operations


@pytest.mark.parametrize(
    "code", [b"func.func @main() {return}", (FOLDER / "infeed_not_portable.mlirbc").read_bytes()]
)
def test_other_programs_are_handed_on_as_they_are(code):
    program = Program(code)
    assert with_plain_constants(program) is program


def test_the_words_alone_are_no_constants():
    text = 'func.func @main() attributes {note = "arith.constant"} {return} // {-# #-}'
    assert with_plain_constants(Program(text)) == text.encode()


def test_a_constant_without_data_is_refused():
    text = TEXT.replace("dense_resource<w>", "dense_resource<__elided__>")
    with pytest.raises(InvalidArgumentError, match=r"<__elided__> has no data.*Export .* whole"):
        compile_explained(Program(text), lambda program: program)


@pytest.mark.parametrize("tensor", ["2x5xf64", "5xf32", "f32", "0xf32", "2x5xcomplex<f32>"])
def test_a_text_whose_data_are_of_another_size_is_refused(tensor):
    text = TEXT.replace(
        "dense_resource<w> : tensor<2x5xf32>", f"dense_resource<w> : tensor<{tensor}>"
    )
    with pytest.raises(InvalidArgumentError, match=r"<w> has 40 bytes, and .* takes \d+"):
        with_plain_constants(Program(text))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"0x', '"0x0', "hexadecimal"),
        ("3F", "QF", "hexadecimal"),
        ('000041"\n', "000041\n", "have no end"),
    ],
)
def test_text_whose_data_are_damaged_is_refused(old, new, why):
    head, mark, tail = TEXT.partition("{-#")
    with pytest.raises(InvalidArgumentError, match=rf"dense_resource<\w+> .*({why})"):
        with_plain_constants(Program(head + mark + tail.replace(old, new)))


def test_bytecode_whose_data_are_of_another_size_is_refused():
    code = (FOLDER / "resources_not_portable.mlirbc").read_bytes()
    shorter = code.replace(b"\x81\x11\xcb", b"\x81\x09\xcb")  # 4 bytes for 8
    with pytest.raises(
        InvalidArgumentError, match=r"<pair> has 4 bytes, and tensor<2xf32> takes 8"
    ):
        with_plain_constants(Program(shorter))


@pytest.mark.parametrize("size", range(1, 514, 16))
def test_bytecode_that_was_cut_is_left_to_the_compiler(size):
    code = (FOLDER / "resources_not_portable.mlirbc").read_bytes()[:size]
    assert with_plain_constants(Program(code)) == code
