"""Sorted arrays, places in them, distinct elements and sets, beside NumPy."""

import numpy as np
import pytest

import devrt.numpy as jnp
from beside_numpy import check, compare, flat
from devrt import lax
from devrt.errors import ConcretizationTypeError, InvalidArgumentError
from devrt.programs.jit import jit

pytestmark = pytest.mark.engine

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((3, 4)).astype(np.float32)
I = RANDOM.integers(0, 5, 20).astype(np.int32)  # noqa: E741
C = (RANDOM.integers(0, 2, 6) + 1j * RANDOM.integers(0, 3, 6)).astype(np.complex64)
N = np.array([2, np.nan, -0.0, 0.0, -np.inf, 1, np.nan], np.float32)


def test_sorted():
    check(
        [
            lambda m, x, i, c, n: m.sort(x),
            lambda m, x, i, c, n: m.sort(x, axis=0),
            lambda m, x, i, c, n: m.sort(x, axis=None),
            lambda m, x, i, c, n: m.argsort(i, stable=True),
            lambda m, x, i, c, n: m.argsort(x, axis=0),
            lambda m, x, i, c, n: m.sort(c),
            lambda m, x, i, c, n: m.sort(n),
            lambda m, x, i, c, n: m.argsort(n, stable=True),
            lambda m, x, i, c, n: m.lexsort((i, i[::-1])),
            lambda m, x, i, c, n: m.lexsort((x, -x), axis=0),
            lambda m, x, i, c, n: m.sort(m.partition(x, 1))[..., :2],
        ],
        X,
        I,
        C,
        N,
    )


def test_in_descending_order():
    compare([jnp.sort(I, descending=True)], [np.sort(I)[::-1]])
    expected = np.argsort(-I, kind="stable")
    compare([jnp.argsort(I, descending=True)], [expected.astype(np.int32)])


def test_places():
    ordered, edges = np.sort(I), np.array([0, 2, 2, 4], np.int32)
    check(
        [
            lambda m, a, i, e: m.searchsorted(a, i),
            lambda m, a, i, e: m.searchsorted(a, i, side="right"),
            lambda m, a, i, e: m.searchsorted(a, 2),
            lambda m, a, i, e: m.digitize(i, e),
            lambda m, a, i, e: m.digitize(i, e, right=True),
            lambda m, a, i, e: m.digitize(i, e[::-1]),
            lambda m, a, i, e: m.isin(i, e),
            lambda m, a, i, e: m.isin(i, e, invert=True),
        ],
        ordered,
        I,
        edges,
    )
    compare([jnp.searchsorted(np.sort(N), N, side="left")], [np.searchsorted(np.sort(N), N)])
    order = np.argsort(I)
    compare([jnp.searchsorted(I, 3, sorter=order)], [np.searchsorted(I, 3, sorter=order)])


def test_distinct_elements():
    for a in (I, I.reshape(4, 5), N, np.zeros(0, np.float32), C):
        options = {"return_index": True, "return_inverse": True, "return_counts": True}
        compare(flat(jnp.unique(a, **options)), flat(np.unique(a, **options)))
    rows = np.array([[1, 2], [0, 5], [1, 2], [0, 4]], np.int32)
    for axis in (0, 1):
        got = jnp.unique(rows, axis=axis, return_index=True, return_counts=True)
        compare(flat(got), flat(np.unique(rows, axis=axis, return_index=True, return_counts=True)))
    assert np.asarray(jnp.unique_values(N)).size == 6  # each NaN is one of its own
    compare(flat(tuple(jnp.unique_counts(I))), flat(np.unique(I, return_counts=True)))


def test_distinct_elements_in_a_trace():
    values, counts = jit(lambda i: jnp.unique(i, return_counts=True, size=7, fill_value=-1))(I)
    expected = np.unique(I, return_counts=True)
    compare([values], [np.append(expected[0], [-1] * (7 - expected[0].size))])
    compare([counts], [np.append(expected[1], [0] * (7 - expected[0].size))])
    with pytest.raises(ConcretizationTypeError, match="size="):
        jit(lambda i: jnp.unique(i))(I)


def test_sets():
    other = np.array([3, 9, 1, 3, -2], np.int32)
    for name in ("union1d", "setdiff1d", "intersect1d", "setxor1d"):
        compare([getattr(jnp, name)(I, other)], [getattr(np, name)(I, other)])
    got = jnp.intersect1d(I, other, return_indices=True)
    compare(got, np.intersect1d(I, other, return_indices=True))
    got = jit(lambda x, y: jnp.setdiff1d(x, y, size=6, fill_value=-9))(I, other)
    expected = np.setdiff1d(I, other)
    compare([got], [np.append(expected, [-9] * (6 - expected.size))])


def test_sets_of_nothing():
    none = I[:0]
    for name in ("union1d", "setdiff1d", "intersect1d", "setxor1d"):
        for pair in ((none, none), (none, I), (I, none)):
            compare([getattr(jnp, name)(*pair)], [getattr(np, name)(*pair)])
    filled = np.array([-9, -9], np.int32)
    compare([jit(lambda x: jnp.setdiff1d(x, x, size=2, fill_value=-9))(none)], [filled])
    compare([jnp.unique(none, size=2, fill_value=-9)], [filled])


def test_edited():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for case in (
        lambda m, x: m.append(x, x),
        lambda m, x: m.append(x, x[:1], axis=0),
        lambda m, x: m.delete(x, 1, axis=0),
        lambda m, x: m.delete(x, [0, -1], axis=1),
        lambda m, x: m.delete(x, slice(None, None, 2)),
        lambda m, x: m.delete(x, slice(None), 0),
        lambda m, x: m.insert(x, 1, 5),
        lambda m, x: m.insert(x, 1, 5, axis=1),
        lambda m, x: m.insert(x, [1, 3], 7, axis=1),
        lambda m, x: m.insert(x, 1, np.array([1, 2, 3, 4], np.float32), axis=0),
        lambda m, x: m.insert(x, [1, 1, -1], np.array([8, 9, 7], np.float32)),
        lambda m, x: m.insert(x, -1, np.array([1, 2, 3], np.float32), axis=1),
        lambda m, x: m.resize(x, (5, 3)),
        lambda m, x: m.resize(x, 5),
        lambda m, x: m.trim_zeros(m.append(m.append(0 * x[0], x[1]), 0 * x[0])),
    ):
        compare(flat(case(jnp, jnp.asarray(x))), flat(case(np, x)))
    for call in (lambda: jnp.delete(x, 9, axis=0), lambda: jnp.insert(x, 9, 0, axis=1)):
        with pytest.raises(InvalidArgumentError, match="9 is no index"):
            call()


def test_approximate_extremes_are_exact():
    x = np.float32([[3, -1, 2], [0, 5, 4]])
    values, indices = lax.approx_max_k(x, 2, recall_target=0.5)
    np.testing.assert_array_equal(values, [[3, 2], [5, 4]])
    np.testing.assert_array_equal(indices, [[0, 2], [1, 2]])
    values, indices = lax.approx_min_k(x, 1, 0)
    np.testing.assert_array_equal(values, [[0, -1, 2]])
    np.testing.assert_array_equal(indices, [[1, 0, 0]])
    with pytest.raises(InvalidArgumentError, match=r"approx_max_k.*fractions, not int32"):
        lax.approx_max_k(np.arange(3, dtype=np.int32), 1)
