"""Where vendors' libraries lie: in wheels, or where the system keeps its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

from devrt import hardware

__all__ = ["find_library", "wheel_folders"]


def wheel_folders(folders: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of installed wheels, by their paths below ``site-packages``."""
    for folder in folders:
        package, _, rest = folder.partition("/")
        spec = importlib.util.find_spec(package)
        for root in (spec and spec.submodule_search_locations) or ():
            yield Path(root, rest)


def find_library(
    names: Sequence[str], folders: Sequence[str], system_folders: Sequence[str] = ()
) -> Path | None:
    """Return the path of a library, that of a wheel before the system's; None if it is absent.

    Parameters
    ----------
    names
        The library's names, the preferred one first.
    folders
        Folders of wheels, below ``site-packages``.
    system_folders
        Patterns of folders beside those that the loader searches.
    """
    for folder in wheel_folders(folders):
        for name in names:
            if (path := folder / name).is_file():
                return path
    return hardware.find_shared_library(*names, folders=system_folders)
