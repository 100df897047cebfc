"""What a manifest asks of a machine, and what it does not go together with."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

from devrt._support.record import record
from devrt.contract.conflicts import is_passed_over, with_override

__all__ = ["Conflict", "Requirement"]


@record(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Something that must be on the machine; where several are named, one of them.

    ``path`` are patterns of files, ``library`` names of shared libraries with their version, and
    ``pci_vendor`` is a device's vendor, -1 where none is named. Where one of the variables
    ``unless_set`` is set, or the option whose variable it is, nothing is required: they stand for
    simulated devices.
    """

    reason: str
    remedy: str
    path: tuple[str, ...] = ()
    library: tuple[str, ...] = ()
    pci_vendor: int = -1
    unless_set: tuple[str, ...] = ()

    def shows_hardware(self, root: str | os.PathLike[str]) -> bool:
        """Return whether it is a device, not a driver or a file of one, and is there."""
        nodes = (path.lstrip("/") for path in self.path)
        return any(_exists(node, root) for node in nodes if node.startswith("dev/")) or (
            self.pci_vendor >= 0 and _has_pci_device(self.pci_vendor, root)
        )

    def is_met(self, root: str | os.PathLike[str]) -> bool:
        """Return whether it is there, by looking at files only."""
        return (
            any(_exists(path.lstrip("/"), root) for path in self.path)
            or any(_has_library(name, root) for name in self.library)
            or (self.pci_vendor >= 0 and _has_pci_device(self.pci_vendor, root))
        )


@record(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Versions of another distribution that the backend is known not to work with.

    One with an ``id`` can be passed over. Its ``severity`` says what it does: an ``"error"`` makes
    the backend unavailable, and of a ``"warning"`` the doctor tells.
    """

    distribution: str
    reason: str
    remedy: str
    versions: str = ""
    id: str = ""
    severity: str = "error"

    def holds(self) -> bool:
        """Return whether such a version is installed, and the conflict is not passed over."""
        return self._is_installed() and not is_passed_over(self.id)

    def what_to_do(self) -> str:
        """Return the remedy, with how to go on all the same where that can be."""
        return with_override(self.remedy, self.id)

    def _is_installed(self) -> bool:
        from importlib import metadata

        from devrt.plugins.loading.versions import matches

        try:
            return matches(metadata.version(self.distribution), self.versions)
        except (metadata.PackageNotFoundError, ValueError):
            return False


def _exists(pattern: str, root: str | os.PathLike[str]) -> bool:
    folder, name = os.path.split(os.path.join(root, pattern))
    if not _has_wildcard(pattern):
        return os.path.exists(os.path.join(folder, name))
    if _has_wildcard(os.path.dirname(pattern)):
        import glob  # seldom needed, and startup counts

        return bool(glob.glob(pattern, root_dir=root))
    try:
        return any(fnmatchcase(found, name) for found in os.listdir(folder) if found[0] != ".")
    except OSError:
        return False


def _has_wildcard(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


def _has_library(name: str, root: str | os.PathLike[str]) -> bool:
    from pathlib import Path

    from devrt import hardware

    return hardware.find_shared_library(name, root=Path(root)) is not None


def _has_pci_device(vendor: int, root: str | os.PathLike[str]) -> bool:
    from devrt import hardware

    return bool(hardware.pci_devices(vendor, root=root))
