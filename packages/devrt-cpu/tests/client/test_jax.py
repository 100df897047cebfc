"""The same programs under jax: what jax exports gives here what it gives there.

They need a Python that has jax: `PEER_PYTHON=/path/to/python pytest -m stress ...`. As many
random programs as `PEER_PROGRAMS` says (20), from the seed `PEER_SEED` (0) on.
"""

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "peer"))
import fuzz_programs

pytestmark = [pytest.mark.stress, pytest.mark.engine]


PYTHON = os.environ.get("PEER_PYTHON")
if PYTHON is None:
    pytest.skip("needs PEER_PYTHON, a Python that has jax", allow_module_level=True)
COUNT = os.environ.get("PEER_PROGRAMS", "20")
SEED = os.environ.get("PEER_SEED", "0")


def export(folder, count):
    """Have jax write programs of linear algebra, arguments and results."""
    script = Path(__file__).parents[1] / "peer" / "jax_programs.py"
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    subprocess.run(
        [PYTHON, "-W", "ignore", str(script), str(folder), SEED, str(count)],
        check=True,
        env=environment,
        timeout=500,
    )
    return sorted(folder.glob("*.mlirbc"))


def as_dtype(stored, dtype):
    return stored.view(ml_dtypes.bfloat16) if dtype == ml_dtypes.bfloat16 else stored


def check(client, path, tolerances):
    data = np.load(path.with_suffix(".npz"))
    executable = client.compile_and_load(path.read_bytes())
    arguments = [
        client.buffer_from_pyval(as_dtype(data[f"in{i}"], dtype))
        for i, (_, dtype) in enumerate(executable.parameters)
    ]
    results = executable.execute(arguments)
    donated = [i for i, argument in enumerate(arguments) if argument.is_deleted()]
    assert donated == executable.donated_parameters
    assert len(results) == sum(name.startswith("out") for name in data.files)
    for i, (result, (shape, dtype)) in enumerate(zip(results, executable.outputs, strict=True)):
        found, expected = np.asarray(result), as_dtype(data[f"out{i}"], dtype)
        assert (found.shape, found.dtype) == (shape, dtype)
        if dtype.kind in "iub":
            np.testing.assert_array_equal(found, expected, err_msg=f"{path.name} {i}")
            continue
        kind = "complex128" if dtype.kind == "c" else "float64"
        tolerance = tolerances[dtype.itemsize // (2 if dtype.kind == "c" else 1)]
        np.testing.assert_allclose(
            found.astype(kind),
            expected.astype(kind),
            rtol=tolerance,
            atol=tolerance,
            err_msg=f"{path.name} {i}",
        )


def test_linear_algebra(client, tmp_path):
    programs = export(tmp_path, 2)
    assert len(programs) > 100
    for path in programs:
        check(client, path, {4: 2e-3, 8: 1e-9})


@pytest.mark.parametrize("on", ["the same plugin", "jax's own CPU"])
def test_random_programs(tmp_path, on):
    from devrt_cpu import _library, make_cpu_client

    plugin = _library.choose().path if on == "the same plugin" else None
    client = make_cpu_client(num_devices=fuzz_programs.DEVICES)
    first = int(SEED)
    for path in fuzz_programs.made(tmp_path, first, first + int(COUNT), PYTHON, plugin):
        assert fuzz_programs.check(client, path, exact=plugin is not None) == [], path.name
