"""Runs what one version of jax exports under devrt, as text and as bytecode, and compares.

``python check_exports.py [--peer PYTHON] [--keep FOLDER]``, by a Python that has devrt and its
compiler; the peer is one that has jax, by default the same. Integers must be the same and floating
point numbers near, since jax's own compiler is another version; `EXPECTED` says what cannot run,
and `BEFORE_2025` what is refused of old versions.

The exit status is 1 if something differs, or is refused that is not expected to be.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from fuzz_programs import typed

from devrt.errors import DevrtError
from devrt.programs import load_program, mesh_of
from devrt_cpu import make_cpu_client

HERE = Path(__file__).parent
DEVICES = 8
EXPECTED = {"symbolic": "Export it for the sizes"}
BEFORE_2025 = re.compile(r"makes the custom call '(lapack|blas)_[a-z0-9]+', which nothing")
"""What devrt says of linear algebra that jax exported before its calls were typed, with _ffi."""
TOLERANCES = {"f": (1e-4, 1e-5), "c": (1e-4, 1e-4)}


def export(peer, folder):
    """Have a version of jax export its programs."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
    }
    command = [peer, str(HERE / "export_programs.py"), str(folder)]
    subprocess.run(command, check=True, env=environment, timeout=1200)


def check(client, path, facts):
    """Run one program; returns what is wrong, empty if nothing is."""
    code = path.read_bytes()
    with np.load(path.with_suffix(".npz")) as stored:
        inputs = [stored[f"in{i}"] for i in range(sum(n.startswith("in") for n in stored.files))]
        outputs = [typed(stored[f"out{i}"], name) for i, name in enumerate(facts["out"])]
    try:
        results = run(client, code, inputs, facts["mesh"])
    except DevrtError as error:
        return f"{type(error).__name__}: {error}"
    problems = [
        f"result {i}: {problem}"
        for i, (found, wanted) in enumerate(zip(results, outputs, strict=True))
        if (problem := difference(found, wanted))
    ]
    return "; ".join(problems)


def run(client, code, inputs, axes):
    if axes is None:
        executable = client.compile_and_load(code)
        buffers = [client.buffer_from_pyval(value) for value in inputs]
        return [np.asarray(result) for result in executable.execute(buffers)]
    devices = client.local_devices()[: int(np.prod([size for _, size in axes]))]
    mesh = mesh_of([(name, size) for name, size in axes], devices)
    return [np.asarray(result) for result in load_program(code, client, mesh=mesh)(*inputs)]


def difference(found, wanted):
    """Return how a result differs from jax's; empty if it does not."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{found.shape} and not {wanted.dtype}{wanted.shape}"
    if found.dtype.kind in "biu":
        return "" if np.array_equal(found, wanted) else f"{found!r} and not {wanted!r}"
    is_narrow = found.dtype.itemsize < 4
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    rtol, atol = (1e-2, 1e-2) if is_narrow else TOLERANCES[found.dtype.kind]
    same = np.isclose(found.astype(wide), wanted.astype(wide), rtol, atol, equal_nan=True)
    return "" if same.all() else f"{int((~same).sum())} of {same.size} values differ"


def say(line):
    sys.stdout.write(line + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--keep", type=Path, help="where the exports are left, or found")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "index.json").exists():
            export(given.peer, folder)
        return report(folder)


def report(folder):
    index = json.loads((folder / "index.json").read_text())
    wrong = ran = 0
    with make_cpu_client(num_devices=DEVICES) as client:
        for name, facts in index["programs"].items():
            for suffix in (".mlir", ".mlirbc"):
                problem = check(client, folder / (name + suffix), facts)
                expected = name in EXPECTED and EXPECTED[name] in problem
                expected = expected or BEFORE_2025.search(problem) is not None
                wrong += bool(problem) and not expected
                ran += 1
                if problem:
                    say(f"{name}{suffix}: {'(expected) ' * expected}{problem}")
    for name, reason in index["failed"].items():
        say(f"{name}: not exported: {reason}")
    say(f"jax {index['jax']}: {ran} programs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
