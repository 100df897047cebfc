"""Programs that a cache holds, or that a compiler makes and the cache then keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from devrt.errors import DevrtError

if TYPE_CHECKING:
    from devrt.compiling.cache import ExecutableCache

__all__ = ["load_or_compile"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Made = TypeVar("Made", bound=_Named)


def load_or_compile(
    cache: ExecutableCache,
    key: str,
    platform: str,
    load: Callable[[bytes], Made],
    compile: Callable[[], Made],
    serialize: Callable[[Made], bytes],
) -> Made:
    """Return a program as an earlier compilation left it on disk, or else compile and keep it.

    Parameters
    ----------
    cache
        Where it is kept.
    key
        What `devrt.compiling.cache.cache_key` gives for it.
    platform
        To tell of it.
    load, compile, serialize
        Make it of what was kept, make it of the program, and write it down.
    """
    known = cache.get(key)
    if known is not None:
        try:
            return load(known)
        except DevrtError:
            cache.discard(key)  # whatever there is against it, compiling says better
    began = time.perf_counter()
    made = compile()
    seconds = time.perf_counter() - began
    try:
        serialized = serialize(made)
    except DevrtError:  # not every program can be written down, and it runs all the same
        return made
    cache.put(key, serialized, name=made.name, platform=platform, compile_seconds=seconds)
    return made
