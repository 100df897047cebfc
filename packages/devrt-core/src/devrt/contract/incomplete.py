"""Which classes of a plugin lack members of the contract."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from devrt.contract.buffer import Buffer
from devrt.contract.client import Client
from devrt.contract.device import Device, Memory
from devrt.contract.executable import LoadedExecutable
from devrt.contract.members import lacking
from devrt.contract.pjrt_loader import PjrtLoader
from devrt.contract.topology import Topology

__all__ = ["incomplete_classes"]


def incomplete_classes(module: str) -> str:
    """Return which classes of a plugin lack members, all of them; empty if none does.

    Those of the top-level package of ``module`` count.
    """
    top = module.partition(".")[0]
    found = [
        f"{cls.__qualname__} ({kind.__name__}) lacks {', '.join(lacking(cls, kind))}"
        for kind in (Client, Device, Memory, Buffer, LoadedExecutable, Topology, PjrtLoader)
        for cls in _leaves(kind)
        if cls.__module__.partition(".")[0] == top and _is_current(cls) and lacking(cls, kind)
    ]
    return "; ".join(dict.fromkeys(found))


def _is_current(cls: type) -> bool:
    """Return whether a class is not that of a module which was imported anew since."""
    return getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls


def _leaves(kind: type) -> Iterator[type]:
    """Yield the classes that derive from one and from which none derives."""
    subclasses: list[type] = kind.__subclasses__()
    for cls in subclasses:
        if cls.__subclasses__():
            yield from _leaves(cls)
        else:
            yield cls
