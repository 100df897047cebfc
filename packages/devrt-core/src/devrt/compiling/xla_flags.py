"""``XLA_FLAGS`` tried in a child process: XLA ends the process that gives it a flag it refuses.

XLA reads the variable when a library of it is first used, and reports a flag that it does not know
by aborting. So the first use is a child's, where flags are set that devrt does not read itself.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from typing import Any

from devrt.errors import ConfigError

__all__ = ["check_flags"]

_VARIABLE = "XLA_FLAGS"
_HARMLESS = re.compile(r"--xla_force_host_platform_device_count=\d{1,9}")
_VALUE = re.compile(rb"^E\d{4} .*\] (Couldn't interpret value .*)$", re.MULTILINE)
_FATAL = re.compile(
    rb"^F\d{4} .*parse_flags_from_env.*?\] (.*)$|^F\d{4} .*?\] (.*XLA_FLAGS.*)$", re.MULTILINE
)
_REMEDY = f"Correct {_VARIABLE}, each flag as --name=value without blanks, or unset it."
_SECONDS = 60.0
_BOOTSTRAP = (
    "import ast, importlib, sys\n"
    "sys.path[:] = sys.argv[5:]\n"
    "from devrt.compiling import xla_flags\n"
    "xla_flags._checked.add(sys.argv[3])\n"
    "use = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])\n"
    "use(sys.argv[3], **ast.literal_eval(sys.argv[4]))\n"
)

_checked: set[str] = set()
"""Libraries that were or are about to be used: each reads the variable once."""


def check_flags(library: str, module: str, function: str, **options: Any) -> None:
    """Refuse what ``XLA_FLAGS`` holds if it would end the process; to be called before a first use.

    Parameters
    ----------
    library
        The library's path.
    module, function
        What a child process calls with the path: it makes the library read the variable.
    **options
        What it is called with beside that, literals of Python.

    Raises
    ------
    ConfigError
        If XLA refuses a flag; the message names it.
    """
    if library in _checked:
        return
    text = os.environ.get(_VARIABLE, "")
    call = (module, function, library, repr(options))
    refusal = "" if _is_harmless(text) else _refusal(text, call)
    if refusal:
        msg = f"environment variable {_VARIABLE}: XLA would end the process: {refusal.rstrip('.')}."
        source = f"environment variable {_VARIABLE}"
        raise ConfigError(f"{msg} {_REMEDY}", value=text, source=source, remedy=_REMEDY)
    _checked.add(library)


def _is_harmless(text: str) -> bool:
    return all(_HARMLESS.fullmatch(word) for word in text.split())


@functools.cache
def _refusal(text: str, call: tuple[str, ...]) -> str:
    """Return what XLA says as it ends a child process; empty where the flags are no cause."""
    if os.name != "posix" or not sys.executable:
        return ""
    path = [os.path.abspath(entry) for entry in sys.path]
    command = [sys.executable, "-P", "-c", _BOOTSTRAP, *call, *path]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # nothing is known of the flags: the library itself decides
    fatal = _FATAL.search(done.stderr)
    if done.returncode == 0 or fatal is None:
        return ""
    found = _VALUE.search(done.stderr)
    words = found[1] if found else fatal[1] or fatal[2]
    return words[:400].decode(errors="replace")
