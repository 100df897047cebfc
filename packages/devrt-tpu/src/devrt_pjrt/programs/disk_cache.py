"""Compiled programs on disk, for the clients that devrt makes: taken from there, or put there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from devrt.compiling.load_or_compile import load_or_compile
from devrt.errors import DevrtError

if TYPE_CHECKING:
    from devrt.compiling.cache import ExecutableCache
    from devrt_pjrt.client.client import PjrtClient
    from devrt_pjrt.programs.executable import PjrtLoadedExecutable

__all__ = ["CacheSource", "compiled"]

CacheSource = Callable[[], "ExecutableCache | None"]
"""Opens a client's cache, when it first compiles."""

# Compilers read flags from the environment too.
_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_CUSTOM_CALL = b"custom_call"


def compiled(
    client: PjrtClient,
    code: bytes,
    options: bytes,
    load: Callable[[bytes], PjrtLoadedExecutable],
    compile: Callable[[], PjrtLoadedExecutable],
) -> PjrtLoadedExecutable:
    """Return a program as an earlier compilation left it on disk, or else compile it.

    A program with custom calls is compiled: only the compiler looks whether its handlers are there.

    Parameters
    ----------
    client
        Whose program it is.
    code, options
        What the compiler is given.
    load
        Loads what was kept.
    compile
        Compiles it.
    """
    cache = client._cache() if client._cache is not None and _CUSTOM_CALL not in code else None
    key = None if cache is None else _key(client, code, options)
    if cache is None or key is None:
        return compile()
    return load_or_compile(
        cache, key, client.platform, load, compile, lambda made: made.serialize()
    )


def _key(client: PjrtClient, code: bytes, options: bytes) -> str | None:
    """Return the key of all that an executable depends on; None where the plugin has no file."""
    from devrt.compiling.cache import cache_key, hash_of_library, host_cpu

    library = client._library
    try:
        compiler = hash_of_library(library.path) if library.path else None
    except OSError:
        compiler = None
    if compiler is None:
        return None
    compiled_by = ("pjrt", client.plugin_platform, compiler, client.platform_version)
    flags = [os.environ.get(name, "") for name in _VARIABLES]
    return cache_key(*compiled_by, code, options, _devices_of(client), host_cpu(), *flags)


def _devices_of(client: PjrtClient) -> bytes:
    """Return what says for which devices a program is compiled."""
    devices = [f"{d.id} {d.process_index} {d.device_kind}" for d in client.devices()]
    said = "\n".join([*devices, str(client.process_index())]).encode()
    topology = None
    for ask in ("fingerprint", "serialize"):
        try:
            topology = topology or client.topology()
            return said + str(getattr(topology, ask)()).encode()
        except DevrtError:
            continue
    return said
