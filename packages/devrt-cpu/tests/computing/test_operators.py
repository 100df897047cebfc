"""Operators and methods of arrays, NumPy's functions on them, and what they refuse."""

import enum
import operator

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
import devrt_cpu
from devrt.errors import InvalidTypeError, TracerArrayConversionError
from devrt.programs.jit import jit

X = np.array([1.0, -2.5, 3.0, 7.5], np.float32)
Y = np.array([2.0, 2.0, -1.5, 3.0], np.float32)
N = np.array([5, -7, 9, 2], np.int32)
K = np.array([2, 3, 1, 4], np.int32)

ARITHMETIC = "add sub mul truediv floordiv mod pow eq ne lt le gt ge".split()
BITS = "and_ or_ xor lshift rshift".split()


@pytest.fixture(scope="module")
def x():
    return devrt.device_put(X)


@pytest.mark.parametrize(
    ("names", "left", "right"), [(ARITHMETIC, X, Y), (BITS, N, K)], ids=["fractions", "integers"]
)
def test_operators_on_either_side(names, left, right):
    for name in names:
        function = getattr(operator, name)
        with np.errstate(all="ignore"):
            want = function(left, right)
        for a, b in ((1, 1), (1, 0), (0, 1)):
            got = function(
                devrt.device_put(left) if a else left, devrt.device_put(right) if b else right
            )
            assert type(got) is devrt.Array
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)


def test_operators_with_numbers_keep_the_dtype(x):
    for got, want in (
        (x + 1, X + 1),
        (1 - x, 1 - X),
        (x * 2.5, X * np.float32(2.5)),
        (7 // x, 7 // X),
        (x % 2, X % 2),
        (-x, -X),
        (+x, X),
        (abs(x), abs(X)),
        (round(x, 0), np.round(X)),
        (x**2, X**2),
        (np.float32(2) * x, 2 * X),
    ):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert (devrt.device_put(N) + 1).dtype == np.int32
    assert (devrt.device_put(N) + 1.5).dtype == np.float32
    quotient, rest = divmod(x, 2)
    np.testing.assert_array_equal(quotient * 2 + rest, X)
    assert (~devrt.device_put(N)).tolist() == (~N).tolist()


def test_fractions_are_as_exact_as_the_array():
    wide = devrt.device_put(np.arange(3, dtype=np.float64))
    assert (wide * 0.1).tolist() == (np.arange(3) * 0.1).tolist()
    assert (wide * 0.1).dtype == np.float64


def test_a_number_is_a_parameter_so_that_a_loop_compiles_once(x):
    x * 0.5
    programs = dnp.multiply._cache_size()
    for i in range(20):
        assert (x * (i + 0.5)).tolist() == (X * np.float32(i + 0.5)).tolist()
    assert dnp.multiply._cache_size() == programs


def test_in_place_operators_bind_a_new_array(x):
    y = x
    y += 1
    assert y is not x
    assert (x.tolist(), y.tolist()) == (X.tolist(), (X + 1).tolist())


def test_iteration_and_membership(x):
    assert [float(each) for each in x] == X.tolist()
    assert [float(each) for each in reversed(x)] == X[::-1].tolist()
    assert [row.shape for row in devrt.device_put(np.ones((2, 3)))] == [(3,), (3,)]
    with pytest.raises(TypeError, match="iteration over an array without dimensions"):
        iter(x[0])
    a, *rest = x
    assert (float(a), len(rest)) == (1, 3)


def test_equality_of_what_is_no_array(x):
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    for compare in (lambda: x == [1], lambda: x == [1], lambda: x + tuple("a")):
        with pytest.raises(InvalidTypeError, match=r"of an array and a (list|tuple).*numpy.array"):
            compare()
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "a"


class _Level(enum.IntEnum):
    TWO = 2


class _Length(float):
    pass


@pytest.mark.parametrize(
    ("number", "dtype"), [(_Level.TWO, "int32"), (_Length(2), "float32")], ids=["int", "float"]
)
def test_a_number_of_a_class_of_somebodys_own_is_one_of_pythons(number, dtype):
    x = dnp.arange(3)
    for made in (x * number, jit(lambda x, n: x * n)(x, number)):
        assert made.dtype == dtype
        np.testing.assert_array_equal(made, [0, 2, 4])


def test_a_number_that_the_dtype_does_not_hold():
    small = devrt.device_put(np.arange(3, dtype=np.uint8))
    for compute in (lambda: small + 300, lambda: small - -1, lambda: small < 300):
        with pytest.raises(InvalidTypeError, match=r"of an array of uint8 and .* does not hold it"):
            compute()
    assert (small + 200).tolist() == [200, 201, 202]


def test_item_assignment_names_at(x):
    with pytest.raises(InvalidTypeError, match=r"test_operators.*x = x\.at\[index\]\.set\(y\)"):
        x[0] = 1


def test_numpys_functions_are_devrts(x):
    for got, want in (
        (np.sin(x), np.sin(X)),
        (np.add(X, x), X + X),
        (np.where(x > 1, x, 0), np.where(X > 1, X, 0)),
        (np.divide(x, 2), X / 2),
    ):
        assert type(got) is devrt.Array
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert np.array_equal(x, X) is True
    assert np.allclose(X, x) is True


def test_in_a_trace_numpys_arrays_leave_operators_to_values(x):
    got = jit(lambda v: X + v * np.float32(2))(x)
    np.testing.assert_allclose(got, X * 3)
    with pytest.raises(TracerArrayConversionError, match=r"devrt\.numpy"):
        jit(np.sin)(x)
    with pytest.raises(InvalidTypeError, match=r"\.at\[index\]"):
        jit(lambda v: v.__setitem__(0, 1))(x)


def test_methods(x):
    assert x.astype("int32").tolist() == [1, -2, 3, 7]
    assert x.clip(0, 3).tolist() == [1, 0, 3, 3]
    assert x.round().tolist() == np.round(X).tolist()
    assert (x.real is not None, x.imag.tolist()) == (True, [0, 0, 0, 0])
    assert x.conj().tolist() == X.tolist()
    assert x.view("int32").tolist() == X.view(np.int32).tolist()
    assert x.tobytes() == X.tobytes()
    assert (3 in x, 4 in x) == (True, False)


def test_arrays_over_several_devices_are_computed_with_where_they_lie():
    client = devrt_cpu.make_cpu_client(num_devices=4)
    try:
        mesh = devrt.Mesh(np.array(client.devices(), dtype=object), ("x",))
        host = np.arange(32, dtype=np.float32).reshape(8, 4)
        x = devrt.device_put(host, devrt.NamedSharding(mesh, devrt.P("x")))
        y = dnp.sin(x) * 2 + 1
        assert y.sharding.is_equivalent_to(x.sharding, 2)
        np.testing.assert_allclose(y, np.sin(host) * 2 + 1, rtol=1e-5)
        np.testing.assert_array_equal(x[3], host[3])
        np.testing.assert_array_equal(x[2:7:2], host[2:7:2])
        np.testing.assert_array_equal(x[np.array([5, 0])], host[[5, 0]])
        np.testing.assert_array_equal(x.at[6].set(0)[6], np.zeros(4))
        assert len(x.at[6].set(0).devices()) == 4
        assert (x[0] + 1).committed
        one = devrt.device_put(host, client.devices()[1])
        assert (one + 1).devices() == {client.devices()[1]}
    finally:
        client.close()
