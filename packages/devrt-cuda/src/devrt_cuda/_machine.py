"""What of CUDA is on this machine, as its files show it; nothing is opened or loaded."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path

from devrt.hardware import find_shared_library, pci_devices
from devrt.records import Unavailable

__all__ = ["no_client", "probe", "what_to_install"]

_NVIDIA = 0x10DE
_DISPLAY_CONTROLLER = 0x03

_DRIVER_LIBRARY = "libcuda.so.1"
_WSL_DEVICE = "dev/dxg"
_WSL_FOLDER = "usr/lib/wsl/lib"  # where Windows puts the driver library of its Linux guests

_GET_DRIVER = "Install the NVIDIA driver: https://www.nvidia.com/drivers"
USE_ANOTHER = (
    "Use another platform, for example with DEVRT_PLATFORMS=cpu; programs can be compiled for GPUs "
    "here all the same."
)
_PLUGINS = ("jax-cuda13-pjrt", "jax-cuda12-pjrt", "xla-cuda13-pjrt", "xla-cuda12-pjrt")


def probe(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> Unavailable:
    """Say what keeps CUDA from being used: what is missing, else what to install.

    ``root`` counts as the root of the file system.
    """
    missing = _missing_device(root)
    if missing is not None:
        return missing
    library = find_shared_library(
        _DRIVER_LIBRARY, root=root, folders=[_WSL_FOLDER], environ=environ
    )
    if library is None:
        return _missing_library(root)
    found = f"the driver is here (version {_driver_version(root, library)})"
    return Unavailable(f"{found}, but {no_client()}", what_to_install())


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


def no_client() -> str:
    """Return the words for what this release lacks, without a full stop."""
    from devrt_cuda import __version__

    return f"devrt-cuda {__version__} has no client of its own yet"


def what_to_install() -> str:
    """Return what makes the GPUs usable: XLA's plugin, unless it is there."""
    from importlib import metadata

    from devrt.contract.installation import how_to_install

    for plugin in _PLUGINS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            version = metadata.version(plugin)
            return f"{plugin} {version}, which the PJRT loader runs, serves the platform."
    command = how_to_install("devrt-tpu", "devrt-cuda[xla]")
    return f"Install XLA's plugin for GPUs, which the PJRT loader runs: {command}"
