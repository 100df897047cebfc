"""The process that runs one side's cases: JSON lines in, JSON lines out.

Started as ``python -m bench.worker SIDE`` by the Python of one environment. Each request is an
object with an ``op``; each reply is one object, with ``error`` in it when the request failed.

======== ============================== ========================================
op       takes                          gives
======== ============================== ========================================
hello    library, platform              version, python, numpy; engine or device
prepare  subject, case                  loops, samples, note
block    -                              seconds: one value a sample
quit     -                              nothing; the process ends
======== ============================== ========================================

It ends by itself when its input closes, so a driver that was killed leaves nothing behind.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from typing import Any, TextIO

from bench.case import Timed
from bench.subjects import module_of
from bench.timing import Plan, block, calibrate

__all__ = ["Server", "main", "serve", "version_of"]


def version_of(library: str) -> str:
    """Import a library and return its version, ``"unknown"`` where it does not say one.

    Raises
    ------
    ImportError
        It cannot be imported.
    """
    module = import_module(library)
    try:
        return str(getattr(module, "__version__", "unknown"))
    except PackageNotFoundError:  # found on a path, not installed
        return "unknown"


class Server:
    """Answers requests for one side; holds the one case that is prepared."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._prepared: tuple[Timed, Plan] | None = None
        self._ops: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "hello": self._hello,
            "prepare": self._prepare,
            "block": self._block,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request; an exception becomes an ``error`` reply."""
        try:
            return self._ops[request["op"]](request)
        # The boundary of the worker: whatever a library raises is a row of the table.
        except Exception as error:  # noqa: BLE001
            return {"error": f"{type(error).__name__}: {error}".split("\n", 1)[0]}

    def _hello(self, request: dict[str, Any]) -> dict[str, Any]:
        found = {
            "version": version_of(request["library"]),
            "numpy": version_of("numpy"),
            "python": platform.python_version(),
        }
        if self._side != "devrt":
            return found
        on_cpu = request.get("platform", "cpu") == "cpu"
        return found | ({"engine": _engine()} if on_cpu else {"device": _device_kind()})

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        self._prepared = None
        gc.unfreeze()
        gc.collect()
        cases = getattr(module_of(request["subject"]), f"{self._side}_cases")()
        timed = cases[request["case"]]()
        plan = calibrate(timed)
        # What the libraries made at import shall not be walked between blocks.
        gc.freeze()
        self._prepared = (timed, plan)
        return {"loops": plan.loops, "samples": plan.samples, "note": timed.note}

    def _block(self, _request: dict[str, Any]) -> dict[str, Any]:
        if self._prepared is None:
            raise RuntimeError("block was requested before prepare")
        return {"seconds": block(*self._prepared)}


def _engine() -> str:
    """Return which compiler for the CPU devrt has, with its version; empty where it has none."""
    try:
        from devrt_cpu._library import choose

        return str(choose())
    except (ImportError, NotImplementedError):
        return ""


def _device_kind() -> str:
    import devrt

    return devrt.devices()[0].device_kind


def serve(server: Server, requests: TextIO, replies: TextIO) -> None:
    """Answer requests until ``quit`` or the end of the input."""
    for line in requests:
        request = json.loads(line)
        if request["op"] == "quit":
            return
        replies.write(json.dumps(server.answer(request)) + "\n")
        replies.flush()


def main() -> None:
    """Serve the side named on the command line over this process's standard streams."""
    # A library that prints must not break the protocol: the pipe is kept aside, and what is
    # printed, from Python or from native code, goes to the error stream.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(Server(sys.argv[1]), sys.stdin, replies)
    replies.flush()
    # A peer's threads at exit are not what is measured, and some wait for their devices.
    os._exit(0)


if __name__ == "__main__":
    main()
