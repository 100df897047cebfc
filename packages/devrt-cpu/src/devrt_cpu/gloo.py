"""Collectives between processes over Gloo, where this package was built with it.

The library is optional and no module: it is opened when processes connect, and depends on the
system's Gloo. devrt finds this engine by the entry point ``gloo`` of the group
``devrt_collectives``.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.distributed.collectives import HostCollectives
from devrt.errors import DeadlineExceededError, DistributedError, PeerLostError, StatusCode
from devrt.records import Available, ProbeResult, Unavailable

__all__ = ["GlooCollectives", "connect", "probe"]

Array = np.ndarray[Any, np.dtype[Any]]

_LIBRARY = "libdevrt_gloo.so"
_OPERATIONS = {"sum": b"+", "avg": b"+", "prod": b"*", "min": b"<", "max": b">"}
_TIMED_OUT, _PEER_LOST = 1, 2
_ERROR_BYTES = 512
_PERMUTE_TAG = 0xFFFFFFFF  # of 32 bits; users' are below
_NOBODY = -1

_SET = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t
)
_GET = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_char),
    ctypes.POINTER(ctypes.c_size_t),
)


class _Store(ctypes.Structure):
    _fields_ = [("set", _SET), ("get", _GET)]


class _Error(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("size", ctypes.c_size_t)]


_int, _pointer, _size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
_PARAMETERS: dict[str, list[Any]] = {
    "connect": [_int, _int, ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(_Store),
                ctypes.POINTER(_pointer)],
    "all_reduce": [_pointer, _pointer, _size, ctypes.c_char, ctypes.c_char],
    "all_gather": [_pointer, _pointer, _size, _pointer],
    "all_to_all": [_pointer, _pointer, _size, _pointer],
    "broadcast": [_pointer, _pointer, _size, _int],
    "exchange": [_pointer, _pointer, _int, _pointer, _int, _size, ctypes.c_uint32],
}  # fmt: skip
"""Of the functions in collectives.h, without the last: where the words of an error go."""


def probe() -> ProbeResult:
    """Say whether the library was built and can be opened."""
    path = _path()
    if path is None:
        return Unavailable(
            "devrt-cpu was built without Gloo",
            "Install libgloo-dev and build devrt-cpu from its source, or use another engine.",
        )
    try:
        _library(path)
    except OSError as error:
        return Unavailable(f"its library cannot be opened: {error}", "Install libgloo0.")
    return Available()


def connect(
    client: Any, rank: int, size: int, name: str, host: str, timeout: float, checks: bool
) -> GlooCollectives:
    """Connect the processes of a job; see `devrt.distributed.collectives.connect`.

    Parameters
    ----------
    client
        The connection to the job's keys, through which the processes find each other.
    rank, size
        Which of how many processes this is.
    name
        What the keys of this group begin with, besides Gloo's own prefix.
    host
        The address of this process for the others.
    timeout
        Seconds that an operation waits for the other processes.
    checks
        Whether operations compare first what the ranks ask for.
    """
    return GlooCollectives(client, rank, size, name, host, timeout, checks)


class GlooCollectives(HostCollectives):
    """Processes that are connected with each other by TCP, which is neither encrypted nor checked.

    After an operation has failed the connections are of no more use: connect anew.
    """

    engine = "gloo"
    ends_at_failure = True

    def __init__(
        self, client: Any, rank: int, size: int, name: str, host: str, timeout: float, checks: bool
    ) -> None:
        super().__init__(rank, size, checks)
        self._native = _library(_path() or _LIBRARY)
        self._words = ctypes.create_string_buffer(_ERROR_BYTES)  # of the operation under way
        self._error = _Error(ctypes.cast(self._words, ctypes.c_char_p), _ERROR_BYTES)
        self._group = ctypes.c_void_p()
        self._end_lock = threading.Lock()
        milliseconds = max(1, round(timeout * 1000))
        keys = _Keys(client, f"devrt/gloo/{name}", milliseconds)
        try:
            self._call(
                "connect",
                rank,
                size,
                host.encode(),
                milliseconds,
                ctypes.byref(keys.functions),
                ctypes.byref(self._group),
            )
        except DistributedError:
            if keys.failure is not None:
                raise keys.failure from None
            raise

    def reduce_numbers(self, x: Array, op: str) -> Array:
        """Reduce around a ring: every rank gets the same bits."""
        out = x.copy()
        self.reduce_in_place(out, op)
        return out

    def reduce_in_place(self, x: Array, op: str) -> None:
        """Reduce around a ring, where this rank's numbers are."""
        if x.size:
            self._run("all_reduce", x.ctypes.data, x.size, x.dtype.char.encode(), _OPERATIONS[op])

    def gather_bytes(self, x: Array) -> Array:
        """Return the bytes of all ranks, one row for each."""
        out = np.empty((self._size, x.size), np.uint8)
        if x.size:
            self._run("all_gather", x.ctypes.data, x.size, out.ctypes.data)
        return out

    def exchange_bytes(self, rows: Array) -> Array:
        """Send row ``j`` to rank ``j``."""
        out = np.empty_like(rows)
        if rows.size:
            self._run("all_to_all", rows.ctypes.data, rows.shape[1], out.ctypes.data)
        return out

    def broadcast_bytes(self, x: Array, root: int) -> Array:
        """Return the bytes of one rank."""
        out = x.copy()
        if out.size:
            self._run("broadcast", out.ctypes.data, out.size, root)
        return out

    def permute_bytes(self, x: Array, pairs: list[tuple[int, int]]) -> Array:
        """Send bytes along pairs of ranks."""
        out = np.zeros_like(x)
        source = next((a for a, b in pairs if b == self._rank), _NOBODY)
        target = next((b for a, b in pairs if a == self._rank), _NOBODY)
        if source == self._rank:
            return x.copy()
        if x.size and (source, target) != (_NOBODY, _NOBODY):
            self._exchange(x, target, out, source, _PERMUTE_TAG)
        return out

    def send_bytes(self, x: Array, to: int, tag: int) -> None:
        """Send the number of bytes, and the bytes."""
        count = np.array([x.size], np.uint64).view(np.uint8)
        for part in (count, x):
            if part.size:
                self._exchange(part, to, part, _NOBODY, tag)

    def receive_bytes(self, count: int, source: int, tag: int) -> Array:
        """Return the bytes that come, whatever their number."""
        size = np.zeros(8, np.uint8)
        self._exchange(size, _NOBODY, size, source, tag)
        out = np.empty(int(size.view(np.uint64)[0]), np.uint8)
        if out.size:
            self._exchange(out, _NOBODY, out, source, tag)
        return out

    def interrupt(self) -> None:
        """End the connections: what waits for other ranks fails, here and there."""
        with self._end_lock:
            if self._group:
                self._native.devrt_gloo_interrupt(self._group)

    def end(self) -> None:
        """Close the connections."""
        with self._end_lock:
            group, self._group = self._group, ctypes.c_void_p()
            self._native.devrt_gloo_close(group)

    def _exchange(self, x: Array, to: int, out: Array, source: int, tag: int) -> None:
        self._run("exchange", x.ctypes.data, to, out.ctypes.data, source, x.size, tag)

    def _run(self, operation: str, *arguments: Any) -> None:
        self._call(operation, self._group, *arguments)

    def _call(self, operation: str, *arguments: Any) -> None:
        function = getattr(self._native, f"devrt_gloo_{operation}")
        status = function(*arguments, self._error)
        if status:
            raise _error(operation, status, self._words.value.decode(errors="replace"))


