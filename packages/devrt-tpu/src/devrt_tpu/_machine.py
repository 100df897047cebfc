"""What of TPUs is on this machine, as its files show it; nothing is opened or loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from devrt.hardware import pci_devices
from devrt.records import Available, ProbeResult, Unavailable

__all__ = ["LIBRARY_HANDLERS", "find_library", "has_chips", "probe"]

_GOOGLE = 0x1AE0

# Google's network and disk controllers share its vendor id, so the models count. The ids are those
# that JAX knows (``jax/_src/hardware_utils.py``).
_TPU_MODELS = {
    0x0027: "v2 or v3",
    0x0056: "unnamed",
    0x005E: "v4",
    0x0062: "v5p",
    0x0063: "v5e",
    0x006F: "v6e",
    0x0076: "7x",
}

LIBRARY_HANDLERS = (
    *("SIGHUP", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV"),
    *("SIGTERM", "SIGPROF", "SIGPWR"),
)
"""Signals whose handlers the library replaces when it is initialised (0.0.51)."""

_LIBRARY_VARIABLE = "TPU_LIBRARY_PATH"
_GET_LIBRARY = f"Run pip install libtpu, or set {_LIBRARY_VARIABLE} to the full path of libtpu.so."


def probe(
    root: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    search_path: Sequence[str] | None = None,
) -> ProbeResult:
    """Say whether TPUs can be used on this machine, or what keeps them from it.

    ``root`` counts as the root of the file system; package ``libtpu`` is looked for in
    ``search_path``, which is ``sys.path`` when omitted.
    """
    chips = _chips(root)
    missing = _missing_device(chips, root)
    if missing is not None:
        return missing
    library = find_library(root, environ, search_path)
    return library if isinstance(library, Unavailable) else Available(_describe(chips))


def find_library(
    root: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    search_path: Sequence[str] | None = None,
) -> str | Unavailable:
    """Return the path of the library for TPUs, or why there is none; for the rest see `probe`."""
    named = (os.environ if environ is None else environ).get(_LIBRARY_VARIABLE)
    if named:
        file = root / named.lstrip("/")
        if file.is_file():
            return str(file)
        return Unavailable(f"{_LIBRARY_VARIABLE} names {named}, which is no file", _GET_LIBRARY)
    found = _package_library(search_path)
    if found:
        return found
    return Unavailable(
        f"package libtpu is not installed and {_LIBRARY_VARIABLE} is not set", _GET_LIBRARY
    )


def has_chips(root: Path = Path("/")) -> bool:
    """Return whether a TPU chip is on the PCI bus of this machine."""
    return bool(_chips(root))


def _chips(root: Path) -> list[str]:
    found = (_TPU_MODELS.get(chip.device) for chip in pci_devices(_GOOGLE, root=root))
    return [model for model in found if model is not None]


def _describe(chips: list[str]) -> str:
    plural = "s" if len(chips) > 1 else ""
    return f"{len(chips)} TPU chip{plural} ({', '.join(sorted(set(chips)))})"


def _missing_device(chips: list[str], root: Path) -> Unavailable | None:
    if not chips:
        return Unavailable(
            "no TPU chip is on the PCI bus of this machine",
            "Use another platform, for example with DEVRT_PLATFORMS=cpu; programs can be compiled "
            "for TPUs here all the same.",
        )
    devices = root / "dev"
    # Older models appear as accel<N>, later ones through VFIO, one numbered group for each chip.
    if any(devices.glob("accel[0-9]*")) or any(devices.glob("vfio/[0-9]*")):
        return None
    return Unavailable(
        f"{_describe(chips)} on the PCI bus, but no /dev/accel<N> or /dev/vfio/<N> is visible",
        "Start the container with --privileged, or with the devices named one by one.",
    )


def _package_library(search_path: Sequence[str] | None) -> str:
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("libtpu", search_path)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        file = os.path.join(folder, "libtpu.so")
        if os.path.isfile(file):
            return file
    return ""
