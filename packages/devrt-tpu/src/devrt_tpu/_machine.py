"""What of TPUs is on this machine, as its files show it; nothing is opened or loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from devrt.hardware import pci_devices
from devrt.records import Unavailable

__all__ = ["USE_ANOTHER", "no_client", "probe"]

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

_LIBRARY_VARIABLE = "TPU_LIBRARY_PATH"
_GET_LIBRARY = f"Run pip install libtpu, or set {_LIBRARY_VARIABLE} to the full path of libtpu.so."
USE_ANOTHER = "Use another platform, for example with DEVRT_PLATFORMS=cpu."


def probe(
    root: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    search_path: Sequence[str] | None = None,
) -> Unavailable:
    """Say what keeps TPUs from being used on this machine.

    Parameters
    ----------
    root
        The folder that counts as the root of the file system.
    environ
        Environment variables; those of the process when omitted.
    search_path
        Where package ``libtpu`` is looked for; ``sys.path`` when omitted.

    Returns
    -------
    Unavailable
        The chips, devices or library that are missing, or, where all are there, that this release
        has no client.
    """
    chips = _chips(root)
    missing = _missing_device(chips, root)
    if missing is None:
        variables = os.environ if environ is None else environ
        missing = _missing_library(variables, root, search_path)
    if missing is not None:
        return missing
    found = f"{_describe(chips)} and libtpu are here"
    return Unavailable(f"{found}, but {no_client()}", USE_ANOTHER)


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
            "Use another platform. On a TPU machine nothing would change yet: this release has no "
            "client.",
        )
    devices = root / "dev"
    # Older models appear as accel<N>, later ones through VFIO, one numbered group for each chip.
    if any(devices.glob("accel[0-9]*")) or any(devices.glob("vfio/[0-9]*")):
        return None
    return Unavailable(
        f"{_describe(chips)} on the PCI bus, but no /dev/accel<N> or /dev/vfio/<N> is visible",
        "Start the container with --privileged, or with the devices named one by one.",
    )


def _missing_library(
    environ: Mapping[str, str], root: Path, search_path: Sequence[str] | None
) -> Unavailable | None:
    named = environ.get(_LIBRARY_VARIABLE)
    if named:
        if (root / named.lstrip("/")).is_file():
            return None
        return Unavailable(f"{_LIBRARY_VARIABLE} names {named}, which is no file", _GET_LIBRARY)
    if _has_package(search_path):
        return None
    return Unavailable(
        f"package libtpu is not installed and {_LIBRARY_VARIABLE} is not set", _GET_LIBRARY
    )


def _has_package(search_path: Sequence[str] | None) -> bool:
    from importlib.machinery import PathFinder

    return PathFinder.find_spec("libtpu", search_path) is not None


def no_client() -> str:
    """Return the words for what this release lacks, without a full stop."""
    from devrt_tpu import __version__

    return f"devrt-tpu {__version__} has no client yet"
