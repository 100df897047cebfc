"""Gradients beside numerical differences: many cases in one program."""

import numpy as np
import pytest

from devrt import tracing
from devrt.programs.differentiate import Options, value_and_gradients
from devrt.programs.jit import jit

STEP = 1e-5
_OPTIONS = Options((), False, False, False, False)


def scalar(function, weights):
    """Return a function's results times fixed weights, summed: one real number."""

    def summed(*args):
        results = function(*args)
        results = results if isinstance(results, list | tuple) else [results]
        total = None
        for result, weight in zip(results, weights, strict=True):
            part = tracing.binary("multiply", result, weight)
            if part.aval.dtype.kind == "c":
                part = tracing.unary("real", part, np.dtype("float64"))
            part = tracing.reduce("add", part, 0, range(len(part.aval.shape)))
            total = part if total is None else tracing.binary("add", total, part)
        return total

    return summed


@pytest.fixture(scope="session")
def differences():
    """The function `compare`, which remembers what it found for a group of cases."""
    known = {}

    def found(group, name):
        if id(group) not in known:
            known[id(group)] = compare(group)
        return known[id(group)][name]

    return found


def compare(cases):
    """Return for each case the derivative along one direction by the rules, and by differences.

    ``cases`` has by name a function of traced values and its arguments in float64 or complex128.
    """
    rng = np.random.default_rng(0)
    flat = [(name, fn, [np.asarray(a) for a in args]) for name, (fn, *args) in cases.items()]

    @jit
    def program(everything):
        found = []
        for (_, fn, _), (args, directions) in zip(flat, everything, strict=True):
            found.append(_both(fn, args, directions, np.random.default_rng(1)))
        return found

    given = [(args, [_direction(a, rng) for a in args]) for _, _, args in flat]
    found = program(given)
    return {
        name: tuple(float(np.asarray(x)) for x in pair)
        for (name, _, _), pair in zip(flat, found, strict=True)
    }


def _direction(x, rng):
    if x.dtype.kind == "c":
        return rng.normal(size=x.shape) + 1j * rng.normal(size=x.shape)
    return rng.normal(size=x.shape) if x.dtype.kind == "f" else np.zeros(x.shape, x.dtype)


def _both(fn, args, directions, rng):
    sizes = _results(fn, args)
    weighted = scalar(fn, [rng.normal(size=shape) for shape in sizes])
    chosen = [i for i, x in enumerate(args) if x.aval.dtype.kind in "fc"]
    options = _OPTIONS._replace(argnums=tuple(chosen))
    _, _, gradients = value_and_gradients(weighted, options, args, {})
    along = None
    for i, gradient in zip(chosen, gradients, strict=True):
        part = tracing.binary("multiply", gradient, directions[i])
        if part.aval.dtype.kind == "c":
            part = tracing.unary("real", part, np.dtype("float64"))
        part = tracing.reduce("add", part, 0, range(len(part.aval.shape)))
        along = part if along is None else tracing.binary("add", along, part)
    ends = [weighted(*_moved(args, directions, chosen, sign * STEP)) for sign in (1, -1)]
    difference = tracing.binary("subtract", *ends)
    return along, tracing.binary("divide", difference, 2 * STEP)


def _results(fn, args):
    results = fn(*args)
    results = results if isinstance(results, list | tuple) else [results]
    return [result.aval.shape for result in results]


def _moved(args, directions, chosen, step):
    return [
        tracing.binary("add", x, tracing.binary("multiply", directions[i], step))
        if i in chosen
        else x
        for i, x in enumerate(args)
    ]
