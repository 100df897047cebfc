"""Write what jax makes of the cases in ``computing/collective_cases.py``; needs jax 0.10.2.

``python record_collectives.py`` writes ``computing/collective_cases.npz``: of each case value and
gradient, without and with a check of what is the same on all devices. A gradient within the
function may differ between these: without the check, sums count as different on each device.
"""

import os
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "computing"


def main():
    """Compute every case with jax on eight devices of the processor."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    sys.path.insert(0, str(FOLDER))
    import collective_cases
    import jax

    found = {}
    for is_checked in (False, True):
        functions = collective_cases.functions(jax, jax.numpy, is_checked)
        for name, function in functions.items():
            for i, result in enumerate(jax.jit(function)(collective_cases.X)):
                found[f"{name}|{is_checked:d}|{i}"] = np.asarray(result)
    np.savez_compressed(FOLDER / "collective_cases.npz", **found)


if __name__ == "__main__":
    main()
