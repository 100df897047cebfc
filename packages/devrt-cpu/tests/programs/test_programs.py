"""Exported programs, text and bytecode, on one device and sharded, against their known results."""

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from devrt.errors import DevrtError, UnimplementedError
from devrt_cpu import make_cpu_client

pytestmark = pytest.mark.engine

OURS = Path(__file__).parents[1] / "programs"
MORE = Path(os.environ.get("STABLEHLO_CASES") or "/nonexistent") / "programs"

# What this compiler refuses, and its own reason.
REFUSED = {
    "mlp_symbolic_batch": "dynamic_broadcast_in_dim",
    "transformer_block_symbolic_batch": "dynamic_broadcast_in_dim",
    "rng_sampling.mlirbc": "composite_v2",
}
SHARDED = ("gspmd_mlp", "shard_map_dp")


def _more():
    folders = (MORE, MORE / "torch")
    return sorted(p for f in folders for p in [*f.glob("*.mlir"), *f.glob("*.mlirbc")])


def _values(path, specs):
    """Return arguments and results; bfloat16 is stored as raw bits."""
    stored = np.load(path.with_suffix(".npz"))

    def read(name, dtype):
        array = stored[name]
        return array.view(dtype) if dtype == ml_dtypes.bfloat16 else array

    def names(kind):
        return [f"{kind}{i}" for i in range(sum(key.startswith(kind) for key in stored.files))]

    arguments = [read(n, dtype) for n, (_, dtype) in zip(names("in"), specs[0], strict=True)]
    results = [read(n, dtype) for n, (_, dtype) in zip(names("out"), specs[1], strict=True)]
    return arguments, results


def _place(shape, sharding, partition):
    """Return the part of an array of a shape that a partition has."""
    if not sharding.partitions:
        return (...,)
    tiles = sharding.tile_of(partition)
    counts = sharding.partitions
    return tuple(
        slice(tile * (n // count), (tile + 1) * (n // count))
        for n, tile, count in zip(shape, tiles, counts, strict=True)
    )


def _check(path):
    if path.stem.startswith("linalg"):
        pytest.importorskip("scipy", reason="needs SciPy")
    is_sharded = path.name.startswith(SHARDED)
    with make_cpu_client(num_devices=4) as client:
        executable = client.compile_and_load(path.read_bytes())
        arguments, expected = _values(path, (executable.parameters, executable.outputs))
        devices = executable.local_devices()
        assert len(devices) == (4 if is_sharded else 1)
        inputs = executable.get_parameter_shardings()
        outputs = executable.get_output_shardings()
        rows = []
        for i, value in enumerate(arguments):
            parts = [
                _place(value.shape, inputs[i], d) if inputs else (...,) for d in range(len(devices))
            ]
            rows.append([client.buffer_from_pyval(np.array(value[part]), device)
                         for part, device in zip(parts, devices, strict=True)])  # fmt: skip
        results = executable.execute_sharded(rows)
        for i, value in enumerate(expected):
            for d, result in enumerate(results[i]):
                part = value[_place(value.shape, outputs[i], d)] if outputs else value
                _compare(np.asarray(result), part)
        assert client.engine_stats()["bytes_copied"] == 0


def _compare(found, expected):
    if found.dtype == ml_dtypes.bfloat16:
        found, expected = found.astype(np.float32), expected.astype(np.float32)
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2)
    elif found.dtype.kind in "fc":
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "path", [*OURS.glob("*.mlir"), *OURS.glob("*.mlirbc")], ids=lambda p: p.name
)
def test_a_program_gives_its_known_results(path):
    _check(path)


@pytest.mark.stress
@pytest.mark.parametrize("path", _more(), ids=lambda p: p.name)
def test_a_program_that_this_machine_has(path):
    reason = REFUSED.get(path.name) or REFUSED.get(path.stem)
    if reason is None:
        _check(path)
        return
    with pytest.raises(DevrtError, match=reason), make_cpu_client() as client:
        client.compile_and_load(path.read_bytes())


def test_bytecode_that_is_not_read_to_its_end_gets_lapack(client, monkeypatch):
    def stop(walk):
        raise ValueError

    monkeypatch.setattr("devrt.compiling.bytecode._Walk.run", stop)
    monkeypatch.setattr("devrt_cpu._linalg._addresses", lambda: None)
    code = (OURS / "linalg.mlirbc").read_bytes()
    with pytest.raises(
        UnimplementedError,
        match=r"lapack_\w+_ffi, which needs LAPACK.*\./packages/devrt-cpu\[linalg",
    ):
        client.compile_and_load(code)
