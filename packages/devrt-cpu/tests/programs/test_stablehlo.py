"""StableHLO's own interpreter, math and conformance tests, where a machine has them.

openxla/stablehlo, Apache-2.0. They lie in the folder that STABLEHLO_CASES names; they are too large
for the repository.
"""

import contextlib
import json
import os
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError
from devrt_cpu import make_cpu_client

pytestmark = pytest.mark.engine

DTYPES = {
    "i1": np.dtype(bool),
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"ui{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"i{n}": np.dtype(getattr(ml_dtypes, f"int{n}")) for n in (2, 4)},
    **{f"ui{n}": np.dtype(getattr(ml_dtypes, f"uint{n}")) for n in (2, 4)},
    **{f"f{n}": np.dtype(f"float{n}") for n in (16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
    **{
        name: np.dtype(getattr(ml_dtypes, "float8_" + name[2:].lower()))
        for name in (
            "f8E3M4", "f8E4M3", "f8E4M3FN", "f8E4M3B11FNUZ", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ",
        )
    },
}  # fmt: skip


@cache
def _find():
    """Return the folder of the collections, or None."""
    folder = Path(os.environ.get("STABLEHLO_CASES") or "/nonexistent")
    return folder if folder.is_dir() else None


def _index():
    """Return the cases of StableHLO's own tests; empty without them."""
    folder = _find()
    if folder is None or not (folder / "stablehlo" / "index.json").is_file():
        return []
    return json.loads((folder / "stablehlo" / "index.json").read_text())["cases"]


@cache
def _suite(name):
    """Return the arrays of one suite."""
    folder = _find()
    assert folder is not None
    return np.load(folder / "stablehlo" / f"{name}.npz")


def _as_dtype(array, dtype):
    """Return an array that may be stored as raw bits in its own dtype."""
    wanted = DTYPES[dtype]
    if array.dtype == wanted:
        return array
    return array.view(wanted) if array.dtype.itemsize == wanted.itemsize else array.astype(wanted)


def _bits(array):
    """Return values whose distance is the number of values between them (ULPs)."""
    size = array.dtype.itemsize
    raw = np.ascontiguousarray(array).view(f"u{size}").astype(np.uint64)
    sign = np.uint64(1 << (8 * size - 1))
    return np.where(raw & sign, -(raw & ~sign).astype(np.int64), raw.astype(np.int64))


def _mismatch(found, expected, check):
    """Return what is wrong with a result; empty if it passes its check."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    if check["kind"] == "eq":
        wrong = _differs(found, expected)
    elif check["kind"] == "almost_eq":
        wrong = _differs(found, expected) & ~_near(found, expected, check.get("atol", 1e-4))
    else:
        wrong = _apart(found, expected, min(check["max_ulp"], 1 << 62))
    return f"{int(np.sum(wrong))} of {wrong.size} values differ" if np.any(wrong) else ""


def _differs(a, b):
    return np.asarray((a != b) & ~((a != a) & (b != b)))


def _near(a, b, atol):
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(a.astype(wide) - b.astype(wide)) <= atol)


def _apart(a, b, ulps):
    if a.dtype.kind == "c":
        return _apart(a.real, b.real, ulps) | _apart(a.imag, b.imag, ulps)
    if a.dtype.kind in "iub":
        return _differs(a, b)
    # float: a difference of two int64 may not fit one
    distance = np.abs(_bits(a).astype(np.float64) - _bits(b).astype(np.float64))
    return (distance > ulps) & _differs(a, b) & ~_near(a, b, _rounding(b))


def _rounding(expected):
    """Return how far sums in another order may be off: the data are one compiler's results."""
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    return 4 * float(ml_dtypes.finfo(expected.dtype).eps) * float(finite.max(initial=0))


CASES = {case["id"]: case for case in _index() if case["kind"] in ("single", "spmd")}

NEWEST = "lammps-jax-pjrt-cpu"

# Types that no compiler has; what some do not survive.
SIX_BITS = "interpret/constant/constant_op_test_f6_"
BOOLEANS = "interpret/bitcast_convert/bitcast_convert_op_test_i1_to_i64"

# Operations that are newer than some of the compilers.
NEWER = ("interpret/chlo/mulhi/", "interpret/chlo/scan/")


@pytest.fixture(scope="module")
def eight():
    with make_cpu_client(num_devices=8) as client:
        yield client


def _run(client, case):
    """Run a case; returns what is wrong, one line for each output."""
    arrays = _suite(case["suite"])
    name = case["id"]
    program = arrays[f"{name}/module.mlir"]
    program = program if isinstance(program, bytes) else program.item()
    if case["kind"] == "single":
        parts = [("", case)]
        executable = client.compile_and_load(program)
    else:
        parts = [(f"p{i}_", part) for i, part in enumerate(case["process"])]
        executable = client.compile_and_load(
            program, num_replicas=case["replicas"], num_partitions=case["partitions"]
        )
    shards = [
        [
            client.buffer_from_pyval(
                _as_dtype(arrays[f"{name}/{prefix}in{i}"], spec["dtype"]), device
            )
            for i, spec in enumerate(part["inputs"])
        ]
        for (prefix, part), device in zip(parts, executable.local_devices(), strict=True)
    ]
    results = executable.execute_sharded(list(zip(*shards, strict=True)))
    wrong = []
    for d, (prefix, part) in enumerate(parts):
        for i, (spec, check) in enumerate(zip(part["outputs"], part["checks"], strict=True)):
            if f"{name}/{prefix}out{i}" not in arrays:
                continue  # nobody wrote down what is right: that it runs is the check
            expected = _as_dtype(arrays[f"{name}/{prefix}out{i}"], spec["dtype"])
            trouble = _mismatch(np.asarray(results[i][d]), expected, check)
            if trouble:
                wrong.append(f"{prefix}out{i}: {trouble}")
    return wrong


@pytest.mark.stress
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_case_of_stablehlo(eight, name, cpu_quirks, cpu_library):
    case = CASES[name]
    cases = {quirk.case for quirk in cpu_library.quirks}
    if name == BOOLEANS and "bitcast_of_booleans" in cpu_quirks:
        with pytest.raises(UnimplementedError, match="bitcast_convert"):
            _run(eight, case)
        return
    if name.startswith(SIX_BITS):
        if "constant_of_six_bits" in cases:
            pytest.skip("ends the process")
        with pytest.raises(InvalidArgumentError, match="type is not supported"):
            _run(eight, case)
        return
    if name.startswith(NEWER) and cpu_library.wheel != NEWEST:
        with pytest.raises((InvalidArgumentError, UnimplementedError), match=r"unknown|`scan`"):
            _run(eight, case)
        return
    if case["xla_cpu"] == "pass":
        assert _run(eight, case) == []
        return
    # The compiler's own limit, seen under JAX: a typed error, or the same few values off.
    with contextlib.suppress(DevrtError):
        _run(eight, case)
