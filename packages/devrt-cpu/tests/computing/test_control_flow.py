"""Branches and loops: `devrt.lax` as JAX calls it, in traces and outside of them."""

import gc
import weakref

import numpy as np
import pytest

import devrt
from devrt import lax
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.lax.staging import _programs
from devrt.programs.jit import jit

pytestmark = pytest.mark.engine
X = np.arange(3, dtype=np.float32)


@pytest.fixture(params=["eager", "traced"])
def call(request):
    """Call a function, by itself or under jit; return NumPy's arrays."""
    how = jit if request.param == "traced" else lambda f: f
    return lambda f, *x: devrt.device_get(how(f)(*x))


def test_cond_takes_operands_and_closures(call):
    x = devrt.device_put(X)

    def branch(pred):
        return lax.cond(pred, lambda a: {"y": a + x}, lambda a: {"y": a - x}, x)

    np.testing.assert_array_equal(call(branch, True)["y"], X + X)
    np.testing.assert_array_equal(call(branch, False)["y"], X - X)
    np.testing.assert_array_equal(call(branch, np.float32(2))["y"], X + X)


def test_cond_in_its_other_forms(call):
    assert call(lambda p: lax.cond(p, 1, lambda a: a, 2, lambda b: -b), False) == -2
    assert call(lambda p: lax.cond(p, lambda a: a, lambda a: -a, operand=3), True) == 3


def test_switch_clamps_its_index(call):
    branches = [lambda a: a, lambda a: a * 2, lambda a: a * 3]
    results = [call(lambda i: lax.switch(i, branches, 5), i) for i in (-4, 0, 1, 2, 9)]
    assert results == [5, 5, 10, 15, 15]
    assert call(lambda i: lax.switch(i, branches[:1], 5), 3) == 5


def test_while_loop_and_a_number_that_gives_way(call):
    result = call(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c + x, 0), np.float32(1.5))
    assert (result, result.dtype) == (10.5, np.float32)


def test_fori_loop_with_bounds_of_python_and_of_arrays(call):
    def sums(n, x):
        static = lax.fori_loop(1, 4, lambda i, c: c + i * x, x)
        return static, lax.fori_loop(1, n, lambda i, c: (c[0] + i, c[1] + x), (0, x))

    static, (total, vector) = call(sums, devrt.device_put(np.int32(4)), X)
    np.testing.assert_array_equal(static, X * 7)
    assert total == 6
    np.testing.assert_array_equal(vector, X * 4)


def test_the_counter_of_a_loop_gives_way_to_what_it_is_added_to(call):
    total = call(lambda x: lax.fori_loop(0, 3, lambda i, c: c + i, x), np.int8(1))
    assert (total, total.dtype) == (4, np.int8)


def test_a_loop_of_no_turns(call):
    assert call(lambda x: lax.fori_loop(3, 1, lambda i, c: c + x, x), np.int32(7)) == 7


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(call, reverse):
    def step(carry, x):
        return carry + x["a"].sum(), (carry, x["b"] * 2)

    xs = {"a": np.arange(6, dtype=np.float32).reshape(3, 2), "b": np.arange(3)}
    carry, (before, doubled) = call(lambda xs: lax.scan(step, 0.0, xs, reverse=reverse), xs)
    sums = xs["a"].sum(1)
    order = slice(None, None, -1 if reverse else 1)
    expected = np.concatenate([[0], np.cumsum(sums[order])])
    assert carry == expected[-1]
    np.testing.assert_array_equal(before, expected[:-1][order])
    np.testing.assert_array_equal(doubled, xs["b"] * 2)


def test_scan_without_arrays_and_without_turns(call):
    carry, nothing = call(lambda x: lax.scan(lambda c, _: (c * x, None), 1, length=5), np.int32(2))
    assert (carry, nothing) == (32, None)
    empty = np.zeros((0, 3), np.float32)
    carry, stacked = call(lambda x: lax.scan(lambda c, a: (c + 1, a * 2), 0, x, unroll=4), empty)
    assert (carry, stacked.shape, stacked.dtype) == (0, (0, 3), np.float32)


def test_map_takes_trees(call):
    pair = call(lambda x: lax.map(lambda e: (e[0] * e[1], e[0]), (x, x), batch_size=2), X)
    np.testing.assert_array_equal(pair[0], X * X)
    np.testing.assert_array_equal(pair[1], X)


def test_loops_within_loops_close_over_what_is_around_them():
    @jit
    def nested(x, factor):
        def outer(c, a):
            inner = lax.fori_loop(0, 4, lambda i, s: s + a * i * factor, 0.0)
            return c + inner, lax.cond(a < 1, lambda: a * factor, lambda: -a)

        return lax.scan(outer, 0.0, x)

    carry, stacked = devrt.device_get(nested(X, np.float32(2)))
    assert carry == 36
    np.testing.assert_array_equal(stacked, [0, -1, -2])


