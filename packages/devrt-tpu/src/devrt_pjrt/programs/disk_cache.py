"""The disk cache of compiled programs: what an executable of a plugin depends on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from devrt.compiling.load_or_compile import load_or_compile
from devrt.errors import DevrtError

if TYPE_CHECKING:
    from devrt.compiling import Program
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.programs.executable import PjrtLoadedExecutable

__all__ = ["compiled"]


def compiled(
    connection: Connection,
    program: Program,
    options: bytes,
    load: Callable[[bytes], PjrtLoadedExecutable],
    compile: Callable[[], PjrtLoadedExecutable],
) -> PjrtLoadedExecutable:
    """Return a program as an earlier compilation left it on disk, or else compile it."""
    return load_or_compile(
        connection.cache,
        connection.platform,
        connection.library.path or "",
        program.facts,
        _facts(connection, program, options),
        load=load,
        compile=compile,
        serialize=lambda made: made.serialize(),
    )


def _facts(connection: Connection, code: bytes, options: bytes) -> Iterator[str | bytes]:
    """Yield what an executable depends on; the devices may take a while to describe."""
    client = connection.client
    platform, version = connection.inventory.platform, client.platform_version
    yield from ("pjrt", platform, version, code, options)
    yield from (os.environ.get(name, "") for name in connection.traits.compiler_variables)
    for device in client.devices():
        yield f"{device.id} {device.process_index} {device.device_kind}"
    yield str(client.process_index())
    for ask in ("fingerprint", "serialize"):
        try:
            yield str(getattr(client.topology(), ask)())
        except DevrtError:
            continue
        return
