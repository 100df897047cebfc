"""The names of ``jaxlib.xla_client``, for programs that are written against them.

``from devrt import xla_client`` replaces ``from jaxlib import xla_client``. Clients made
here belong to the caller, not to the default runtime: each call makes another one.
"""

from __future__ import annotations

from devrt._support.absent import absent
from devrt._support.lazy import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_exported, __dir__, __all__ = attach(__name__)

_NOT_YET = {
    *("DistributedRuntimeService", "get_distributed_runtime_client"),
    "get_distributed_runtime_service",
}


def __getattr__(name: str) -> Any:
    if name in _NOT_YET:
        raise AttributeError(absent(__name__, name, (), _NOT_YET))
    return _exported(name)
