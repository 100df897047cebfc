"""Gradients through branches, loops, reads and writes at positions, and composites."""

import numpy as np
import pytest

import devrt
from devrt import lax
from devrt.errors import UnimplementedError
from devrt.tracing import binary, compare, gather, reduce, scatter, select, unary

pytestmark = pytest.mark.engine
RNG = np.random.default_rng(11)
ROWS = {"index_vector_dim": 1}


def small(*shape):
    return RNG.uniform(0.2, 0.9, size=shape)


def mul(x, y):
    return binary("multiply", x, y)


def branched(x, y):
    def first(a):
        return unary("sine", mul(a, y))

    def second(a):
        return mul(a, a)

    total = reduce("add", x, 0, [0])
    return lax.cond(compare("GT", total, 0.0), first, second, x)


def nested_branches(x):
    def inner(a):
        return lax.cond(compare("GT", reduce("add", a, 0, [0]), 100.0), lambda b: b, mul2, a)

    def mul2(a):
        return mul(a, a)

    return lax.switch(1, [mul2, inner, lambda a: a], x)


def looped(w, x0, xs):
    def step(carry, x):
        carry = unary("tanh", binary("add", mul(w, carry), x))
        return carry, mul(carry, carry)

    last, squares = lax.scan(step, x0, xs)
    return [last, squares]


def reversed_loop(w, x0, xs):
    def step(carry, x):
        count, state = carry
        scaled = mul(state, binary("add", x, w))
        return (binary("add", count, 1), scaled), None

    (_, last), _ = lax.scan(step, (0, x0), xs, reverse=True)
    return last


def counted(w, x0):
    return lax.fori_loop(0, 4, lambda i, x: binary("add", mul(w, unary("sine", x)), i), x0)


def nested_loops(w, x0):
    def outer(carry, _):
        inner = lax.fori_loop(0, 2, lambda i, c: unary("sine", mul(c, w)), carry)
        return inner, inner

    last, every = lax.scan(outer, x0, None, length=3)
    return [last, every]


def taken(x, i):
    return gather(
        x,
        i,
        offset_dims=(1,),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        slice_sizes=(1, 4),
        **ROWS,
    )


def windows_taken(x, i):
    return gather(
        x,
        i,
        offset_dims=(1, 2),
        collapsed_slice_dims=(),
        start_index_map=(0, 1),
        slice_sizes=(2, 2),
        **ROWS,
    )


def written(combine):
    def write(x, i, updates):
        return scatter(
            x,
            i,
            updates,
            combine,
            update_window_dims=(1,),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            **ROWS,
        )

    return write


XS = small(4, 2)
TWICE = np.array([2, 0, 2, 7], np.int32)
ONCE = np.array([2, 0, -1], np.int32)

CASES = {
    "cond": (branched, small(3), small(3)),
    "cond, the other branch": (branched, -small(3), small(3)),
    "nested branches": (nested_branches, small(3)),
    "scan": (looped, small(3), small(3), small(5, 3)),
    "scan in reverse": (reversed_loop, small(3), small(3), small(4, 3)),
    "fori_loop": (counted, small(2), small(2)),
    "nested loops": (nested_loops, small(2), small(2)),
    "loop of no turns": (looped, small(3), small(3), small(0, 3)),
    "gather": (taken, small(4, 4), TWICE),
    "gather of windows": (
        windows_taken,
        small(4, 4),
        np.array([[0, 1], [3, 3], [-2, 1]], np.int32),
    ),
    "scatter add": (written("add"), small(4, 4), TWICE, small(4, 4)),
    "scatter set": (written("set"), small(4, 4), TWICE, small(4, 4)),
    "scatter mul": (written("mul"), small(4, 4), TWICE, small(4, 4)),
    "scatter max": (written("max"), small(4, 4), TWICE, small(4, 4)),
    "scatter min": (written("min"), small(4, 4), ONCE, small(3, 4)),
    "gradient of a scan": (
        lambda w, x: devrt.grad(lambda a: reduce("add", looped(a, x, XS)[0], 0, [0]))(w),
        small(2),
        small(2),
    ),
    "gradient of a cond": (
        lambda x, y: devrt.grad(lambda a: reduce("add", branched(a, y), 0, [0]))(x),
        small(3),
        small(3),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_differences(differences, name):
    by_rules, by_differences = differences(CASES, name)
    assert by_rules == pytest.approx(by_differences, rel=2e-6, abs=2e-8)


def test_a_loop_of_unknown_length_has_no_gradient():
    def loss(x):
        return lax.while_loop(lambda c: compare("LT", c, 10.0), lambda c: mul(c, x), x)

    message = r"no gradient of stablehlo.while, which was traced at .*test_control.py.*lax.scan"
    with pytest.raises(UnimplementedError, match=message):
        devrt.grad(loss)(2.0)


def test_a_loop_runs_twice_for_its_gradient():
    """Once forward, with the carries kept; once back."""

    def loss(w):
        return lax.fori_loop(0, 5, lambda i, x: mul(w, unary("sine", x)), 1.0)

    # With its value: else the printer leaves the first loop out, whether it is needed or not.
    text = devrt.jit(devrt.value_and_grad(loss)).lower(2.0).as_text()
    assert text.count("stablehlo.while") == 2


def test_what_a_branch_selects_decides_the_gradient():
    def loss(x):
        return select(compare("GT", x, 1.0), mul(x, x), x)

    assert float(devrt.grad(loss)(3.0)) == 6
    assert float(devrt.grad(loss)(0.5)) == 1
