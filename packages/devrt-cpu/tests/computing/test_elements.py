"""Functions of elements beside NumPy's, signs of zeros included, and special cases of their own."""

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt.programs.jit import jit

SPECIAL = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3.7, -3.7, np.inf, -np.inf, np.nan, 1e-3, 100.0]
F = np.array(SPECIAL, np.float32)
X, Y = np.meshgrid(F, F)
RNG = np.random.default_rng(3)
M, N = (RNG.integers(-9, 9, 40).astype(np.int32) for _ in "ij")

UNARY = """
    abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil conj cos cosh deg2rad exp exp2 expm1
    fabs fix floor i0 imag isfinite isinf isnan isneginf isposinf isreal log log10 log1p log2
    logical_not modf nan_to_num negative positive rad2deg real reciprocal rint sign signbit sin sinc
    sinh spacing sqrt square tan tanh trunc frexp angle
""".split()
BINARY = """
    add arctan2 copysign equal fmax fmin fmod greater greater_equal heaviside hypot isclose less
    less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum multiply
    nextafter not_equal power remainder subtract true_divide
""".split()
INTEGERS = """
    add bitwise_and bitwise_or bitwise_xor divmod floor_divide fmod gcd lcm maximum minimum multiply
    remainder subtract
""".split()
COMPLEX = """
    abs angle arccos arccosh arcsin arctan arctanh conj cosh exp imag isfinite isinf isnan log log10
    log1p log2 negative real reciprocal sign sinh sqrt square tan tanh
""".split()

# Where a zero's sign is the standard's, or left open by both.
SIGNS_DIFFER = {"maximum", "minimum", "fmax", "fmin", "logaddexp2"}


def compared(names, *arguments):
    """Return functions of devrt, all in one program, and NumPy's, of some arguments."""
    gives = jit(lambda *values: [getattr(dnp, name)(*values) for name in names])(*arguments)
    with np.errstate(all="ignore"):
        return zip(names, gives, [getattr(np, name)(*arguments) for name in names], strict=True)


def check(name, got, want, rtol):
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True)
    for each, wanted in pairs:
        host = np.asarray(each)
        assert host.dtype == wanted.dtype, name
        np.testing.assert_allclose(host, wanted, rtol, atol=1e-6, err_msg=name)
        if host.dtype.kind == "f" and name not in SIGNS_DIFFER:
            known = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(host[known]), np.signbit(wanted[known]), name)


@pytest.mark.parametrize(
    ("names", "arguments", "rtol"),
    [(UNARY, (F,), 2e-6), (BINARY, (X, Y), 2e-6), (INTEGERS, (M, N), 0)],
    ids=["unary", "binary", "integers"],
)
def test_functions_of_elements(names, arguments, rtol):
    for name, got, want in compared(names, *arguments):
        check(name, got, want, rtol)


def test_functions_of_complex_numbers():
    z = (RNG.normal(size=30) + 1j * RNG.normal(size=30)).astype(np.complex64)
    for name, got, want in compared(COMPLEX, z):
        check(name, got, want, 1e-4)


def test_a_complex_infinity_is_infinitely_large():
    z = np.array([complex(np.inf, np.nan), complex(np.nan, -np.inf), 3 + 4j])
    assert dnp.abs(z).tolist() == [np.inf, np.inf, 5]


def test_exponentials_and_logarithms_of_complex_infinities():
    z = np.array([complex(-np.inf, np.nan), complex(np.inf, np.inf), complex(np.nan, -np.inf)])
    assert dnp.exp(z)[0].item() == 0
    assert dnp.expm1(z)[0].item() == -1
    for function in (dnp.exp, dnp.expm1):
        assert dnp.real(function(z)[1]).item() == np.inf
    for function in (dnp.log, dnp.log1p, dnp.log2):
        assert dnp.real(function(z)).tolist() == [np.inf] * 3


