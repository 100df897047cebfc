"""What a machine shows of its hardware while nothing is opened: PCI ids and library files.

A plugin's probe answers within milliseconds and makes no context, so it looks at files only. The
functions take the folder that counts as the root of the file system; a test hands them a tree of
its own. Where a file system has no such files (another operating system), they find nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping

from devrt._support.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PciDevice", "find_shared_library", "pci_devices", "pci_vendors"]

_BUS = "sys/bus/pci/devices"
_TABLE = "proc/bus/pci/devices"


@record(frozen=True, slots=True)
class PciDevice:
    """One device on the PCI bus, as the kernel lists it.

    Attributes
    ----------
    address : str
        Where it sits (``"0000:3b:00.0"``).
    vendor : int
        PCI vendor id.
    device : int
        The vendor's own id of the model.
    class_code : int
        PCI class, subclass and programming interface in 24 bits (``0x030200``).
    """

    address: str
    vendor: int
    device: int
    class_code: int


def pci_devices(vendor: int, *, root: str | os.PathLike[str] = "/") -> tuple[PciDevice, ...]:
    """Return the PCI devices of one vendor, ordered by address.

    Parameters
    ----------
    vendor
        PCI vendor id.
    root
        The folder that counts as the root of the file system.

    Returns
    -------
    tuple of PciDevice
        Empty where the machine has no such device or does not list its bus.
    """
    bus = os.path.join(root, _BUS)
    return tuple(
        PciDevice(
            address=address,
            vendor=vendor,
            device=_read_id(bus, address, "device"),
            class_code=_read_id(bus, address, "class"),
        )
        for address in sorted(_addresses(bus))
        if _read_id(bus, address, "vendor") == vendor
    )


def pci_vendors(*, root: str | os.PathLike[str] = "/") -> frozenset[int]:
    """Return the ids of the vendors that have a device on the PCI bus.

    Parameters
    ----------
    root
        The folder that counts as the root of the file system.
    """
    try:  # one file for all of them, where the kernel has it: a start reads this
        with open(os.path.join(root, _TABLE), "rb") as file:
            found = frozenset(int(line.split()[1][:4], 16) for line in file)
    except (OSError, ValueError, IndexError):
        found = frozenset()
    bus = os.path.join(root, _BUS)
    return found or frozenset(_read_id(bus, name, "vendor") for name in _addresses(bus))


def _addresses(bus: str) -> list[str]:
    try:
        return os.listdir(bus)
    except OSError:
        return []


def _read_id(*path: str) -> int:
    """Return the number in a file of sysfs, or -1: a device may go while it is looked at."""
    try:
        with open(os.path.join(*path), encoding="ascii") as file:
            return int(file.read(), 16)
    except (OSError, ValueError):
        return -1


def find_shared_library(
    *names: str,
    root: Path | None = None,
    folders: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Path | None:
    """Find the file that the dynamic loader would take for a library, without opening it.

    Looks where the loader looks, in its order: ``LD_LIBRARY_PATH``, the loader's cache, the
    standard folders; and last in ``folders``. The first of ``names`` that is anywhere wins.

    Parameters
    ----------
    *names
        Names with their version (``"libm.so.6"``), the preferred one first.
    root
        The folder that counts as the root of the file system; ``/`` when omitted.
    folders
        More folders to look in, relative to ``root``; may hold wildcards.
    environ
        Environment variables; those of the process when omitted.

    Returns
    -------
    Path or None
        An existing file, or None. Whether the loader can load it is not tried.
    """
    import itertools
    from pathlib import Path

    root = Path("/") if root is None else root
    variables = os.environ if environ is None else environ
    before = list(_path_folders(variables, root))
    after = list(_standard_folders(root))
    cache = _read_cache(root)
    patterns = tuple(folders)
    for name in names:
        candidates = itertools.chain(
            (folder / name for folder in before),
            _cached_paths(name, cache, root),
            (folder / name for folder in after),
            *(sorted(root.glob(f"{pattern}/{name}")) for pattern in patterns),
        )
        for path in candidates:
            if path.is_file():
                return path
    return None


def _path_folders(environ: Mapping[str, str], root: Path) -> Iterator[Path]:
    for entry in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if entry:
            yield root / entry.lstrip("/")


def _standard_folders(root: Path) -> Iterator[Path]:
    # CPython knows the folder of its own architecture; another one's library is of no use.
    multiarch = getattr(sys.implementation, "_multiarch", "")
    for base in ("lib", "usr/lib"):
        if multiarch:
            yield root / base / multiarch
        yield root / f"{base}64"
        yield root / base


def _read_cache(root: Path) -> bytes:
    try:
        return (root / "etc/ld.so.cache").read_bytes()
    except OSError:
        return b""


def _cached_paths(name: str, cache: bytes, root: Path) -> Iterator[Path]:
    """Yield the paths that the loader's cache holds for ``name``.

    The cache is a table of numbers followed by zero-terminated strings, among them each library's
    full path (``ld.so.cache``, glibc ``sysdeps/generic/dl-cache.h``). Finding the string needs
    none of the table, whose form has changed between versions.
    """
    needle = b"/" + os.fsencode(name) + b"\0"
    at = cache.find(needle)
    while at >= 0:
        path = cache[cache.rfind(b"\0", 0, at) + 1 : at + len(needle) - 1]
        if path.startswith(b"/"):
            yield root / os.fsdecode(path).lstrip("/")
        at = cache.find(needle, at + 1)
