"""A child's end of the pipe to its parent, and what keeps the child from doing harm."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from devrt._support.orphans import end_with_parent

__all__ = ["LOST_PIPE", "MAX_LINE", "Pipe", "stay_harmless"]

MAX_LINE = 1 << 17
"""Bytes of one reply; the parent drops what is longer."""

LOST_PIPE = 86
"""Exit code of a child whose pipe to the parent was closed or replaced under it."""


class Pipe:
    """Writes replies, each a line that begins with the parent's token."""

    def __init__(self, descriptor: int, token: str) -> None:
        self._descriptor = descriptor
        self._token = token
        self._pid = os.getpid()
        self._pipe = _identity(descriptor)

    def say(self, **fields: Any) -> None:
        """Write one reply; end the process where the pipe is no longer the one it was."""
        if os.getpid() != self._pid:
            os._exit(0)  # a copy that plugin code forked off must not answer in our name
        line = f"\n{self._token} {json.dumps(fields, default=str)}\n".encode()
        if len(line) > MAX_LINE:
            msg = f"what it says of itself is {len(line)} bytes long; {MAX_LINE} are taken"
            return self.say(error="PluginContractError", message=msg, kind="contract")
        try:
            if _identity(self._descriptor) != self._pipe:
                os._exit(LOST_PIPE)
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            os._exit(LOST_PIPE)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def stay_harmless(parent: int) -> None:
    """Leave no core file behind, and do not outlive the parent."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    end_with_parent(parent)
