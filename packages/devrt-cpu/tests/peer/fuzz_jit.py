"""Runs random programs, traced from Python, under jax and under devrt, and compares.

``python fuzz_jit.py --seeds 0:1000 [--jax PYTHON]``, by a Python that has devrt and a compiler; the
other one has jax, and is by default the same. A seed says everything of its program: functions,
shapes, dtypes, loops and branches, gradients, meshes, shardings, collectives. Programs run as they
are, as jitted ones, as gradients, on sharded arguments, and on each device of a mesh.

Results that differ by more than the tolerance are compared once more, with what each element moves
where the arguments are moved by some roundings: no arithmetic gives the sine of 500,000 alike.

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
LEAST = 1e-3
"""What results below are compared with: gradients of a mean are small, and noise is smaller."""
LIMIT = 1800
"""Seconds for the programs of one batch under jax."""
NUDGES = 4
"""Times that arguments are moved; what an element moved most, as often, is allowed."""


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
    differences = differing(found, expected, names, [0] * len(names))
    return differences and differing(found, expected, names, spreads(ns, seed, found))


def differing(*of_results):
    return "; ".join(filter(None, (difference(*each) for each in zip(*of_results, strict=True))))


def spreads(ns, seed, found):
    """Return how far each element moves where the arguments do, by some roundings."""
    moved = [results(ns, seed, nudge)[0] for nudge in range(1, NUDGES + 1)]
    with np.errstate(invalid="ignore"):
        far = [
            [np.abs(wide(b) - wide(a)) for b in others]
            for a, *others in zip(found, *moved, strict=True)
        ]
    return [NUDGES * np.nan_to_num(np.max(each, axis=0), posinf=np.inf) for each in far]


def wide(x):
    return x.astype(np.complex128)


def difference(found, expected, name, spread):
    """Return where a result differs by more than the tolerance and a spread, or nothing."""
    if found.shape != expected.shape:
        return f"{found.shape} instead of {expected.shape}"
    a, b = wide(found), wide(expected)
    finite = np.abs(b[np.isfinite(b)])
    size = max(LEAST, float(finite.max(initial=0)))
    tolerance = TOLERANCE.get(name, 2e-3 if np.dtype(expected.dtype).kind in "fc" else 0)
    atol = tolerance * size + spread
    is_close = np.isclose(a, b, rtol=tolerance, atol=atol, equal_nan=True)
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
