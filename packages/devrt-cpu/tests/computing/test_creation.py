"""Arrays made by traced functions, and grids and progressions, beside NumPy's."""

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt.errors import InvalidArgumentError, TracerIntegerConversionError
from devrt.programs.jit import jit

MADE = {
    "zeros": (lambda m: m.zeros((2, 3), m.float32), 0),
    "ones": (lambda m: m.ones(3, "int8"), 0),
    "full": (lambda m: m.full((2, 2), 7, "uint8"), 0),
    "full of several": (lambda m: m.full((2, 3), np.arange(3, dtype=np.int32)), 0),
    "arange": (lambda m: m.arange(5, dtype="int32"), 0),
    "a long arange": (lambda m: m.arange(3, 2000, 3, dtype="int32"), 0),
    "a long arange of fractions": (lambda m: m.arange(0, 500, 0.5, dtype="float32"), 1e-6),
    "linspace": (lambda m: m.linspace(0, 1, 7, dtype="float32"), 1e-6),
    "eye": (lambda m: m.eye(3, 4, 1, "float32"), 0),
    "identity": (lambda m: m.identity(3, "float32"), 0),
    "tri": (lambda m: m.tri(3, 4, -1, "float32"), 0),
    "tril": (lambda m: m.tril(np.ones((2, 3, 3), np.float32), 1), 0),
    "triu": (lambda m: m.triu(np.ones((3, 2), np.float32)), 0),
    "ij": (lambda m: m.meshgrid(np.arange(3), np.arange(2), indexing="ij")[1], 0),
    "xy": (lambda m: m.meshgrid(np.arange(3), np.arange(2))[0], 0),
    "sparse": (lambda m: m.meshgrid(np.arange(3), np.arange(2), sparse=True)[0], 0),
    "indices": (lambda m: m.indices((2, 3), "int32"), 0),
    "logspace": (lambda m: m.logspace(0, 3, 4, dtype="float32"), 1e-5),
    "geomspace": (lambda m: m.geomspace(1, 16, 5, dtype="float32"), 1e-5),
    "vander": (lambda m: m.vander(np.array([1.0, 2, 3]), 4), 0),
    "array": (lambda m: m.array([[1, 2], [3, 4]], dtype="float32"), 0),
    "asarray": (lambda m: m.asarray(np.arange(3.0)), 0),
    "like": (lambda m: m.zeros_like(np.ones((2, 2), np.float32)), 0),
    "copy": (lambda m: m.copy(np.arange(4)), 0),
}


def test_arrays_made_in_a_trace_and_outside_of_one():
    traced = jit(lambda: [make(dnp) for make, _ in MADE.values()])()
    for (name, (make, rtol)), inside in zip(MADE.items(), traced, strict=True):
        want, outside = make(np), make(dnp)
        for got in (inside, outside):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), name
            np.testing.assert_allclose(got, want, rtol, err_msg=name)


def test_what_is_made_of_values():
    def made(x, start):
        return (
            dnp.array([[x[0], 1], [2, x[1]]]),
            dnp.full((2, 2), x),
            dnp.full_like(x, start, dtype="int32"),
            dnp.linspace(start, x, 3),
            dnp.asarray(x, dtype=bool),
            dnp.array(3),
        )

    x = np.array([5, 0], np.float32)
    gives = jit(made)(x, 1.0)
    wants = (
        np.array([[5, 1], [2, 0]]),
        np.array([[5, 0], [5, 0]]),
        np.array([1, 1]),
        np.array([[1, 1], [3, 0.5], [5, 0]]),
        np.array([True, False]),
        np.array(3),
    )
    for got, want in zip(gives, wants, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_shape_is_known_in_a_trace():
    for make in (dnp.zeros, dnp.arange):
        with pytest.raises(TracerIntegerConversionError, match="static_argnums"):
            jit(make)(3)
    with pytest.raises(InvalidArgumentError, match=r"parts of an array differ in shape"):
        jit(lambda x: dnp.array([x, x[0]]))(np.ones(2))


def test_devices_make_a_numpy_array_of_objects():
    devices = devrt.devices()
    grid = dnp.array([devices[:1], devices[:1]])
    assert isinstance(grid, np.ndarray)
    assert (grid.dtype, grid.shape) == (object, (2, 1))
    assert grid[0, 0] is devices[0]


def test_a_step_is_returned():
    values, step = dnp.linspace(0, 1, 5, retstep=True)
    assert (values.tolist(), step) == ([0, 0.25, 0.5, 0.75, 1], 0.25)


def test_rows_and_columns():
    x = devrt.device_put(np.arange(12).reshape(3, 4))
    rows, columns = dnp.ix_(np.array([0, 2]), np.array([True, False, False, True]))
    assert x[rows, columns].tolist() == [[0, 3], [8, 11]]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ([np.ones(2), np.ones(2)], "float64"),
        ([np.float64(1)], "float64"),
        ([np.arange(2)], "int64"),
        ([np.float32(1), 2], "float32"),
        ([[1, 2], [3, 4]], "int32"),
        ([1, 2.5], "float32"),
        ([True, False], "bool"),
    ],
)
def test_a_list_takes_the_dtype_of_what_has_one_in_it(given, dtype):
    assert dnp.array(given).dtype == dtype
    np.testing.assert_array_equal(dnp.array([np.full(2, 1e300)]), np.full((1, 2), 1e300))


def test_arrays_of_pythons_numbers_give_way_to_the_others():
    half = dnp.ones(2, "bfloat16")
    made = [devrt.device_put(1.5), dnp.asarray(1.5), dnp.array(1), dnp.full((2,), 1.5)]
    made += [*devrt.device_put([2, 1.0]), devrt.device_put(1.5, devrt.devices()[0])]
    for x in made:
        assert x.weak_type
        assert (x * half).dtype == half.dtype
    traced = jit(lambda: (dnp.asarray(1.5), dnp.full((2,), 1)))()
    assert [x.weak_type for x in traced] == [True, True]
    strong = [devrt.device_put(True), dnp.asarray(1.5, "float32"), dnp.asarray([1.5])]
    strong += [devrt.device_put(np.float32(1)), dnp.full((2,), 1, "int32"), dnp.arange(3)]
    assert not any(x.weak_type for x in strong)
