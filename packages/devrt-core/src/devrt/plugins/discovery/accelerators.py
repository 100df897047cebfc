"""Accelerators that the machine shows, whether or not a plugin is installed for them.

What they look like is data (``data/hardware.toml``); nothing is opened, only files are looked at.
A start looks here where the host's processor is the default, so little is imported.
"""

from __future__ import annotations

import os

from devrt import hardware
from devrt._support import simple_toml
from devrt._support.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

__all__ = ["SeenHardware", "known_hardware", "seen_hardware"]

_TABLE = os.path.join(os.path.dirname(__file__), "data", "hardware.toml")
_SHOWN = 8
_NONE = ("", "-1")


@record(frozen=True, slots=True)
class SeenHardware:
    """A kind of hardware on the machine, the platforms that serve it, and the wheel to install.

    ``evidence`` are PCI addresses and files that show it, ``driver`` the first line of its driver's
    version; ``is_open`` says whether a device node of it is there that the user did not hide.
    """

    name: str
    platforms: tuple[str, ...]
    wheel: str
    evidence: tuple[str, ...]
    driver: str = ""
    is_open: bool = False


_parsed: list[dict[str, Any]] = []


def known_hardware() -> list[dict[str, Any]]:
    """Return the rows of the table, parsed at the first call."""
    if not _parsed:
        with open(_TABLE, encoding="utf-8") as file:
            document = simple_toml.parse(file.read())
        assert document is not None, "the table is in plain form; a test reads it"
        _parsed.extend(document["hardware"])
    return _parsed


def seen_hardware(
    root: str | os.PathLike[str] = "/", environ: Mapping[str, str] | None = None
) -> tuple[SeenHardware, ...]:
    """Return the accelerators that the machine shows, below ``root`` of its file system."""
    variables = os.environ if environ is None else environ
    vendors = hardware.pci_vendors(root=root)
    listed: dict[str, list[str]] = {}
    found = []
    for entry in known_hardware():
        evidence = (*_on_bus(entry, vendors, root), *_files(entry["paths"], listed, root))
        if evidence:
            platforms = tuple(entry["platforms"])
            driver = _driver(entry, root)
            nodes = _files(entry["nodes"], listed, root)
            is_hidden = any(variables.get(v, "all").strip() in _NONE for v in entry["hidden_by"])
            is_open = not is_hidden and next(nodes, None) is not None
            found.append(
                SeenHardware(entry["name"], platforms, entry["wheel"], evidence, driver, is_open)
            )
    return tuple(found)


def _on_bus(
    entry: Mapping[str, Any], vendors: frozenset[int], root: str | os.PathLike[str]
) -> Iterator[str]:
    vendor = entry.get("pci_vendor", -1)
    if vendor not in vendors:
        return
    classes, models = (
        [int(number, 16) for number in entry.get(key, ())] for key in ("pci_classes", "pci_models")
    )
    for device in hardware.pci_devices(vendor, root=root):
        if classes and device.class_code >> 16 not in classes:
            continue
        if models and device.device not in models:
            continue
        yield f"PCI {device.address} ({vendor:04x}:{device.device:04x})"


def _files(
    patterns: Iterable[str], listed: dict[str, list[str]], root: str | os.PathLike[str]
) -> Iterator[str]:
    """Yield the files that there are; a folder is listed once for the whole table."""
    for pattern in patterns:
        folder, name = os.path.split(pattern)
        if folder not in listed:
            listed[folder] = _list(os.path.join(root, folder))
        start = name.partition("[")[0].partition("*")[0]
        likely = [found for found in listed[folder] if found.startswith(start)]
        matching = (found for found in likely if _is_like(found, name))
        yield from (f"/{folder}/{found}" for found in sorted(matching)[:_SHOWN])


def _is_like(name: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase  # only where something may match, and startup counts

    return fnmatchcase(name, pattern)


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _driver(entry: Mapping[str, Any], root: str | os.PathLike[str]) -> str:
    for name in entry["drivers"]:
        try:
            with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
                return file.read(4096).strip().partition("\n")[0][:200]
        except OSError:
            continue
    return ""