def test_floor_divide_of_an_infinity_is_infinite():
    x, y = np.array([np.inf, -np.inf, 1, -1, 0.0]), np.array([2.0, 2.0, 0.0, 0.0, -2.0])
    got = np.asarray(dnp.floor_divide(x, y))
    assert got.tolist() == [np.inf, -np.inf, np.inf, -np.inf, 0]
    assert np.signbit(got[4])


def test_integers_divided_by_zero_are_zero():
    x = np.array([3, -3, 0], np.int32)
    for function in (dnp.floor_divide, dnp.remainder, dnp.fmod):
        assert function(x, np.zeros(3, np.int32)).tolist() == [0, 0, 0]


def test_powers():
    x = devrt.device_put(np.array([1.0, 2.0, -3.0], np.float32))
    assert (x**2).tolist() == [1, 4, 9]
    assert (x**-1).tolist() == pytest.approx([1, 0.5, -1 / 3])
    assert (x**0).tolist() == [1, 1, 1]
    assert (2**x).tolist() == [2, 4, 0.125]
    assert (dnp.arange(4) ** 3).tolist() == [0, 1, 8, 27]
    with pytest.raises(ValueError, match=r"int32 and -1.*no powers below 0"):
        dnp.arange(4) ** -1


def test_rounding_of_integers_and_decimals():
    x = np.array([150, 250, -149, -50, -150, 49])
    assert dnp.round(x, -2).tolist() == np.round(x, -2).tolist()
    y = np.array([1.25, -2.675, 1234.5], np.float32)
    np.testing.assert_allclose(dnp.round(y, 1), np.round(y, 1))
    np.testing.assert_allclose(dnp.round(y, -2), np.round(y, -2))


def test_choices():
    x = np.arange(6.0, dtype=np.float32)
    assert dnp.where(x > 2, x, 0).tolist() == [0, 0, 0, 3, 4, 5]
    assert dnp.clip(x, 1, 3).tolist() == [1, 1, 2, 3, 3, 3]
    assert dnp.clip(np.array([1, 200], np.uint8), -1, 300).tolist() == [1, 200]
    assert dnp.select([x > 4, x > 2], [x, 10], -1).tolist() == [-1, -1, -1, 10, 10, 5]
    got = dnp.piecewise(x, [x < 2, x > 3], [-1, lambda v: v * 2, 7])
    assert got.tolist() == [-1, -1, 7, 7, 8, 10]
    assert dnp.nan_to_num(np.float32([np.nan, np.inf]), nan=1, posinf=2).tolist() == [1, 2]


def test_bits():
    x = devrt.device_put(np.array([1.0, -2.0], np.float32))
    assert x.view("int32").tolist() == np.asarray(x).view(np.int32).tolist()
    assert x.view("uint8").tolist() == np.asarray(x).view(np.uint8).tolist()
    assert x.view("complex64").tolist() == [1 - 2j]
    assert dnp.bitwise_count(np.array([-1, 7, 0], np.int8)).tolist() == [1, 3, 0]
    assert (np.array([-3, 3], np.int32) >> dnp.array([40, 1])).tolist() == [-1, 1]
    assert dnp.ldexp(np.float32([0.5, 1e-30]), np.array([3, 100])).tolist() == pytest.approx(
        [4, 1e-30 * 2.0**100]
    )


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        ("subtract", (np.ones(2, bool), np.ones(2, bool)), "subtract of bool, bool"),
        ("negative", (np.ones(2, bool),), "negative of bool.*signed, unsigned"),
        ("bitwise_and", (np.ones(2), np.ones(2)), "bitwise_and of float64, float64.*bool, signed"),
        ("floor", (np.ones(2, complex),), "floor of complex128"),
        ("add", (np.ones(2), np.ones(3)), r"add: the shapes \(2,\) and \(3,\)"),
        ("add", ([1], 2), "list"),
        ("gcd", (F > 0, True), "gcd of bool"),
    ],
)
def test_operands_that_do_not_fit(function, arguments, words):
    with pytest.raises(ValueError, match=words):
        getattr(dnp, function)(*arguments)
