"""Sums, means and their like, beside NumPy."""

import ml_dtypes
import numpy as np
import pytest

import devrt.numpy as jnp
from beside_numpy import check, compare
from devrt import lax
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.jit import jit

pytestmark = pytest.mark.engine

RANDOM = np.random.default_rng(1)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
M = RANDOM.standard_normal((3, 4)) > 0
C = (X[0] + 1j * X[1]).astype(np.complex64)
NAMES = "sum prod max min mean std var all any argmax argmin ptp count_nonzero".split()
OF_SEVERAL = "sum prod max min mean std var".split()


def test_along_axes():
    check([lambda m, x, f=f: getattr(m, f)(x) for f in NAMES], X)
    check([lambda m, x, f=f: getattr(m, f)(x, axis=1) for f in NAMES], X)
    check([lambda m, x, f=f: getattr(m, f)(x, axis=-1, keepdims=True) for f in NAMES], X)
    check([lambda m, x, f=f: getattr(m, f)(x, axis=(0, -1)) for f in OF_SEVERAL], X)


def test_where_and_initial():
    cases = [
        lambda m, x, mask, f=f: getattr(m, f)(
            x, axis=1, where=mask, **({"initial": -2.0} if f in ("max", "min") else {})
        )
        for f in OF_SEVERAL
    ]
    cases += [
        lambda m, x, mask: m.sum(x, initial=3.0),
        lambda m, x, mask: m.prod(x, initial=2.0, axis=0),
        lambda m, x, mask: m.max(x, initial=9.0),
        lambda m, x, mask: (
            m.all(x > 0, where=mask) if m is np else m.all(jnp.less(0, x), where=mask)
        ),
        lambda m, x, mask: m.std(x, ddof=1),
        lambda m, x, mask: m.var(x, correction=1, axis=0),
    ]
    check(cases, X, M | (np.arange(4) < 2))


def test_methods():
    check([lambda m, x: x.sum(1), lambda m, x: x.mean(), lambda m, x: x.max(axis=0)], X)
    check([lambda m, c: m.mean(c), lambda m, c: m.var(c, axis=0), lambda m, c: m.prod(c)], C)


def test_cumulative():
    check(
        [
            lambda m, x: m.cumsum(x),
            lambda m, x: m.cumsum(x, axis=1),
            lambda m, x: m.cumprod(x, axis=-1),
            lambda m, x: m.cumulative_sum(x, axis=1, include_initial=True),
            lambda m, x: m.cumulative_prod(x, axis=0, include_initial=True),
        ],
        X,
    )


def test_a_long_cumulative_sum_is_as_numpys():
    x = np.ones(100_000, np.float32)
    np.testing.assert_array_equal(jnp.cumsum(x), np.cumsum(x))


DTYPES = "bool int8 uint8 int32 uint32 int64 float16 bfloat16 float32 float64 complex64".split()
OF_SUMS = "int32 int32 uint32 int32 uint32 int64 float16 bfloat16 float32 float64 complex64".split()
OF_CUMSUMS = (
    "int32 int8 uint8 int32 uint32 int64 float16 bfloat16 float32 float64 complex64".split()
)
OF_MEANS = ["float32"] * 5 + "float64 float16 bfloat16 float32 float64 complex64".split()
OF_VARIANCES = ["float32"] * 5 + "float64 float16 bfloat16 float32 float64 float32".split()


def test_dtypes():
    arrays = [jnp.ones((2, 2), getattr(jnp, dtype)) for dtype in DTYPES if dtype != "bool"]
    arrays.insert(0, jnp.asarray(np.ones((2, 2), bool)))
    for names, expected in (
        (("sum", "prod", "trace"), OF_SUMS),
        (("cumsum", "cumprod"), OF_CUMSUMS),
        (("mean",), OF_MEANS),
        (("var", "std"), OF_VARIANCES),
    ):
        for name in names:
            function = getattr(jnp, name)
            results = jit(lambda *xs, f=function: [f(x) for x in xs])(*arrays)
            assert [str(x.dtype) for x in results] == expected, name
    assert jnp.argmax(arrays[3]).dtype == np.int32
    assert jnp.sum(arrays[1], dtype=float).dtype == np.float32


