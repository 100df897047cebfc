"""Small programs: the emitter of loops that devrt chooses for them, beside the compiler's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devrt.compiling import Program
from devrt_cpu import _engine, make_cpu_client
from devrt_cpu._library import Library

pytestmark = pytest.mark.engine

FLAG = "xla_cpu_use_fusion_emitters"
UNARY = (
    "negate",
    "exponential",
    "tanh",
    "log",
    "sqrt",
    "cosine",
    "abs",
    "sign",
    "logistic",
    "floor",
)
BINARY = ("add", "multiply", "subtract", "maximum", "minimum", "divide")
HEAD = "module {{ func.func public @main(%x: tensor<{n}x{m}xf32>) -> tensor<{n}x{m}xf32> {{\n"


def chain(n, m, steps):
    """Return a program that applies operations to earlier values, one after the other."""
    shape = f"tensor<{n}x{m}xf32>"
    values, lines = ["%x"], []
    for i, (name, other) in enumerate(steps):
        operands = values[-1] if name in UNARY else f"{values[-1]}, {values[other % len(values)]}"
        lines.append(f"%{i} = stablehlo.{name} {operands} : {shape}")
        values.append(f"%{i}")
    return HEAD.format(n=n, m=m) + "\n".join([*lines, f"return {values[-1]} : {shape} }} }}"])


@pytest.fixture(scope="module")
def client():
    with make_cpu_client() as made:
        yield made


@pytest.fixture(scope="module")
def library(cpu_library):
    """Return the compiler, where it has the flag."""
    if FLAG not in _engine._own_flags(cpu_library, Program(b"small")):
        pytest.skip("this compiler has one emitter")
    return cpu_library


WITH_BOTH = Library("/nowhere.so", "xla-cpu-pjrt", "0.0.1")
STEPS = st.lists(
    st.tuples(st.sampled_from(UNARY + BINARY), st.integers(0, 20)), min_size=1, max_size=12
)


@given(n=st.integers(1, 9), m=st.integers(1, 40), steps=STEPS, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_both_emitters_give_the_same_bits(client, library, n, m, steps, seed):
    program = chain(n, m, steps)
    assert _engine._own_flags(library, Program.of(program))[FLAG] is False
    host = np.random.default_rng(seed).standard_normal((n, m)).astype(np.float32) * 4
    argument = client.buffer_from_pyval(host)
    usual = client.compile_and_load(program)
    other = client.compile_and_load(program, env_option_overrides={FLAG: True})
    results = [np.asarray(made.execute([argument])[0]) for made in (usual, other)]
    np.testing.assert_array_equal(*(made.view(np.uint32) for made in results))


def test_large_programs_are_left_to_the_compiler():
    large = chain(2, 2, [("add", 0)] * 200).encode()
    assert FLAG not in _engine._own_flags(WITH_BOTH, Program(large))
    nothing = Program()  # a serialised executable's options: no program
    assert FLAG not in _engine._own_flags(WITH_BOTH, nothing)


def test_programs_that_add_up_keep_the_order_of_the_compiler_s_choice():
    reduced = chain(2, 2, [("add", 0)]) + "// stablehlo.reduce"
    assert FLAG not in _engine._own_flags(WITH_BOTH, Program.of(reduced))
