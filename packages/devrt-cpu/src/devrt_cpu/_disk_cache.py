"""Compiled programs on disk, for the clients that devrt makes: taken from there, or put there."""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from devrt.errors import DevrtError

if TYPE_CHECKING:
    from devrt.compilation_cache import ExecutableCache
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
    from devrt_cpu import _ext

    cache = _caches[client]() if client in _caches else None
    key = None if cache is None else _key(library, code, options)
    if cache is None or key is None:
        return compile()
    known = cache.get(key)
    if known is not None:
        try:
            return _ext._deserialize(client, library, known, options)
        except DevrtError:
            cache.discard(key)  # whatever it holds against it, compiling says better
    began = time.perf_counter()
    made = compile()
    seconds = time.perf_counter() - began
    try:
        serialized = made._serialize()
    except DevrtError:  # not every program can be written down, and it runs all the same
        return made
    cache.put(key, serialized, name=made.name, platform="cpu", compile_seconds=seconds)
    return made


def _opened(options: Mapping[str, Any]) -> ExecutableCache | None:
    from devrt.compilation_cache import from_options  # a start without compiling has no use for it

    return from_options(options)


def _key(library: str, code: bytes, options: bytes) -> str | None:
    from devrt.compilation_cache import cache_key, hash_of_library, host_cpu

    try:
        compiler = hash_of_library(library)
    except OSError:
        return None
    # The compiler reads flags from the environment too.
    flags = os.environ.get("XLA_FLAGS", "")
    return cache_key("cpu", code, options, compiler, host_cpu(), flags)
