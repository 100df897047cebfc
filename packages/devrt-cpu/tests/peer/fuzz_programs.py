"""Runs random programs under jax and under devrt, on the same plugin, and compares.

``python fuzz_programs.py --seeds 0:1000 [--peer PYTHON]``, by a Python that has devrt and its
compiler; the peer is one that has jax, by default the same. Each seed says everything of its
program: operations, shapes, dtypes, donation, mesh and shardings. How the arguments come in (their
layout, their alignment, lent or copied) is drawn from the seed too. Compared are the results, which
arguments a call took, and where the parts of sharded arguments and results lie.

The exit status is 1 if something differs. The seeds that do are kept in ``--keep``.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

__all__ = ["check", "made"]

HERE = Path(__file__).parent
DEVICES = 8
BATCH = 50
KEEPS_NANS = "xla_cpu_enable_fast_min_max"  # off, where devrt compiles without it
# How far results may be apart on another compiler, jax's own, by the bytes of a number. It adds up
# in another order, and wide numbers may show what was computed in narrow ones.
TOLERANCE = {1: 0.13, 2: 0.02, 4: 0.02, 8: 0.02}


def made(folder, first, last, peer, plugin):
    """Have jax make programs on a PJRT plugin, or on its own CPU; yields their paths."""
    environment = os.environ | {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
    }
    if plugin is not None:
        environment |= {
            "JAX_PLATFORMS": "xlacpu",
            "FUZZ_PLUGIN": plugin,
            "XLA_FLAGS": flags_of(plugin),
        }
    script = HERE / "random_programs.py"
    command = [peer, "-W", "ignore", str(script), str(folder), str(first), str(last)]
    subprocess.run(command, check=True, env=environment, timeout=1200)
    for seed in range(first, last):
        yield folder / str(seed)


def flags_of(plugin):
    """Return the flags that jax needs to compile as devrt does."""
    from devrt_cpu import _library

    quirks = _library.choose(plugin).quirks
    return f"--{KEEPS_NANS}=false" if any(KEEPS_NANS in quirk.flags for quirk in quirks) else ""


def check(client, path, exact):
    """Run one program; returns what differs from what jax found.

    Parameters
    ----------
    client
        With as many devices as jax had, at least.
    path
        The program's, without a suffix.
    exact
        Whether the results must be the same to the last bit.
    """
    facts = json.loads(path.with_suffix(".json").read_text())
    code = path.with_suffix(".mlirbc").read_bytes()
    with np.load(path.with_suffix(".npz")) as stored:
        inputs = [typed(stored[f"in{i}"], name) for i, name in enumerate(facts["in"])]
        expected = [typed(stored[f"out{i}"], name) for i, name in enumerate(facts["out"])]
    if facts["mesh"] is None:
        return single(client, code, inputs, expected, facts, exact, int(path.name))
    return sharded(client, code, inputs, expected, facts, exact)


def typed(stored, name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    return stored if stored.dtype == dtype else stored.view(dtype)


def single(client, code, inputs, expected, facts, exact, seed):
    random = np.random.default_rng(seed)
    executable = client.compile_and_load(code)
    sources = [arranged(random, array) for array in inputs]
    buffers = [
        client.buffer_from_pyval(source, host_buffer_semantics=int(random.integers(0, 3)))
        for source in sources
    ]
    results = executable.execute(buffers)
    found = [np.asarray(result) for result in results]
    problems = differences(found, expected, exact)
    deleted = [i for i, buffer in enumerate(buffers) if buffer.is_deleted()]
    # jax keeps what it could not donate: on platforms that it does not know by name, as the
    # plugin's, everything; elsewhere arrays that show memory of NumPy's.
    if deleted != executable.donated_parameters or not set(facts["deleted"]) <= set(deleted):
        problems.append(f"deleted {deleted} and jax {facts['deleted']}")
    for i, (source, array) in enumerate(zip(sources, inputs, strict=True)):
        if not same_bits(np.ascontiguousarray(source), array):
            problems.append(f"the source of argument {i} was written to")
        if i not in deleted and not same_bits(np.asarray(buffers[i]), array):
            problems.append(f"argument {i} was written to")
    if not deleted:
        again = [np.asarray(result) for result in executable.execute(buffers)]
        problems += [f"again: {output}" for output in differences(again, found, True)]
    return problems


def arranged(random, array):
    """Return the same values as they may lie in memory: transposed, backwards, apart, askew."""
    kind = int(random.integers(5))
    if kind == 0:
        return array.copy(order="F")
    if kind == 1 and array.ndim:
        return np.ascontiguousarray(array[::-1])[::-1]
    if kind == 2 and array.ndim:
        apart = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        apart[..., ::2] = array
        return apart[..., ::2]
    if kind == 3:
        storage = np.zeros(array.nbytes + array.itemsize, np.uint8)
        askew = storage[array.itemsize :].view(array.dtype).reshape(array.shape)
        askew[...] = array
        return askew
    return array


def sharded(client, code, inputs, expected, facts, exact):
    from devrt.arrays import device_put
    from devrt.programs import load_program, mesh_of

    sizes = [size for _, size in facts["mesh"]]
    devices = client.local_devices()[: int(np.prod(sizes))]
    mesh = mesh_of([tuple(axis) for axis in facts["mesh"]], devices)
    program = load_program(code, client, mesh=mesh)
    problems = []
    for what, shardings, shapes in (
        ("in", program.in_shardings, [a.shape for a in inputs]),
        ("out", program.out_shardings, [a.shape for a in expected]),
    ):
        for i, (sharding, shape) in enumerate(zip(shardings, shapes, strict=True)):
            found = places(sharding, shape, devices)
            if found != facts[f"{what}_places"][i]:
                problems.append(f"{what}{i} lies as {sharding}, and for jax elsewhere")
    arrays = [device_put(a, s) for a, s in zip(inputs, program.in_shardings, strict=True)]
    results = [np.asarray(result) for result in program(*arrays)]
    return problems + differences(results, expected, exact)


def places(sharding, shape, devices):
    found = sharding.devices_indices_map(shape)
    return [
        [list(part.indices(n)[:2]) for part, n in zip(found[d], shape, strict=True)]
        for d in devices
    ]


def differences(found, expected, exact):
    if len(found) != len(expected):
        return [f"{len(found)} results instead of {len(expected)}"]
    return [
        f"out{i}: {output}"
        for i, (a, b) in enumerate(zip(found, expected, strict=True))
        if (output := difference(a, b, exact))
    ]


def difference(found, expected, exact):
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    if same_bits(found, expected):
        return ""
    if expected.dtype.kind in "iub" or expected.dtype.name in ("int4", "uint4"):
        return f"{found.tolist()} instead of {expected.tolist()}"
    is_complex = expected.dtype.kind == "c"
    wide = "complex128" if is_complex else "float64"
    tolerance = 0 if exact else TOLERANCE[expected.dtype.itemsize // (1 + is_complex)]
    a, b = found.astype(wide), expected.astype(wide)
    if np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
        return ""
    return f"{a.tolist()} instead of {b.tolist()}"


def same_bits(a, b):
    return a.tobytes() == b.tobytes()


def main():
    from devrt_cpu import _library, make_cpu_client

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="0:200", help="FIRST:LAST, the last left out")
    parser.add_argument("--peer", default=os.environ.get("PEER_PYTHON", sys.executable))
    parser.add_argument("--own", action="store_true", help="jax's own CPU, not the plugin")
    parser.add_argument("--keep", type=Path, help="a folder for the seeds that differ")
    given = parser.parse_args()
    first, last = (int(number) for number in given.seeds.split(":"))
    plugin = None if given.own else _library.choose().path
    client = make_cpu_client(num_devices=DEVICES)
    wrong = 0
    for start in range(first, last, BATCH):
        with tempfile.TemporaryDirectory() as folder:
            stop = min(start + BATCH, last)
            for path in made(Path(folder), start, stop, given.peer, plugin):
                problems = examined(client, path, plugin is not None)
                wrong += bool(problems)
                for problem in problems:
                    say(f"seed {path.name}: {problem[:400]}")
                if problems and given.keep:
                    given.keep.mkdir(parents=True, exist_ok=True)
                    for file in path.parent.glob(f"{path.name}.*"):
                        shutil.copy(file, given.keep)
    say(f"{last - first} programs, {wrong} differ")
    return 1 if wrong else 0


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def examined(client, path, exact):
    from devrt.errors import DevrtError

    try:
        return check(client, path, exact)
    except DevrtError as error:
        return [f"{type(error).__name__}: {error}"]


if __name__ == "__main__":
    sys.exit(main())
