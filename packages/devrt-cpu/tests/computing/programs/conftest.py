"""Programs written in devrt beside what JAX and PyTorch exported of the same: see ``README.md``."""

import os
from pathlib import Path

import numpy as np
import pytest

from devrt.programs import load_program

FOLDERS = Path(__file__).parent, Path(__file__).parents[2] / "programs"
LARGER = Path(os.environ.get("STABLEHLO_CASES") or "/nonexistent") / "programs" / "bench"


@pytest.fixture(scope="session")
def recorded():
    """The function that returns a program's recorded arguments and results."""

    def read(name):
        (path,) = (p for folder in FOLDERS if (p := folder / f"{name}.npz").exists())
        with np.load(path) as data:
            counts = [sum(key.startswith(kind) for key in data.files) for kind in ("in", "out")]
            return tuple(
                [data[f"{kind}{i}"] for i in range(count)]
                for kind, count in zip(("in", "out"), counts, strict=True)
            )

    return read


@pytest.fixture(scope="session")
def agrees(recorded):
    """The function that runs a program on what was recorded, and compares results.

    Where ``STABLEHLO_CASES`` names a folder with exported programs at larger sizes, ``larger``, or
    the same function, is also run beside the larger one, on what ``draw`` makes of a random
    generator and of its arguments' shapes and dtypes. The first ``updated`` results are arguments
    after a small step: what they changed by is compared as well.
    """

    def compare(name, function, *, larger=None, draw=None, rtol=1e-4, updated=0):
        arguments, wanted = recorded(name)
        got = function(*arguments)
        same(got, wanted, rtol)
        changes = [changes_of(arguments, results, updated) for results in (got, wanted)]
        same(*changes, 20 * rtol)
        if (path := LARGER / f"{name}.mlirbc").exists():
            program = load_program(path.read_bytes())
            rng = np.random.default_rng(0)
            arguments = (draw or small_numbers)(rng, program.in_avals)
            same((larger or function)(*arguments), program(*arguments), 10 * rtol)

    return compare


def changes_of(arguments, results, count):
    pairs = zip(results[:count], arguments[:count], strict=True)
    return [np.asarray(result) - argument for result, argument in pairs]


def small_numbers(rng, avals):
    """Return small numbers for every argument."""
    return [rng.normal(scale=0.1, size=shape).astype(dtype) for shape, dtype in avals]


def same(got, wanted, rtol):
    """Compare results: floats within a relative error of the largest, everything else exactly."""
    assert len(got) == len(wanted)
    for i, (mine, other) in enumerate(zip(map(np.asarray, got), wanted, strict=True)):
        other = np.asarray(other).view(mine.dtype)
        assert mine.shape == other.shape, f"result {i}"
        if mine.dtype.kind in "biu":
            np.testing.assert_array_equal(mine, other, f"result {i}")
            continue
        if mine.dtype.kind == "V":
            mine, other = mine.astype(np.float32), other.astype(np.float32)
        atol = rtol * float(np.max(np.abs(other)))
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=atol, err_msg=f"result {i}")
