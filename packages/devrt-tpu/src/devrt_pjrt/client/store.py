"""The cluster's key-value store, as a plugin asks for it while and after its client is made."""

from __future__ import annotations

import itertools
from typing import Any

from devrt.errors import InvalidTypeError, StatusCode
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.callbacks import answer_error, answer_value, code_of

__all__ = ["Store", "keep_store"]

_WITHOUT_WAITING_MS = 1


class Store:
    """One connection to the cluster, behind the callbacks of one client.

    It has the methods of `devrt.contract.DistributedRuntimeClient`. Where it has
    ``key_value_set_bytes``, ``blocking_key_value_get_bytes`` or ``key_value_try_get``, these are
    used: a plugin's values are bytes, which are written as Latin-1 in text otherwise.
    """

    def __init__(self, client: Any) -> None:
        for name in ("key_value_set", "blocking_key_value_get"):
            if not callable(getattr(client, name, None)):
                msg = (
                    f"distributed_client must have the method {name}, and is of type "
                    f"{type(client).__name__}."
                )
                raise InvalidTypeError(msg, option="distributed_client")
        self._client: Any = client
        self.number = next(_numbers)

    def close(self) -> None:
        """Release the connection; a plugin that asks afterwards gets an error."""
        self._client = None

    def answer(self, question: Any) -> bytes:
        """Return the value that a plugin asks for; empty where it sets one."""
        client = self._client
        if client is None:
            msg = "the client that this key-value store belongs to was closed"
            raise _RefusedError(StatusCode.CANCELLED, msg)
        key = bytes(ffi.buffer(question.key, question.key_size)).decode()
        if question.what == lib.DEVRT_PUT:
            _set(client, key, bytes(ffi.buffer(question.value, question.value_size)))
            return b""
        if question.what == lib.DEVRT_GET:
            return _get(client, key, int(question.timeout_ms))
        return _try_get(client, key)


class _RefusedError(Exception):
    """An answer that is an error."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def _set(client: Any, key: str, value: bytes) -> None:
    if hasattr(client, "key_value_set_bytes"):
        client.key_value_set_bytes(key, value)
    else:
        client.key_value_set(key, value.decode("latin-1"))


def _get(client: Any, key: str, timeout_ms: int) -> bytes:
    if hasattr(client, "blocking_key_value_get_bytes"):
        return bytes(client.blocking_key_value_get_bytes(key, timeout_ms))
    return _to_bytes(client.blocking_key_value_get(key, timeout_ms))


def _try_get(client: Any, key: str) -> bytes:
    for name in ("key_value_try_get_bytes", "key_value_try_get"):
        if hasattr(client, name):
            return _to_bytes(getattr(client, name)(key))
    try:
        return _get(client, key, _WITHOUT_WAITING_MS)
    except Exception as error:
        if code_of(error) is StatusCode.DEADLINE_EXCEEDED:
            raise _RefusedError(StatusCode.NOT_FOUND, f"key {key!r} is not set") from error
        raise


def _to_bytes(value: str | bytes) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else bytes(value)


_numbers = itertools.count(1)
_stores: dict[int, Store] = {}


def keep_store(store: Store) -> int:
    """Return the number that a plugin knows a store by, for as long as the process lives."""
    _stores[store.number] = store
    return store.number


@ffi.def_extern()  # type: ignore[untyped-decorator]
def devrt_python_ask(question: Any, answer: Any) -> None:
    """Answer a plugin; called on whatever thread it asks."""
    try:
        answer_value(answer, _stores[question.store].answer(question))
    except BaseException as error:  # noqa: BLE001  nothing may be raised into the plugin
        answer_error(answer, error)
