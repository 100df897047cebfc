"""What a verdict on a plugin depends on, as one number: its files and the machine around it.

A verdict is remembered for as long as the number stays the same, so everything counts that can
turn it: the plugin's own files, which distributions are installed beside it, the devices and
drivers that the machine shows, and the variables that libraries read. Nothing is imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from devrt.plugins._discovery import PluginRef

__all__ = ["fingerprint", "machine_state"]

_MAX_FILES = 4000

# Devices, drivers and the loader's own state, as patterns below the root of the file system.
_MACHINE = (
    "proc/driver/*/version",
    "sys/module/*/version",
    "dev/accel*",
    "dev/dri/*",
    "dev/dxg",
    "dev/[!lpstv]*[0-9]",
    "dev/vfio/*",
    "dev/kfd",
)
_LOADER_FILES = ("etc/ld.so.cache",)
_VARIABLE_PREFIXES = ("DEVRT_", "JAX_", "PJRT_", "LD_", "PYTHON")
_VARIABLE_ENDINGS = ("_VISIBLE_DEVICES", "_LIBRARY_PATH", "_HOME", "_PATH")


def fingerprint(
    ref: PluginRef, hash_of: Callable[[Path], str], *, machine: str, manifest: str = ""
) -> str:
    """Return a number for everything that a verdict on a plugin depends on.

    Parameters
    ----------
    ref
        The plugin.
    hash_of
        Returns the content hash of a file.
    machine
        What `machine_state` returned.
    manifest
        The text of the plugin's manifest, or what stands for it.
    """
    digest = hashlib.sha256()
    for name, content in sorted(_contents(ref, hash_of)):
        digest.update(f"{name}\0{content}\0".encode(errors="surrogateescape"))
    digest.update(f"{ref!r}\0{machine}\0{manifest}".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _contents(ref: PluginRef, hash_of: Callable[[Path], str]) -> Iterator[tuple[str, str]]:
    for name in filter(None, (ref.library, ref.config)):
        yield name, _hash_or_reason(Path(name), hash_of)
    for base, path in _module_files(ref.module):
        yield os.path.relpath(path, base), _hash_or_reason(path, hash_of)


def _hash_or_reason(path: Path, hash_of: Callable[[Path], str]) -> str:
    try:
        return hash_of(path)
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _module_files(module: str) -> Iterator[tuple[Path, Path]]:
    """Yield the files of the module's top-level package, without importing it."""
    top = module.partition(".")[0].partition(":")[0]
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError, AttributeError):
        return
    if spec is None:
        return
    folders = list(spec.submodule_search_locations or ())
    if not folders and spec.origin and os.path.isfile(spec.origin):
        yield Path(spec.origin).parent, Path(spec.origin)
    count = 0
    for folder in folders:
        for root, names, files in os.walk(folder):
            names[:] = sorted(name for name in names if name != "__pycache__")
            for name in sorted(files):
                count += 1
                if count > _MAX_FILES:
                    return
                yield Path(folder), Path(root, name)


def machine_state(*, root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> str:
    """Return what of the machine and the environment a verdict may depend on, as text."""
    variables = os.environ if environ is None else environ
    state = {
        "python": [sys.version, sys.executable],
        "distributions": _distributions(),
        "variables": sorted(item for item in variables.items() if _matters(item[0])),
        "machine": sorted(_machine_files(root)),
        "pci": sorted(_pci(root)),
    }
    return hashlib.sha256(json.dumps(state).encode(errors="surrogateescape")).hexdigest()


def _matters(name: str) -> bool:
    if name in ("DEVRT_CACHE_DIR", "PYTHONHASHSEED"):
        return False
    return name.startswith(_VARIABLE_PREFIXES) or name.endswith(_VARIABLE_ENDINGS)


def _distributions() -> list[list[str]]:
    """Return the metadata folders on ``sys.path``: their names hold the versions."""
    found = []
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        kept = sorted(n for n in names if n.endswith((".dist-info", ".egg-info", ".pth")))
        found.append([folder, *kept])
    return found


def _machine_files(root: Path) -> Iterator[tuple[str, str]]:
    for pattern in _MACHINE:
        for path in root.glob(pattern):
            text = _text(path) if path.name == "version" else ""
            yield str(path), text
    for name in _LOADER_FILES:
        try:
            status = (root / name).stat()
        except OSError:
            continue
        yield name, f"{status.st_size} {status.st_mtime_ns}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:1000]
    except OSError:
        return ""


def _pci(root: Path) -> Iterator[str]:
    folder = root / "sys/bus/pci/devices"
    try:
        devices = sorted(folder.iterdir())
    except OSError:
        return
    for device in devices:
        yield " ".join((device.name, _text(device / "vendor"), _text(device / "device")))
