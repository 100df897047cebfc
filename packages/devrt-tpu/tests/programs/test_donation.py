"""Arguments whose memory a program takes over."""

import numpy as np
import pytest

from devrt.compiling import Program
from devrt.compiling.program_facts import ProgramFacts
from devrt.compiling.serialized import Serialized
from devrt.errors import DeletedError, DevrtError, UnimplementedError
from devrt_pjrt.programs.compiled import Executable

DONATE = """
module @twice {
  func.func public @main(%a: tensor<8xf32> {tf.aliasing_output = 0 : i32}) -> tensor<8xf32> {
    %0 = stablehlo.add %a, %a : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""
X = np.arange(8, dtype=np.float32)


@pytest.fixture(params=["the compiler", "the program"], autouse=True)
def says_donated(request, monkeypatch):
    """Let what is donated be known from a compiler's program, or from the source alone."""
    if request.param == "the program":
        monkeypatch.setattr(Executable, "facts", None)


def test_an_argument_is_gone_after_it_was_donated(xla_cpu):
    executable = xla_cpu.compile_and_load(DONATE)
    assert executable.donated_parameters == executable.executable.donated_parameters == [0]
    buffer = xla_cpu.buffer_from_pyval(X)
    (made,) = executable.execute([buffer])
    assert buffer.is_deleted()
    assert np.asarray(made).tolist() == (2 * X).tolist()
    with pytest.raises(DeletedError, match="argument 0"):
        executable.execute([buffer])


def test_what_others_look_at_is_not_written_to(xla_cpu):
    executable = xla_cpu.compile_and_load(DONATE)
    buffer = xla_cpu.buffer_from_pyval(X)
    clone = buffer.clone()
    (made,) = executable.execute([buffer])
    assert np.asarray(clone).tolist() == X.tolist()
    assert np.asarray(made).tolist() == (2 * X).tolist()
    large = DONATE.replace("8xf32", "100000xf32")
    buffer = xla_cpu.buffer_from_pyval(np.ones(100_000, np.float32))
    view = np.asarray(buffer)
    xla_cpu.compile_and_load(large).execute([buffer])[0].block_until_ready()
    assert view.sum() == 100_000


def test_too_few_arguments_are_an_error(xla_cpu):
    with pytest.raises(DevrtError):
        xla_cpu.compile_and_load(DONATE).execute([])


def test_a_program_whose_donation_nobody_knows_is_refused(xla_cpu, add_text, monkeypatch):
    monkeypatch.setattr(Program, "facts", ProgramFacts(is_whole=False))
    assert xla_cpu.compile_and_load(add_text).name
    if Executable.facts is None:
        with pytest.raises(UnimplementedError, match=r"donates parameters.*as text"):
            xla_cpu.compile_and_load(DONATE)
    else:
        assert xla_cpu.compile_and_load(DONATE).donated_parameters == [0]


TAKES_THE_FIRST = """func.func @main(%a: tensor<8xf32> {tf.aliasing_output = 0 : i32},
    %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8xf32>
  return %0 : tensor<8xf32> }"""


def without_facts(client, data, monkeypatch):
    """Load an executable of a plugin that does not give the optimised program."""
    monkeypatch.setattr(Executable, "facts", None)
    return client.deserialize_executable(data)


def test_what_a_program_takes_over_is_known_from_its_bytes(xla_cpu, monkeypatch):
    data = xla_cpu.compile_and_load(TAKES_THE_FIRST).serialize()
    loaded = without_facts(xla_cpu, data, monkeypatch)
    assert loaded.donated_parameters == [0]
    assert without_facts(xla_cpu, loaded.serialize(), monkeypatch).donated_parameters == [0]


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_is_not_known_of_a_program_is_found_out(xla_cpu, monkeypatch, is_shared):
    data = Serialized.read(xla_cpu.compile_and_load(TAKES_THE_FIRST).serialize(), "test").data
    loaded = without_facts(xla_cpu, data, monkeypatch)
    a, b = (xla_cpu.buffer_from_pyval(X) for _ in range(2))
    shared = a.clone() if is_shared else None
    (made,) = loaded.execute([a, b])
    assert np.asarray(made).tolist() == (2 * X).tolist()
    assert (a.is_deleted(), b.is_deleted()) == (not is_shared, False)
    assert np.asarray(b if shared is None else shared).tolist() == X.tolist()