def test_an_array_that_is_closed_over_is_no_constant():
    table = devrt.device_put(np.arange(1000, dtype=np.float32))
    total = lax.fori_loop(0, 3, lambda i, c: c + table, table)
    np.testing.assert_array_equal(total, np.arange(1000) * 4)


def test_the_same_functions_are_traced_once_and_their_programs_end_with_them():
    count = 0

    def step(c, x):
        nonlocal count
        count += 1
        return c + x, None

    for k in range(3):
        assert float(lax.scan(step, 0.0, X + k)[0]) == 3 + 3 * k
    assert count == 1
    before, function = len(_programs), weakref.ref(step)
    del step
    gc.collect()
    assert (function(), len(_programs)) == (None, before - 1)


BAD = {
    "dtypes": (lambda x: lax.cond(True, lambda: 1, lambda: 2.0), "false_fun is float32.*int32"),
    "trees": (lambda x: lax.cond(True, lambda: x, lambda: (x, x)), r"\(float32\[3\], float32\[3\]"),
    "switch": (lambda x: lax.switch(0, [lambda: x, lambda: x[0]]), r"branch 0 is .*branch 1 is "),
    "path": (
        lambda x: lax.scan(lambda c, a: ({"w": c["w"] + x}, a), {"w": 0.0}, x),
        r"\['w'\] is float32\[\] and .*\['w'\] is float32\[3\]",
    ),
    "fori": (lambda x: lax.fori_loop(0, 3, lambda i, c: (c, c), 0), "takes is int32.*returns is"),
    "while": (lambda x: lax.while_loop(lambda c: c, lambda c: c, 0), "cond_fun.* bool scalar"),
    "while body": (
        lambda x: lax.while_loop(lambda c: True, lambda c: x, x[0]),
        r"takes is float32\[\] and the one that it returns is float32\[3\]",
    ),
    "pair": (lambda x: lax.scan(lambda c, a: c, 0.0, x), "returns a pair"),
    "pred": (lambda x: lax.cond(x, lambda: 1, lambda: 2), r"predicate is a scalar.*float32\[3\]"),
    "index": (lambda x: lax.switch(1.0, [lambda: 1, lambda: 2]), "index is an integer scalar"),
    "bound": (
        lambda x: lax.fori_loop(0, 2.5, lambda i, c: c, 0),
        "bounds are of one dtype, not int32 and float32",
    ),
    "function": (lambda x: lax.cond(True, 1, 2), "takes a function, not 1"),
    "no pred": (lambda x: lax.cond(None, lambda: 1, lambda: 2), "is a scalar, not None"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_with_both_sides_and_the_line(call, case):
    function, message = BAD[case]
    with pytest.raises(InvalidTypeError, match=f"(?s)^lax.*{message}") as caught:
        call(function, devrt.device_put(X))
    if "function" not in case:
        assert __file__ in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, None), "no arrays to go along, and no length"),
        ((0, 3.0), "has no first dimension"),
        ((0, (X, X[:2])), "sizes 3, 2"),
        ((0, X, 2), "length is 2, and the first dimensions have size 3"),
    ],
)
def test_scan_needs_one_length(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        lax.scan(lambda c, a: (c, a), *arguments)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (0, 3.0),
        (np.float32(0), 3),
        (np.int8(0), np.int16(3)),
        (np.uint32(0), 3),
        (True, 3),
    ],
)
def test_bounds_of_two_dtypes_are_refused(lower, upper):
    with pytest.raises(InvalidTypeError, match="the bounds are of one dtype"):
        lax.fori_loop(lower, upper, lambda i, c: c + 1, 0)
    with pytest.raises(InvalidTypeError, match="the bounds are of one dtype"):
        jit(lambda a, b: lax.fori_loop(a, b, lambda i, c: c + 1, 0))(np.int32(0), np.uint8(3))


def test_a_number_of_pythons_gives_way_to_the_other_bound():
    seen = []
    found = lax.fori_loop(devrt.numpy.int8(0), 3, lambda i, c: c + i, 0)
    jit(lambda n: lax.fori_loop(0, n, lambda i, c: seen.append(i.dtype) or c, 0))(np.int8(3))
    assert int(found) == 3
    assert {str(dtype) for dtype in seen} == {"int8"}
    nothing = lax.fori_loop(3, 0, lambda i, c: c + i, 5)
    assert (int(nothing), nothing.dtype) == (5, np.int32)
