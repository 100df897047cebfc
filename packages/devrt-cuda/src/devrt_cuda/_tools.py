"""What XLA's plugin for GPUs needs beside itself to compile: an assembler and a bitcode library.

It looks for them in an installed toolkit. Where there is none, the wheels ``nvidia-cuda-nvcc`` and
``nvidia-nvvm`` have them, in a folder of ``site-packages`` that the plugin has to be given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder

from devrt.contract.installation import install_command
from devrt.errors import DevrtError, UnimplementedError

__all__ = ["compiler_flags", "explain"]

_FLAG = "xla_gpu_cuda_data_dir"
_WHEELS = ("nvidia-cuda-nvcc", "nvidia-nvvm")
_SIGNS = (
    "libdevice not found",
    "No PTX compilation provider is available",
    "Failed to launch ptxas",
)


def compiler_flags(search_path: Sequence[str] | None = None) -> dict[str, str]:
    """Return the flag that names the wheels' folder; empty where they are not installed.

    Package ``nvidia`` is looked for in ``search_path``; ``sys.path`` when omitted.
    """
    for folder in _folders(search_path):
        if os.access(os.path.join(folder, "bin", "ptxas"), os.X_OK) and os.path.isdir(
            os.path.join(folder, "nvvm", "libdevice")
        ):
            return {_FLAG: folder}
    return {}


def _folders(search_path: Sequence[str] | None) -> Iterator[str]:
    spec = PathFinder.find_spec("nvidia", search_path)
    for package in (spec.submodule_search_locations or ()) if spec is not None else ():
        try:
            names = sorted(os.listdir(package), reverse=True)  # the latest toolkit first
        except OSError:
            continue
        yield from (os.path.join(package, name) for name in names if name.startswith("cu"))


def explain(error: DevrtError) -> DevrtError:
    """Return an error of the compiler, with what to do where it lacks its tools."""
    if not any(sign in error.message for sign in _SIGNS):
        return error
    msg = (
        "the compiler for GPUs needs an assembler (ptxas) and libdevice, of the plugin's toolkit "
        f"version or a later one. Install them with: {install_command(*_WHEELS)}\n{error.message}"
    )
    return UnimplementedError(msg, **error.data)
