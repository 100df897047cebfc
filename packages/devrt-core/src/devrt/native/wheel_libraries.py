"""Where vendors' libraries lie: in wheels, or where the system keeps its own."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from devrt import hardware
from devrt._support.record import record
from devrt.errors import BackendUnavailableError

__all__ = ["VendorLibrary", "wheel_folders"]


@record(frozen=True, slots=True, kw_only=True)
class VendorLibrary:
    """A library of a vendor's that devrt opens when it is first used.

    Attributes
    ----------
    names : tuple of str
        Its file's names, the newest first.
    purpose : str
        What it is, for the error where it is absent (``"compiler for kernels"``).
    remedy : str
        What to do there.
    folders : tuple of str
        Folders of wheels that have it, below ``site-packages``. A wheel's comes before the
        system's.
    system_folders : tuple of str
        Patterns of folders where it may lie beside those that the loader searches.
    variable : str
        The environment variable that names another file; empty if none does.
    """

    names: tuple[str, ...]
    purpose: str
    remedy: str = ""
    folders: tuple[str, ...] = ()
    system_folders: tuple[str, ...] = ()
    variable: str = ""

    def named(self) -> str:
        """Return the file that the environment names; empty where it names none."""
        return os.environ.get(self.variable, "") if self.variable else ""

    def path(self, operation: str) -> str:
        """Return where it is.

        Raises
        ------
        BackendUnavailableError
            If it is absent; the message says what to install.
        """
        if named := self.named():
            return named
        in_wheels = (folder / name for folder in wheel_folders(self.folders) for name in self.names)
        found = next((path for path in in_wheels if path.is_file()), None)
        found = found or hardware.find_shared_library(*self.names, folders=self.system_folders)
        if found is not None:
            return str(found)
        listed = " or ".join(self.names)
        msg = f"there is no {self.purpose}: {listed} is not found. {self.remedy}"
        raise BackendUnavailableError(msg, operation=operation)


def wheel_folders(folders: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of installed wheels, by their paths below ``site-packages``."""
    for folder in folders:
        package, _, rest = folder.partition("/")
        spec = importlib.util.find_spec(package)
        for root in (spec and spec.submodule_search_locations) or ():
            yield Path(root, rest)
