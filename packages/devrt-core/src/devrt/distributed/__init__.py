"""Processes that act as one job: keys, barriers and heartbeats through a coordination service."""

from __future__ import annotations

from devrt._support.absent import absent
from devrt._support.lazy import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_exported, __dir__, __all__ = attach(__name__)

_NOT_YET = {"global_state", "initialize", "is_initialized", "shutdown"}


def __getattr__(name: str) -> Any:
    if name in _NOT_YET:
        raise AttributeError(absent(__name__, name, (), _NOT_YET))
    return _exported(name)
