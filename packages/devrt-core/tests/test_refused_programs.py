"""What to do about a refused program, from the words that compilers were seen to use."""

import pytest

from devrt._refused_programs import explain

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
