"""Runs alone, in a child process of `devrt_cuda._versions`: reads the versions of libraries.

It writes a line for each as soon as it is known, so that a crash takes no earlier answer with it.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence


def _version(library: ctypes.CDLL, name: str, units: Sequence[int], returns: bool) -> list[int]:
    function = getattr(library, name)
    if not units:
        return [_checked(function, part) for part in (0, 1)]
    if returns:
        function.restype = ctypes.c_size_t
        number = int(function())
    else:
        number = _checked(function)
    major, minor = units
    return [number // major, number % major // minor]


def _checked(function: object, *arguments: int) -> int:
    value = ctypes.c_int()
    status = function(*arguments, ctypes.byref(value))  # type: ignore[operator]
    if status:
        raise OSError(f"its function for the version returned status {status}")
    return value.value


def _answer(name: str, units: Sequence[int], returns: bool, paths: Sequence[str]) -> list[object]:
    try:
        library = ctypes.CDLL(paths[0])
    except OSError as error:
        return [paths[0], [], str(error)]
    try:
        return [paths[0], _version(library, name, units, returns), ""]
    except (OSError, AttributeError) as error:
        return [paths[0], [], str(error)]


if __name__ == "__main__":
    for _, name, units, returns, paths in json.load(sys.stdin):
        sys.stdout.write(json.dumps(_answer(name, units, returns, paths)) + "\n")
        sys.stdout.flush()
