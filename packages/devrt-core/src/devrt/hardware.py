"""What a machine shows of its hardware while nothing is opened: PCI ids and library files.

A plugin's probe answers within milliseconds and makes no context, so it looks at files only. The
functions take the folder that counts as the root of the file system; a test hands them a tree of
its own. Where a file system has no such files (another operating system), they find nothing.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping

from devrt._support.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "DeviceLink",
    "DeviceProcess",
    "DeviceReading",
    "PciDevice",
    "find_shared_library",
    "numa_cpus",
    "pci_connection",
    "pci_cpus",
    "pci_devices",
    "pci_vendors",
]

_BUS = "sys/bus/pci/devices"
_TABLE = "proc/bus/pci/devices"
_NUMA_NODES = "sys/devices/system/node"


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


@record(frozen=True, slots=True)
class DeviceLink:
    """How two devices of a client are connected.

    Attributes
    ----------
    first, second : int
        The devices' ids. A link is the same from either side, and is given once.
    kind : str
        In the letters that tools draw it with: ``"NV"``, ``"XGMI"``, or what `pci_connection`
        returns.
    count : int
        How many links there are between the two, where that can be counted; else 0.
    """

    first: int
    second: int
    kind: str
    count: int = 0


@record(frozen=True, slots=True)
class DeviceProcess:
    """A process that holds memory of a device, as the vendor's library reports it.

    Attributes
    ----------
    pid : int
        The process, as this process's namespace numbers it.
    bytes : int or None
        What it holds; None where the library does not say.
    """

    pid: int
    bytes: int | None = None


@record(frozen=True, slots=True)
class DeviceReading:
    """What a device does now, over all processes; None is what nobody reports.

    Attributes
    ----------
    device : int
        The device's id; of a machine's devices, the number that its vendor's tools give it.
    memory_used, memory_total : int, optional
        Bytes of its memory.
    utilization : int, optional
        Percent of the last moment in which something ran on it.
    temperature : int, optional
        Degrees Celsius.
    power : float, optional
        Watts.
    processes : tuple of DeviceProcess
        Who holds its memory.
    kind : str, optional
        The model; needed where there is no client that knows it.
    pci_bus_id : str, optional
        Where it sits (``"0000:3b:00.0"``).
    memory_numa_node : int, optional
        The NUMA node that its own memory is; of most devices it is none.
    """

    device: int
    memory_used: int | None = None
    memory_total: int | None = None
    utilization: int | None = None
    temperature: int | None = None
    power: float | None = None
    processes: tuple[DeviceProcess, ...] = ()
    kind: str = ""
    pci_bus_id: str = ""
    memory_numa_node: int | None = None


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


def pci_connection(first: str, second: str, *, root: str | os.PathLike[str] = "/") -> str:
    """Return what data passes on the way between two PCI devices, in the words of GPU tools.

    Parameters
    ----------
    first, second
        Addresses (``"0000:3b:00.0"``).
    root
        The folder that counts as the root of the file system.

    Returns
    -------
    str
        ``"PIX"``: at most one bridge or switch; ``"PXB"``: several; ``"PHB"``: the host bridge;
        ``"NODE"``: two host bridges of one NUMA node; ``"SYS"``: what connects NUMA nodes. Empty
        where the kernel does not show one of the two.
    """
    bus = os.path.join(root, _BUS)
    ways = [_pci_way(bus, address) for address in (first, second)]
    if not all(ways):
        return ""
    pairs = zip(*ways, strict=False)  # one may be deeper
    shared = len([*itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)])
    if shared == 0:
        nodes = {_numa_node(bus, address) for address in (first, second)}
        return "NODE" if len(nodes) == 1 else "SYS"
    if shared == 1:
        return "PHB"
    # A switch is a port above and a port below for each device; both ports are bridges.
    return "PIX" if all(len(way) - shared <= 2 for way in ways) else "PXB"


def _pci_way(bus: str, address: str) -> list[str]:
    """Return the names from the host bridge (``pci0000:3a``) down to a device."""
    path = os.path.join(bus, address)
    if not os.path.exists(path):
        return []
    parts = os.path.realpath(path).split(os.sep)
    bridge = next((i for i, part in enumerate(parts) if part.startswith("pci")), len(parts))
    return parts[bridge:]


def _numa_node(bus: str, address: str) -> int:
    try:
        with open(os.path.join(bus, address, "numa_node"), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return -1  # as the kernel says where there is one node


def numa_cpus(node: int, *, root: str | os.PathLike[str] = "/") -> str:
    """Return the processors of a NUMA node as the kernel lists them; empty for no such node.

    Parameters
    ----------
    node
        The node's number.
    root
        The folder that counts as the root of the file system.
    """
    return _text(root, _NUMA_NODES, f"node{node}", "cpulist")


def pci_cpus(address: str, *, root: str | os.PathLike[str] = "/") -> str:
    """Return the processors that are near a PCI device as the kernel lists them, or nothing.

    Parameters
    ----------
    address
        Where the device sits (``"0000:3b:00.0"``).
    root
        The folder that counts as the root of the file system.
    """
    return _text(root, _BUS, address, "local_cpulist")


def _text(*path: str | os.PathLike[str]) -> str:
    """Return what a file of sysfs says; empty where it is not there."""
    try:
        with open(os.path.join(*path), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


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
