"""Whether a compiler of kernels knows an architecture, tried in a child process."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys

__all__ = ["fatal_signal"]

_TRIAL = """
import ctypes, sys
path, prefix, option = sys.argv[1:]
library, program = ctypes.CDLL(path), ctypes.c_void_p()
create = getattr(library, prefix + "CreateProgram")
create(ctypes.byref(program), b"int n;", b"trial", 0, None, None)
options = (ctypes.c_char_p * 1)(option.encode())
getattr(library, prefix + "CompileProgram")(program, 1, options)
"""
_SECONDS = 60


@functools.cache
def fatal_signal(path: str, prefix: str, option: str) -> str:
    """Return the name of the signal that compiling for an architecture ends a process by.

    Parameters
    ----------
    path
        The compiler's library.
    prefix
        What the names of its functions begin with.
    option
        The option that names the architecture.

    Returns
    -------
    str
        As in ``"SIGABRT"``; empty if the process goes on, or none can be started to find out.
    """
    command = [sys.executable, "-P", "-c", _TRIAL, path, prefix, option]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return signal.Signals(-ran.returncode).name if ran.returncode < 0 else ""
