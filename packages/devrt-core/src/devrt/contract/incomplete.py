"""Which classes of a plugin lack members of the contract."""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterator
from typing import Any

from devrt.contract.members import lacking, members

__all__ = ["incomplete_classes"]

_KINDS = (
    ("devrt.contract.client", "Client"),
    ("devrt.contract.device", "Device"),
    ("devrt.contract.device", "Memory"),
    ("devrt.contract.buffer", "Buffer"),
    ("devrt.contract.executable", "LoadedExecutable"),
    ("devrt.contract.executable", "ExecutionToken"),
    ("devrt.contract.topology", "Topology"),
    ("devrt.contract.pjrt_loader", "PjrtLoader"),
)


def incomplete_classes(module: str) -> str:
    """Return which classes of a plugin lack members, all of them; empty if none does.

    Those of the top-level package of ``module`` count that are there by now, and that no class
    derives from. A class that is abstract on purpose has an abstract member of its own, or
    `abc.ABC` among its bases, and does not count.
    """
    top = module.partition(".")[0]
    found = [
        f"{cls.__qualname__} ({kind.__name__}) lacks {', '.join(lacking(cls, kind))}"
        for kind in _kinds()
        for cls in _leaves(kind)
        if cls.__module__.partition(".")[0] == top
        and _is_current(cls)
        and lacking(cls, kind)
        and not _is_base(cls, kind)
    ]
    return "; ".join(dict.fromkeys(found))


def _kinds() -> Iterator[type]:
    """Yield the contract's classes; none of a module that nobody imported, so nobody derives."""
    for module, name in _KINDS:
        if module in sys.modules:
            yield getattr(sys.modules[module], name)


def _is_current(cls: type) -> bool:
    """Return whether a class is not that of a module which was imported anew since."""
    return getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls


def _is_base(cls: Any, kind: type) -> bool:
    return abc.ABC in cls.__bases__ or not members(kind).keys() >= cls.__abstractmethods__


def _leaves(kind: type) -> Iterator[type]:
    """Yield the classes that derive from one and from which none derives."""
    subclasses: list[type] = kind.__subclasses__()
    for cls in subclasses:
        if cls.__subclasses__():
            yield from _leaves(cls)
        else:
            yield cls
