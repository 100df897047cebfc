"""What a CPU client can do, which depends on how it was made and on the compiler's being here.

What it needs is imported when a caller asks: a client's start has no use for it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import devrt.contract
    from devrt_cpu._ext import CpuClient

__all__ = ["capabilities", "remember_as_synchronous"]

_synchronous: weakref.WeakSet[CpuClient] = weakref.WeakSet()


def remember_as_synchronous(client: CpuClient) -> None:
    """Keep that a client's transfers have ended when a call returns; it cannot be seen of it."""
    _synchronous.add(client)


def capabilities(self: CpuClient) -> devrt.contract.Capabilities:
    """Return what can be counted on; see `devrt.contract.Capabilities`."""
    from devrt.contract import Capabilities
    from devrt.native.engines import formats_of

    compiles = _compiles(self)
    return Capabilities(
        dlpack=True,
        asynchronous=compiles or self not in _synchronous,
        donation=compiles,
        formats=formats_of(self) if compiles else (),
        layouts=True,
        streams=False,
        collectives=compiles,
        custom_calls=compiles,
    )


def _compiles(client: CpuClient) -> bool:
    from devrt.errors import DevrtError
    from devrt_cpu import _library

    try:
        _library.of(client)
    except DevrtError:  # none is installed, or the one that the environment names is not
        return False
    return True
