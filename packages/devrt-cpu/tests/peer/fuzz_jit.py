"""Runs random programs, traced from Python, under jax and under devrt, and compares.

``python fuzz_jit.py --seeds 0:1000 [--jax PYTHON]``, by a Python that has devrt and a compiler; the
other one has jax, and is by default the same. A seed says everything of its program: functions,
shapes, dtypes, loops and branches, gradients, meshes, shardings, collectives. Programs run as they
are, as jitted ones, as gradients, on sharded arguments, and on each device of a mesh.

The exit status is 1 if results differ, or if only one of the two refuses a program; what jax has
not implemented is left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from traced_programs import DEVICES, MODES, devrt_namespace, results

BATCH = 50
TOLERANCE = {"float16": 2e-2, "bfloat16": 6e-2}
LIMIT = 1800
"""Seconds for the programs of one batch under jax."""


def made(folder, first, last, peer):
    """Have jax run the programs of some seeds."""
    environment = os.environ | {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
    }
    script = Path(__file__).with_name("traced_programs.py")
    command = [peer, "-W", "ignore", str(script), str(folder), str(first), str(last)]
    subprocess.run(command, check=True, env=environment, timeout=LIMIT)


def compared(ns, seed, path):
    """Return how the results of a seed differ from those that jax wrote."""
    with np.load(path) as stored:
        error, names = str(stored["error"]), [str(name) for name in stored["dtypes"]]
        expected = [stored[f"out{i}"] for i in range(len(names))]
    found, own = results(ns, seed)
    if error or own:
        if error and (own or "NotImplementedError" in error):
            return ""
        return f"devrt refuses: {own}" if own else f"jax refuses: {error}"
    if [a.dtype.name for a in found] != names:
        return f"{[a.dtype.name for a in found]} instead of {names}"
    pairs = zip(found, expected, names, strict=True)
    return "; ".join(filter(None, (difference(*pair) for pair in pairs)))


def difference(found, expected, name):
    if found.shape != expected.shape:
        return f"{found.shape} instead of {expected.shape}"
    a, b = found.astype(np.complex128), expected.astype(np.complex128)
    finite = np.abs(b[np.isfinite(b)])
    size = max(1.0, float(finite.max(initial=0)))
    tolerance = TOLERANCE.get(name, 2e-3 if np.dtype(expected.dtype).kind in "fc" else 0)
    is_close = np.isclose(a, b, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    if is_close.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~is_close)[0])
    return f"{name}{found.shape}: {found[at]} instead of {expected[at]} at {at}"


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", default="0:200", help="FIRST:LAST, the last left out")
    parser.add_argument("--jax", default=os.environ.get("PEER_PYTHON", sys.executable))
    given = parser.parse_args()
    first, last = (int(number) for number in given.seeds.split(":"))
    ns, wrong = devrt_namespace(), 0
    for start in range(first, last, BATCH):
        stop = min(start + BATCH, last)
        with tempfile.TemporaryDirectory() as folder:
            made(Path(folder), start, stop, given.jax)
            for seed in range(start, stop):
                found = compared(ns, seed, Path(folder) / f"{seed}.npz")
                wrong += bool(found)
                if found:
                    say(f"seed {seed}, {MODES[seed % len(MODES)]}: {found[:1500]}")
        say(f"{stop - first} programs, {wrong} differ")
    return 1 if wrong else 0


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
