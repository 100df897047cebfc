"""The disk cache of compiled programs, for the clients that devrt makes."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from devrt.compiling.load_or_compile import CacheSource, cache_source, load_or_compile
from devrt_cpu._linalg import is_known

if TYPE_CHECKING:
    from devrt.compiling import Program
    from devrt_cpu._ext import CpuClient, CpuLoadedExecutable

__all__ = ["compiled", "remember"]

_sources: weakref.WeakKeyDictionary[CpuClient, CacheSource] = weakref.WeakKeyDictionary()


def remember(client: CpuClient, options: Mapping[str, Any]) -> None:
    """Keep the options that say how a client caches; they are read when it first compiles."""
    _sources[client] = functools.cache(cache_source(options))


def compiled(
    client: CpuClient,
    library: str,
    program: Program,
    options: bytes,
    compile: Callable[[], CpuLoadedExecutable],
) -> CpuLoadedExecutable:
    """Return a program as an earlier compilation left it on disk, or else compile it."""
    from devrt_cpu import _ext

    return load_or_compile(
        _sources.get(client),
        "cpu",
        library,
        program.facts,
        ("cpu", program, options),
        answers=is_known,
        load=lambda known: _ext._deserialize(client, library, known, options),
        compile=compile,
        serialize=lambda made: made._serialize(),
    )
