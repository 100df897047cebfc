"""Which engine and which disk cache the clients of native backends have."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.errors import UnimplementedError
from devrt.native.references import resolve

if TYPE_CHECKING:
    from devrt.compiling.load_or_compile import CacheSource
    from devrt.native.engine import Engine

__all__ = [
    "cache_of",
    "engine_of",
    "formats_of",
    "platform_version",
    "remember_cache",
    "remember_engine",
    "serialized",
]

_engines: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
_caches: weakref.WeakKeyDictionary[Any, CacheSource] = weakref.WeakKeyDictionary()


def remember_engine(clients: type, reference: str) -> None:
    """Keep where the engine of a class of clients is: ``"module:name"``, imported when needed."""
    _engines[clients] = reference


def engine_of(client: Any) -> Engine[Any]:
    """Return how a client's backend compiles.

    Raises
    ------
    UnimplementedError
        If it compiles nothing.
    """
    reference = _engines.get(type(client))
    if reference is None:
        msg = f"the {client.platform} client has no compiler of programs."
        raise UnimplementedError(msg, operation="compile_and_load")
    found: Engine[Any] = resolve(reference)
    return found


def formats_of(client: Any) -> tuple[str, ...]:
    """Return the program formats that a client's engine compiles; none where it has no engine."""
    return ("stablehlo",) if type(client) in _engines else ()


def remember_cache(client: Any, options: Mapping[str, Any]) -> None:
    """Keep the options that say how a client caches; they are read when it first compiles."""
    from devrt.compiling.load_or_compile import cache_source

    _caches[client] = functools.cache(cache_source(options))


def cache_of(client: Any) -> CacheSource | None:
    """Return what opens a client's disk cache; None where it has none."""
    return _caches.get(client)


def platform_version(client: Any, own: str) -> str:
    """Return the version of a client's platform: the backend's, and its compiler's."""
    if type(client) not in _engines:
        return own
    return engine_of(client).platform_version(client, own)


def serialized(executable: bytes, options: bytes, library: str) -> bytes:
    """Return a serialised executable of a compiler's library with its checksum and its origin."""
    from devrt.compiling.serialized import origin_of, with_checksum

    return with_checksum(executable, options, origin_of(library))
