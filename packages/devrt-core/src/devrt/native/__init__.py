"""The native SDK: C++20 headers and a CMake package from which backends are built.

The headers include no Python. A backend's CMake file finds them with ``python -m devrt.native``.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["cmake_dir", "include_dir"]


def include_dir() -> str:
    """Return the folder to add to the compiler's include path (``#include "devrt/status.hpp"``)."""
    return str(Path(__file__).parent / "include")


def cmake_dir() -> str:
    """Return the folder that holds ``devrtConfig.cmake``, to be given to CMake as ``devrt_DIR``."""
    return str(Path(__file__).parent / "cmake")
