"""The gradient of each operation is what numerical differences say."""

import numpy as np
import pytest

from devrt import tracing
from devrt.tracing import DotDimensions, dot_general, gathering, nary, reduce, select, unary
from devrt.tracing.aval import shaped

pytestmark = pytest.mark.engine
RNG = np.random.default_rng(7)


def small(*shape):
    """Return numbers between -0.9 and 0.9, none near 0."""
    return np.sign(RNG.normal(size=shape)) * RNG.uniform(0.1, 0.9, size=shape)


def positive(*shape):
    return RNG.uniform(1.2, 2.5, size=shape)


def complexes(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def of(name):
    return lambda x: unary(name, x)


def of_two(name):
    return lambda x, y: nary(name, x, y)


ANYWHERE = """
    negate abs exponential exponential_minus_one log_plus_one logistic sine cosine tan tanh sign
    floor ceil round_nearest_even cbrt chlo.acos chlo.asin chlo.atan chlo.asinh chlo.atanh
    chlo.cosh chlo.sinh chlo.square chlo.erf chlo.erfc chlo.erf_inv
""".split()
POSITIVE = ["log", "sqrt", "rsqrt", "chlo.acosh", "chlo.lgamma", "chlo.digamma"]
OF_COMPLEX = "negate exponential log sine cosine tanh sqrt rsqrt chlo.conj".split()
OF_TWO = "add subtract multiply divide power maximum minimum remainder atan2".split()

ELEMENTWISE = {
    **{name: (of(name), small(6)) for name in ANYWHERE},
    **{name: (of(name), positive(6)) for name in POSITIVE},
    **{f"{name} of complex": (of(name), complexes(5)) for name in OF_COMPLEX},
    **{name: (of_two(name), positive(2, 3), positive(2, 3)) for name in OF_TWO},
    "multiply of complex": (of_two("multiply"), complexes(4), complexes(4)),
    "divide of complex": (of_two("divide"), complexes(4), complexes(4)),
    "multiply of one value": (lambda x: nary("multiply", x, x), small(4)),
    "broadcast": (of_two("multiply"), small(2, 1, 3), small(4, 1)),
    "abs of complex": (lambda z: unary("abs", z, np.dtype("float64")), complexes(4)),
    "real": (lambda z: unary("real", z, np.dtype("float64")), complexes(4)),
    "imag": (lambda z: unary("imag", z, np.dtype("float64")), complexes(4)),
    "complex": (
        lambda x, y: tracing.emit_one(
            "stablehlo.complex", (x, y), shaped((4,), np.dtype("complex128"))
        ),
        small(4),
        small(4),
    ),
    "polygamma": (
        lambda x: nary("chlo.polygamma", tracing.as_value(1.0 * np.ones(4)), x),
        positive(4),
    ),
    "select": (lambda x, y: select(tracing.compare("GT", x, 0.0), x, y), small(5), small(5)),
    "clamp": (lambda x: tracing.clamp(-0.5, x, 0.5), small(8)),
    "clamp with bounds": (
        tracing.clamp,
        np.full(4, -0.5),
        np.array([-0.8, 0.1, 0.3, 0.9]),
        np.full(4, 0.55),
    ),
    "convert": (lambda x: tracing.convert(x, np.dtype("complex128")), small(3)),
}

MOVING = {
    "reshape": (lambda x: tracing.reshape(x, (3, 2)), small(2, 3)),
    "transpose": (lambda x: tracing.transpose(x, (2, 0, 1)), small(2, 3, 4)),
    "broadcast_in_dim": (lambda x: tracing.broadcast_in_dim(x, (3, 2, 4), (2, 0)), small(1, 3)),
    "reverse": (lambda x: tracing.reverse(x, (1,)), small(2, 3)),
    "slice": (lambda x: tracing.slice_(x, (1, 0), (8, 3), (3, 2)), small(9, 4)),
    "pad": (lambda x, v: tracing.pad(x, v, (1, 0), (0, 2), (2, 0)), small(3, 2), small()),
    "pad that takes away": (
        lambda x, v: tracing.pad(x, v, (-1, 2), (3, -1), (0, 0)),
        small(4, 4),
        small(),
    ),
    "pad that spreads and takes away": (
        lambda x, v: tracing.pad(x, v, (-2, 0), (-1, 0), (1, 0)),
        small(5, 2),
        small(),
    ),
    "concatenate": (lambda x, y: tracing.concatenate([x, y, x], 1), small(2, 1), small(2, 3)),
    "dynamic_slice": (
        lambda x, i: gathering.dynamic_slice(x, [i, 0], (2, 3)),
        small(5, 3),
        np.int32(4),
    ),
    "dynamic_update_slice": (
        lambda x, u, i: gathering.dynamic_update_slice(x, u, [i, 1]),
        small(5, 3),
        small(2, 2),
        np.int32(1),
    ),
}

CONTRACTING = {
    "sum": (lambda x: reduce("add", x, 0, [0, 2]), small(2, 3, 4)),
    "max": (lambda x: reduce("maximum", x, -np.inf, [1]), small(3, 5)),
    "min": (lambda x: reduce("minimum", x, np.inf, [0]), small(3, 5)),
    "prod": (lambda x: reduce("multiply", x, 1, [0, 2]), small(3, 2, 5)),
    "prod with a zero": (lambda x: reduce("multiply", x, 1, [0]), np.array([2.0, 0.0, 3.0, -1.0])),
    "dot": (lambda x, y: dot_general(x, y, DotDimensions((1,), (0,))), small(2, 3), small(3, 4)),
    "dot of two dimensions": (
        lambda x, y: dot_general(x, y, DotDimensions((3, 1), (0, 2), (0,), (3,))),
        small(2, 3, 4, 5),
        small(5, 4, 3, 2),
    ),
    "outer": (lambda x, y: dot_general(x, y, DotDimensions((), ())), small(2), small(3)),
    "dot of complex": (
        lambda x, y: dot_general(x, y, DotDimensions((0,), (0,))),
        complexes(3, 2),
        complexes(3),
    ),
}


@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(group, name, id=name)
        for group in (ELEMENTWISE, MOVING, CONTRACTING)
        for name in group
    ],
)
def test_the_gradient_is_that_of_differences(differences, group, name):
    by_rules, by_differences = differences(group, name)
    assert by_rules == pytest.approx(by_differences, rel=2e-6, abs=2e-8)
