"""The keys of a job, as a plugin asks for them while its client is made and afterwards."""

from __future__ import annotations

import atexit
import math
import threading
import time
from typing import Any

from devrt._support.words import words
from devrt.compiling.custom_call_registry import code_of
from devrt.errors import DistributedError, PeerLostError, StatusCode

__all__ = ["PluginKeys"]

_GLANCE_MS = 1
_SLICE = 1.0  # seconds of a wait until it is looked whether anybody still wants it
_ending = threading.Event()
atexit.register(_ending.set)


class PluginKeys:
    """The keys of one plugin's client, whose values are bytes. Thread-safe as far as the store is.

    Where the store has ``key_value_set_bytes``, ``blocking_key_value_get_bytes`` or
    ``key_value_try_get``, these are used; else bytes are written as Latin-1 in text.

    Parameters
    ----------
    store
        The connection to the job: a `devrt.contract.DistributedRuntimeClient`.
    prefix
        What the names of all keys begin with.
    """

    def __init__(self, store: Any, prefix: str = "") -> None:
        self._store = store
        self._prefix = prefix

    def set(self, key: str, value: bytes) -> None:
        """Set a value."""
        name = self._prefix + key
        if hasattr(self._store, "key_value_set_bytes"):
            self._store.key_value_set_bytes(name, value)
        else:
            self._store.key_value_set(name, value.decode("latin-1"))

    def get(self, key: str, timeout_ms: int) -> bytes:
        """Return a value once it is set.

        Raises
        ------
        DistributedError
            If the process ends meanwhile. What the store raises goes through.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left = deadline - time.monotonic()
            try:
                return self._get(key, max(math.ceil(min(left, _SLICE) * 1000), _GLANCE_MS))
            except Exception as error:
                if left <= _SLICE or code_of(error) is not StatusCode.DEADLINE_EXCEEDED:
                    raise
            if _ending.is_set():
                msg = f"the process ends, and its plugin still waits for key {key!r}."
                raise DistributedError(msg, code=StatusCode.CANCELLED)

    def try_get(self, key: str) -> bytes:
        """Return a value that is set.

        Raises
        ------
        DistributedError
            Of code NOT_FOUND, if it is not. What the store raises goes through.
        """
        for name in ("key_value_try_get_bytes", "key_value_try_get"):
            if hasattr(self._store, name):
                return _to_bytes(getattr(self._store, name)(self._prefix + key))
        try:
            return self._get(key, _GLANCE_MS)
        except Exception as error:
            if code_of(error) is not StatusCode.DEADLINE_EXCEEDED:
                raise
            msg = f"key {key!r} is not set."
            raise DistributedError(msg, code=StatusCode.NOT_FOUND) from error

    def answer(self, method: str, key: bytes, argument: Any) -> tuple[int, bytes]:
        """Answer a plugin: return 0 and the value, or the code and the text of the error.

        Parameters
        ----------
        method
            ``"set"``, ``"get"`` or ``"try_get"``.
        key
            The key, of which the plugin's text need not be UTF-8.
        argument
            The value, or the timeout in milliseconds; None where there is neither.
        """
        name = key.decode(errors="surrogateescape")
        given = () if argument is None else (argument,)
        try:
            value: bytes | None = getattr(self, method)(name, *given)
        except BaseException as error:  # noqa: BLE001  nothing may be raised into the plugin
            return int(code_of(error)), _text_of(error).encode(errors="replace")
        return 0, value or b""

    def _get(self, key: str, timeout_ms: int) -> bytes:
        name = self._prefix + key
        if hasattr(self._store, "blocking_key_value_get_bytes"):
            return bytes(self._store.blocking_key_value_get_bytes(name, timeout_ms))
        return _to_bytes(self._store.blocking_key_value_get(name, timeout_ms))


def _text_of(error: BaseException) -> str:
    """Return the text of an error; `devrt.errors.from_status` finds in it who is lost."""
    text = f"{type(error).__name__}: {words(error)}".replace("\0", " ")
    if not isinstance(error, PeerLostError):
        return text
    lost = ", ".join(map(str, getattr(error, "processes", ())))
    return f"a key of the job's raised {text} Lost: processes {lost}."


def _to_bytes(value: str | bytes) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else bytes(value)