def test_limits_and_results_of_classes_of_numpy():
    assert jnp.iinfo(np.int8).max == 127
    assert jnp.finfo(np.float32).bits == 32
    assert jnp.result_type(np.int8, np.int16) == np.int16


def test_small_fractions_are_summed_in_32_bits():
    x = np.full(4096, 1, np.float16)
    assert float(jnp.sum(x)) == 4096  # in float16 it would stop at 2048
    assert float(jnp.mean(x)) == 1


def test_not_a_number_wins():
    x = np.array([[1, np.nan, 3, np.nan], [4, 5, 6, 5]], np.float32)
    check(
        [
            lambda m, x: m.max(x, axis=1),
            lambda m, x: m.min(x),
            lambda m, x: m.argmax(x, axis=1),
            lambda m, x: m.argmin(x, axis=1),
            lambda m, x: m.argmax(x),
        ],
        x,
    )
    infinite = np.full((3, 2), -np.inf, np.float32)
    compare([jnp.argmax(infinite, axis=0)], [np.zeros(2, np.int32)])


def test_complex_extremes_are_by_real_part_first():
    c = np.array([[1 + 2j, 1 + 3j], [0 + 9j, 1 + 2j]], np.complex64)
    check([lambda m, c: m.max(c, axis=0), lambda m, c: m.min(c), lambda m, c: m.max(c)], c)


def test_of_no_elements():
    x = np.zeros((0, 3), np.float32)
    assert jnp.sum(x).item() == 0
    np.testing.assert_array_equal(jnp.prod(x, axis=0), np.ones(3, np.float32))
    for call in (lambda: jnp.max(x), lambda: jnp.argmin(x, axis=0)):
        with pytest.raises(InvalidArgumentError, match=r"no elements.*float32\[0,3\]"):
            call()
    assert jnp.cumsum(x, axis=0).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jnp.sum(X, axis=3), "axis 3.*3 dimensions"),
        (lambda: jnp.sum(X, axis=(0, 0)), "twice"),
        (lambda: jnp.sum(X, out=X), "immutable"),
        (lambda: jnp.max(X, where=X > 0), "initial="),
        (lambda: jnp.var(X, ddof=1, correction=1), "correction"),
        (lambda: jnp.cumulative_sum(X), "needs an axis"),
        (lambda: jnp.sum(X, axis="x"), "'x'"),
    ],
)
def test_what_does_not_fit(call, words):
    with pytest.raises(InvalidArgumentError, match=words):
        call()


def test_lists_are_no_arrays():
    with pytest.raises(InvalidTypeError):
        jnp.sum([1, 2])


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.bfloat16])
def test_extremes_of_the_dtypes_that_numpy_lacks(dtype):
    """float8_e4m3fn has no infinity, and NumPy no limits of int4."""
    x = np.array([-1, -3, 2], dtype)
    found = jnp.max(x), jnp.min(x), jnp.argmax(x), jnp.argmin(x), lax.reduce_max(x, (0,))
    assert [float(each) for each in found] == [2, -3, 2, 1, 2]


def test_the_extremes_of_complex_numbers_count_the_initial_one_and_leave_out():
    x, mask = np.array([1 + 2j, 3 - 1j], np.complex64), np.array([True, False])
    assert complex(jnp.max(x, initial=0, where=mask)) == 1 + 2j
    assert complex(jnp.max(x, initial=5)) == 5
    assert complex(jnp.min(x, initial=0j)) == 0
    rows = np.stack([x, -x, 1j * x])
    found = jnp.max(rows, axis=1, initial=1, keepdims=True)
    np.testing.assert_array_equal(found, [[3 - 1j], [1], [1 + 3j]])
    assert complex(jnp.min(np.zeros(0, np.complex64), initial=2)) == 2
