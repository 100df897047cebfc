"""The cluster's key-value store, as a plugin asks for it while and after its client is made."""

from __future__ import annotations

import itertools
from typing import Any

from devrt.compiling.plugin_keys import PluginKeys
from devrt.errors import InvalidTypeError, StatusCode
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.callbacks import answer_error, answer_value

__all__ = ["Store", "keep_store"]


class Store:
    """One connection to the cluster, behind the callbacks of one client.

    It has the methods of `devrt.contract.DistributedRuntimeClient`; `PluginKeys` says which others
    are used.
    """

    def __init__(self, client: Any) -> None:
        for name in ("key_value_set", "blocking_key_value_get"):
            if not callable(getattr(client, name, None)):
                msg = (
                    f"distributed_client must have the method {name}, and is of type "
                    f"{type(client).__name__}."
                )
                raise InvalidTypeError(msg, option="distributed_client")
        self._keys: PluginKeys | None = PluginKeys(client)
        self.number = next(_numbers)

    def close(self) -> None:
        """Release the connection; a plugin that asks afterwards gets an error."""
        self._keys = None

    def answer(self, question: Any) -> bytes:
        """Return the value that a plugin asks for; empty where it sets one."""
        keys = self._keys
        if keys is None:
            msg = "the client that this key-value store belongs to was closed"
            raise _ClosedError(msg)
        key = bytes(ffi.buffer(question.key, question.key_size)).decode()
        if question.what == lib.DEVRT_PUT:
            keys.set(key, bytes(ffi.buffer(question.value, question.value_size)))
            return b""
        if question.what == lib.DEVRT_GET:
            return keys.get(key, int(question.timeout_ms))
        return keys.try_get(key)


class _ClosedError(Exception):
    """The answer of a store that was closed."""

    code = StatusCode.CANCELLED


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
