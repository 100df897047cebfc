"""What of ROCm is on this machine, as its files show it; nothing is opened or loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from devrt.hardware import find_shared_library, pci_devices
from devrt.records import Available, ProbeResult, Unavailable
from devrt_rocm._platform import PLATFORM

__all__ = ["USE_ANOTHER", "probe", "rocm_release", "runtime_library"]

_AMD = 0x1002
_DISPLAY_CLASSES = (0x03, 0x12)  # display controllers, and accelerators without a display

_DRIVER_NODE = "dev/kfd"
_TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"

_GET_DRIVER = "Install the amdgpu driver and ROCm: https://rocm.docs.amd.com"
USE_ANOTHER = "Use another platform, for example with DEVRT_PLATFORMS=cpu."


def probe(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> ProbeResult:
    """Say what keeps ROCm from being used, or which runtime is here.

    ``root`` counts as the root of the file system.
    """
    missing = _missing_device(root)
    if missing is not None:
        return missing
    library = runtime_library(root, environ)
    if library is None:
        return Unavailable(
            "the amdgpu driver is here, but the HIP runtime is not "
            f"({' or '.join(PLATFORM.libraries)})",
            "Install ROCm's HIP runtime, or add its folder to LD_LIBRARY_PATH.",
        )
    return Available(f"{library.name}, ROCm {rocm_release(library) or 'of unknown version'}")


def _missing_device(root: Path) -> Unavailable | None:
    node = root / _DRIVER_NODE
    if not node.exists():
        return _missing_driver(root)
    if not os.access(node, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return Unavailable(
            "this user may not open /dev/kfd",
            "Add the user to the groups render and video, and log in again.",
        )
    if not _has_gpu_node(root):
        return Unavailable(
            "the amdgpu driver is loaded, but it lists no GPU",
            "Check that the GPU is one that ROCm supports, and read the kernel's log (dmesg).",
        )
    return None


def _missing_driver(root: Path) -> Unavailable:
    # AMD's host bridges and USB controllers share its vendor id.
    if any(d.class_code >> 16 in _DISPLAY_CLASSES for d in pci_devices(_AMD, root=root)):
        return Unavailable(
            "an AMD GPU is here, but /dev/kfd is not: the amdgpu driver is not loaded, or the "
            "container was started without it",
            "Start the container with --device /dev/kfd --device /dev/dri, or: " + _GET_DRIVER,
        )
    return Unavailable(
        "no AMD GPU was found (no /dev/kfd)",
        USE_ANOTHER,
    )


def _has_gpu_node(root: Path) -> bool:
    # The driver lists processors as nodes too; those have GPU id 0.
    return any(_read(path) not in {"", "0"} for path in (root / _TOPOLOGY).glob("*/gpu_id"))


def rocm_release(library: Path | None) -> str:
    """Return the release of the ROCm tree that a library lies in; empty where it is not known."""
    return "" if library is None else _read(library.resolve().parent.parent / ".info/version")


def runtime_library(
    root: Path = Path("/"), environ: Mapping[str, str] | None = None
) -> Path | None:
    """Return the HIP runtime's file, if it is there."""
    return find_shared_library(
        *PLATFORM.libraries, root=root, folders=PLATFORM.folders, environ=environ
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
