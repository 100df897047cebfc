"""Functions of devrt.numpy beside NumPy's of the same name."""

import numpy as np

import devrt.numpy as jnp
from devrt.programs.jit import jit


def check(cases, *arguments, tolerance=1e-5):
    """Run each case, a function of a module and of arrays, with both modules; compare.

    The cases are traced into one program, as most of the time of each alone is the compiler's.
    """
    got = jit(lambda *arrays: [flat(case(jnp, *arrays)) for case in cases])(*arguments)
    for i, (case, results) in enumerate(zip(cases, got, strict=True)):
        compare(results, flat(case(np, *arguments)), tolerance, i)


def flat(results):
    return list(results) if isinstance(results, list | tuple) else [results]


def compare(got, expected, tolerance=1e-5, where=""):
    assert len(got) == len(expected), where
    for mine, other in zip(got, expected, strict=True):
        mine, other = np.asarray(mine), np.asarray(other)
        assert mine.shape == other.shape, f"case {where}: {mine.shape}, not {other.shape}"
        assert mine.dtype.kind == other.dtype.kind, f"case {where}: {mine.dtype}, {other.dtype}"
        if mine.dtype.kind in "fc":
            np.testing.assert_allclose(
                mine, other, rtol=tolerance, atol=tolerance, err_msg=f"case {where}"
            )
        else:
            np.testing.assert_array_equal(mine, other, f"case {where}")
