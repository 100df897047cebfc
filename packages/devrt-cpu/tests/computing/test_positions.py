"""Elements by position: taken, put, chosen, and found; eagerly and in traces."""

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt.errors import (
    ConcretizationTypeError,
    InvalidArgumentError,
    NonConcreteBooleanIndexError,
)
from devrt.programs.jit import jit

X = np.array([[0, 3, 0], [4, 0, 5]], np.int32)


def same(got, want):
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for each, wanted in zip(got, want, strict=True):
            same(each, wanted)
        return
    assert np.shape(got) == np.shape(want)
    np.testing.assert_array_equal(got, want)


def test_where_elements_are_true():
    x = devrt.device_put(X)
    same(dnp.nonzero(x), np.nonzero(X))
    same(dnp.where(x > 3), np.where(X > 3))
    same(dnp.flatnonzero(x), np.flatnonzero(X))
    same(dnp.argwhere(x), np.argwhere(X))
    same(dnp.extract(x > 0, x), np.extract(X > 0, X))
    same(dnp.compress(np.array([True, False, True]), x, axis=1), X[:, [0, 2]])
    same(x.compress(np.array([False, True]), axis=0), X[1:])
    same(x[x > 3], X[X > 3])
    assert dnp.nonzero(x)[0].dtype == np.int32
    with pytest.raises(InvalidArgumentError, match="nonzero of an array without dimensions"):
        dnp.nonzero(x[0, 0])


def test_in_a_trace_positions_have_a_size():
    def found(x):
        return (
            dnp.nonzero(x, size=2),
            dnp.nonzero(x, size=5, fill_value=-1),
            dnp.flatnonzero(x, size=7),
            dnp.argwhere(x > 3, size=3, fill_value=9),
            dnp.compress(x[0] > 0, x[1], size=2, fill_value=-7),
            dnp.where(x > 0, size=1),
        )

    gives = jit(found)(X)
    same(gives[0], (np.array([0, 1]), np.array([1, 0])))
    same(gives[1], (np.array([0, 1, 1, -1, -1]), np.array([1, 0, 2, -1, -1])))
    same(gives[2], np.array([1, 3, 5, 0, 0, 0, 0]))
    same(gives[3], np.array([[1, 0], [1, 2], [9, 9]]))
    same(gives[4], np.array([0, -7]))
    same(gives[5], (np.array([0]), np.array([1])))
    with pytest.raises(ConcretizationTypeError, match=r"test_positions.*size="):
        jit(dnp.nonzero)(X)
    with pytest.raises(NonConcreteBooleanIndexError, match=r"devrt\.numpy\.where"):
        jit(lambda x: x[x > 1])(X)
    same(jit(lambda x: x[np.array([True, False])])(X), X[:1])
    same(jit(lambda x: x.at[x > 3].set(0))(X), np.where(X > 3, 0, X))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("indices", [1, [0, 1], [[1, 0], [-1, 0]]])
def test_take(axis, indices):
    same(dnp.take(devrt.device_put(X), indices, axis), np.take(X, indices, axis))


def test_take_out_of_bounds():
    x = devrt.device_put(np.arange(5, dtype=np.float32))
    i = np.array([7, -7, 2])
    assert np.isnan(np.asarray(dnp.take(x, i))).tolist() == [True, True, False]
    assert dnp.take(x, i, mode="clip").tolist() == [4, 0, 2]
    assert dnp.take(x, i, mode="wrap").tolist() == [2, 3, 2]
    assert dnp.take(x, i, fill_value=-1).tolist() == [-1, -1, 2]
    assert dnp.take(np.arange(5, dtype=np.uint8), i).tolist() == [255, 255, 2]
    with pytest.raises(InvalidArgumentError, match="nothing is raised on devices"):
        dnp.take(x, i, mode="raise")
    with pytest.raises(InvalidArgumentError, match=r"axis 3.*1 dimensions"):
        dnp.take(x, i, axis=3)


def test_along_an_axis():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(3, 4, 2)).astype(np.float32)
    for axis in (0, 1, -1):
        order = np.argsort(y, axis=axis)
        same(dnp.take_along_axis(y, order, axis), np.take_along_axis(y, order, axis))
        first = order.take([0], axis)
        want = y.copy()
        np.put_along_axis(want, first, 9, axis)
        same(dnp.put_along_axis(y, first, 9, axis), want)
    same(dnp.take_along_axis(y, np.array([3, 5]), None), y.ravel()[[3, 5]])
    with pytest.raises(InvalidArgumentError, match="immutable"):
        dnp.put_along_axis(y, first, 9, -1, inplace=True)


def test_choose():
    choices = [np.arange(3), np.arange(10, 13), np.array([7])]
    same(dnp.choose(np.array([0, 1, 2]), choices), np.choose([0, 1, 2], choices))
    for mode in ("clip", "wrap"):
        at = np.array([-1, 4, 1])
        same(dnp.choose(at, choices, mode=mode), np.choose(at, choices, mode=mode))
    with pytest.raises(InvalidArgumentError, match="no choice among 3"):
        dnp.choose(np.array([0, 3, 1]), choices)