class _Keys:
    """The job's keys as C functions, which live as long as this."""

    def __init__(self, client: Any, prefix: str, milliseconds: int) -> None:
        self._client = client
        self._prefix = prefix
        self._milliseconds = milliseconds
        self.failure: BaseException | None = None
        self.functions = _Store(_SET(self._guarded(self._set)), _GET(self._guarded(self._get)))

    def _set(self, key: bytes, value: Any, size: int) -> None:
        self._client.key_value_set_bytes(f"{self._prefix}/{key.decode()}", value[:size])

    def _get(self, key: bytes, value: Any, size: Any) -> None:
        name = f"{self._prefix}/{key.decode()}"
        found = self._client.blocking_key_value_get_bytes(name, self._milliseconds)
        if len(found) > size[0]:
            msg = f"key {name!r} has {len(found)} bytes, more than an address of Gloo's."
            raise DistributedError(msg, code=StatusCode.INVALID_ARGUMENT)
        ctypes.memmove(value, found, len(found))
        size[0] = len(found)

    def _guarded(self, function: Callable[..., None]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            try:
                function(*arguments)
            except BaseException as error:  # noqa: BLE001  nothing may be raised into C
                self.failure = error
                return 1
            return 0

        return call


def _error(operation: str, status: int, words: str) -> Exception:
    if status == _TIMED_OUT:
        msg = (
            f"{operation} over Gloo waited for the other processes until its deadline: {words}. "
            "Look at what they do, or give connect a longer timeout."
        )
        return DeadlineExceededError(msg, operation=operation)
    if status == _PEER_LOST:
        msg = f"{operation} over Gloo failed: a process is gone, or its connection: {words}."
        return PeerLostError(msg, code=StatusCode.UNAVAILABLE, operation=operation)
    msg = f"{operation} over Gloo failed: {words}."
    return DistributedError(msg, operation=operation)


def _path() -> str | None:
    """Return where the library is: beside the native module, which is not loaded for that."""
    spec = importlib.util.find_spec("devrt_cpu._ext")
    folder = os.path.dirname(spec.origin or "") if spec is not None else ""
    path = os.path.join(folder, _LIBRARY)
    return path if os.path.isfile(path) else None


@functools.cache
def _library(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    for name, types in _PARAMETERS.items():
        getattr(library, f"devrt_gloo_{name}").argtypes = [*types, ctypes.POINTER(_Error)]
    for name in ("close", "interrupt"):
        function = getattr(library, f"devrt_gloo_{name}")
        function.argtypes, function.restype = [ctypes.c_void_p], None
    return library
