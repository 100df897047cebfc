"""What of CUDA is on this machine, as its files show it; nothing is opened or loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from devrt.hardware import find_shared_library, pci_devices
from devrt.records import Available, ProbeResult, Unavailable
from devrt_cuda._platform import PLATFORM

__all__ = ["probe"]

_NVIDIA = 0x10DE
_DISPLAY_CONTROLLER = 0x03

(_DRIVER_LIBRARY,) = PLATFORM.libraries
_WSL_DEVICE = "dev/dxg"

_GET_DRIVER = "Install the NVIDIA driver: https://www.nvidia.com/drivers"
USE_ANOTHER = (
    "Use another platform, for example with DEVRT_PLATFORMS=cpu; programs can be compiled for GPUs "
    "here all the same."
)


def probe(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> ProbeResult:
    """Say what keeps CUDA from being used, or which driver is here.

    ``root`` counts as the root of the file system.
    """
    missing = _missing_device(root)
    if missing is not None:
        return missing
    library = find_shared_library(
        _DRIVER_LIBRARY, root=root, folders=PLATFORM.folders, environ=environ
    )
    if library is None:
        return _missing_library(root)
    return Available(f"driver {_driver_version(root, library)}")


def _missing_device(root: Path) -> Unavailable | None:
    if (root / _WSL_DEVICE).exists():
        return None  # the kernel driver is Windows's own
    if any((root / "dev").glob("nvidia[0-9]*")):
        return None
    if (root / "proc/driver/nvidia/version").exists():
        return Unavailable(
            "the NVIDIA kernel driver is loaded, but no device /dev/nvidia<N> is visible",
            "Start the container with its GPUs (docker run --gpus all), or run nvidia-smi once as "
            "root, which makes the devices.",
        )
    if _has_gpu(root):
        return Unavailable(
            "an NVIDIA GPU is here, but its kernel driver is not loaded", _GET_DRIVER
        )
    return Unavailable(
        "no NVIDIA GPU was found (no /proc/driver/nvidia/version, /dev/nvidia<N> or /dev/dxg)",
        USE_ANOTHER,
    )


def _missing_library(root: Path) -> Unavailable:
    if (root / _WSL_DEVICE).exists():
        return Unavailable(
            f"this is a Windows guest, and Windows gives it no {_DRIVER_LIBRARY}",
            f"In Windows, if the machine has an NVIDIA GPU: {_GET_DRIVER}",
        )
    return Unavailable(
        f"the NVIDIA kernel driver is here, but its library {_DRIVER_LIBRARY} is not",
        "Install the driver's user-space libraries, in a container with "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility.",
    )


def _has_gpu(root: Path) -> bool:
    # NVIDIA's network cards and audio functions share its vendor id.
    return any(d.class_code >> 16 == _DISPLAY_CONTROLLER for d in pci_devices(_NVIDIA, root=root))


def _driver_version(root: Path, library: Path) -> str:
    """Return the version that the kernel module gives, or else the one in the library's name."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = library.resolve().name.partition(".so.")[2]
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return found.group() if found else "unknown"
