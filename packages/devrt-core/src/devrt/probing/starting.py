"""Starting a child process that may come to any end: the interpreter, with this one's path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["start"]

_BOOTSTRAP = (
    "import importlib, json, sys\n"
    "request = json.loads(sys.stdin.read())\n"
    "sys.path[:] = request['path']\n"
    "importlib.import_module(request['module']).main(request)\n"
)


def start(
    module: str, request: Mapping[str, Any], descriptors: Sequence[int]
) -> subprocess.Popen[bytes]:
    """Start a child that calls ``main(request)`` of a module; it leads a session of its own.

    It inherits ``descriptors``, and what it prints can be read from its ``stdout``. Raises
    `OSError` if it cannot be started.
    """
    if os.name != "posix":
        raise OSError("plugins can be run in child processes on POSIX systems only")
    if not sys.executable:
        raise OSError("the path of the Python interpreter is not known (sys.executable)")
    path = [os.path.abspath(entry) for entry in sys.path]
    whole = {"module": module, "parent": os.getpid(), "path": path, **request}
    stdin = _filled_pipe(json.dumps(whole, default=str).encode())
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-u", "-X", "faulthandler", "-c", _BOOTSTRAP],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            start_new_session=True,  # so that what it starts can be killed with it
        )
    finally:
        os.close(stdin)


def _filled_pipe(data: bytes) -> int:
    """Return the read end of a pipe that holds ``data``, all of it, and then ends."""
    read_end, write_end = os.pipe()
    try:
        os.set_blocking(write_end, False)
        if os.write(write_end, data) < len(data):
            raise OSError(f"the request, {len(data)} bytes, does not fit into a pipe")
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    return read_end
