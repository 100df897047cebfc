"""The compiler's library: where its wheel has it, and whether ``XLA_FLAGS`` lets it be opened."""

from __future__ import annotations

import functools
import os
from importlib import metadata

from devrt.compiling.xla_flags import check_flags
from devrt.errors import UnimplementedError
from devrt_cpu import quirks

__all__ = ["checked_library", "find_library"]

_WHEEL = quirks.DISTRIBUTION
_LIBRARY = "xla_cpu_pjrt.so"


@functools.cache
def find_library() -> str:
    """Return the path of the compiler's library, found without importing or opening anything.

    Raises
    ------
    UnimplementedError
        If its wheel is not installed; the message names it.
    """
    from devrt.contract.installation import how_to_install  # a start has no use for it

    try:
        files = metadata.distribution(_WHEEL).files or ()
    except metadata.PackageNotFoundError:
        msg = (
            "compile_and_load needs XLA's compiler for the CPU, which is not installed. Install it "
            f"with: {how_to_install('devrt-cpu[xla]')}; it is the wheel {_WHEEL}."
        )
        raise UnimplementedError(msg, operation="compile_and_load", platform="cpu") from None
    for file in files:
        path = os.fspath(file.locate())
        if file.name == _LIBRARY and os.path.exists(path):
            return path
    msg = (
        f"the wheel {_WHEEL} is installed and its library {_LIBRARY} is not there. Install it "
        f"again with: {how_to_install(_WHEEL, options='--force-reinstall')}."
    )
    raise UnimplementedError(msg, operation="compile_and_load", platform="cpu")


def checked_library() -> str:
    """Return the compiler's path, once it is known that ``XLA_FLAGS`` does not end the process."""
    path = find_library()
    check_flags(path, "devrt_cpu._trial", "compile_something")
    return path
