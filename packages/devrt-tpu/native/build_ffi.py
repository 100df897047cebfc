"""The native module's cffi part: every declaration is read from the C headers themselves.

``python build_ffi.py SDK_INCLUDE OUTPUT.c`` writes the C source; CMake compiles it with the rest.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cffi

__all__ = ["declarations", "make_builder"]

MODULE = "devrt_pjrt._native"
# What C calls in Python; defined in the modules that answer.
CALLED = """
extern "Python+C" void devrt_python_ask(devrt_question *, devrt_answer *);
extern "Python+C" void devrt_python_call(int, XLA_FFI_CallFrame *, uintptr_t, devrt_answer *);
"""
HERE = Path(__file__).resolve().parent


def declarations(include: Path) -> str:
    """Return the headers' declarations, in order and without preprocessor lines."""
    root = (include / "devrt/pjrt/c_api/pjrt_c_api.h").read_text()
    names = re.findall(r'#include "(devrt/pjrt/c_api/[a-z_]+\.h)"', root)
    files = [include / name for name in names] + [HERE / "shim.h"]
    lines = [line for file in files for line in file.read_text().splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def make_builder(include: Path) -> cffi.FFI:
    """Return the builder of the module."""
    builder = cffi.FFI()
    builder.cdef(declarations(include))
    builder.cdef(CALLED)
    builder.set_source(MODULE, '#include "shim.h"')
    return builder


if __name__ == "__main__":
    make_builder(Path(sys.argv[1])).emit_c_code(sys.argv[2])
