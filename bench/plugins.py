"""Fake plugin distributions: what a machine with many vendors' wheels looks like to discovery."""

from __future__ import annotations

from pathlib import Path

__all__ = ["GROUPS", "PREFIX", "make_plugins"]

#: The first letters of every fake's module, by which a child counts those that were imported.
PREFIX = "bench_fake_"
#: The entry-point group that each side reads as its own.
GROUPS = {"devrt": "devrt_plugins", "jax": "jax_plugins"}

# A plugin at its lightest: no native library stands behind it, so what a side pays here is
# discovery and the import alone. A real one that is opened costs far more.
_MODULE = '''"""A plugin that offers nothing."""


def initialize():
    """Register nothing."""
'''


def make_plugins(folder: Path, count: int, group: str) -> Path:
    """Write `count` installed distributions with one entry point each into `folder`.

    Parameters
    ----------
    folder
        An empty folder; put it on ``PYTHONPATH``.
    count
        How many distributions.
    group
        The entry-point group that they register in. The entry point's name is a platform of the
        plugin's own, ``fake00`` and so on.

    Returns
    -------
    Path
        `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        module = f"{PREFIX}{number:02}"
        (folder / f"{module}.py").write_text(_MODULE, encoding="utf-8")
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir()
        name = module.replace("_", "-")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[{group}]\nfake{number:02} = {module}\n", encoding="utf-8"
        )
        (info / "RECORD").write_text(
            f"{module}.py,,\n{module}-1.0.dist-info/METADATA,,\n", encoding="utf-8"
        )
    return folder
