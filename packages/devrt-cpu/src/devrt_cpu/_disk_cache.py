"""Compiled programs on disk, for the clients that devrt makes: taken from there, or put there."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from devrt.compiling.load_or_compile import load_or_compile

if TYPE_CHECKING:
    from devrt.compiling.cache import ExecutableCache
    from devrt_cpu._ext import CpuClient, CpuLoadedExecutable

__all__ = ["compiled", "remember"]

_caches: weakref.WeakKeyDictionary[CpuClient, Callable[[], ExecutableCache | None]] = (
    weakref.WeakKeyDictionary()
)


def remember(client: CpuClient, options: Mapping[str, Any]) -> None:
    """Keep the options that say how a client caches; they are read when it first compiles."""
    _caches[client] = functools.cache(functools.partial(_opened, options))


def compiled(
    client: CpuClient,
    library: str,
    code: bytes,
    options: bytes,
    compile: Callable[[], CpuLoadedExecutable],
) -> CpuLoadedExecutable:
    """Return a program as an earlier compilation left it on disk, or else compile it.

    Parameters
    ----------
    client
        Whose program it is.
    library
        The compiler's path.
    code, options
        What the compiler is given.
    compile
        Compiles it.
    """
    cache = _caches[client]() if client in _caches else None
    key = None if cache is None else _key(library, code, options)
    if cache is None or key is None:
        return compile()
    load = functools.partial(_load, client, library, options)
    return load_or_compile(cache, key, "cpu", load, compile, lambda made: made._serialize())


def _load(client: CpuClient, library: str, options: bytes, known: bytes) -> CpuLoadedExecutable:
    from devrt_cpu import _ext

    return _ext._deserialize(client, library, known, options)


def _opened(options: Mapping[str, Any]) -> ExecutableCache | None:
    from devrt.compiling.cache import from_options  # a start without compiling has no use for it

    return from_options(options)


def _key(library: str, code: bytes, options: bytes) -> str | None:
    from devrt.compiling.cache import cache_key, hash_of_library, host_cpu

    try:
        compiler = hash_of_library(library)
    except OSError:
        return None
    # The compiler reads flags from the environment too.
    flags = os.environ.get("XLA_FLAGS", "")
    return cache_key("cpu", code, options, compiler, host_cpu(), flags)
