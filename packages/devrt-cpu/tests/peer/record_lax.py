"""Write what jax makes of the calls in ``computing/lax_cases.py``; needs jax 0.10.2.

``python record_lax.py`` writes ``computing/lax_cases.npz``. Of each result it keeps the elements,
those of bfloat16 as float32, and its dtype and whether that is weak in the name.
"""

import os
import sys
from pathlib import Path

import numpy as np

os.environ["JAX_PLATFORMS"] = "cpu"
FOLDER = Path(__file__).parent.parent / "computing"
sys.path.insert(0, str(FOLDER))


def main() -> None:
    """Call each, and save all."""
    import jax
    import lax_cases

    found = {}
    names = lax_cases.names(jax.lax)
    for text in (text for group in lax_cases.CASES.values() for text in group):
        for i, leaf in enumerate(jax.tree_util.tree_leaves(eval(text, names))):
            array = np.asarray(leaf)
            kept = array.astype(np.float32) if array.dtype.kind == "V" else array
            weak = getattr(leaf, "weak_type", False)
            found[f"{text}|{i}|{array.dtype.name}|{int(weak)}"] = kept
    np.savez_compressed(FOLDER / "lax_cases.npz", **found)


if __name__ == "__main__":
    main()
