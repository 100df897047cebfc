"""Makes the native module's classes those of the backend contract."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["register"]


@functools.cache
def register() -> None:
    """Load the native module and make its classes those of `devrt.contract`, once."""
    from devrt import contract
    from devrt_cpu import _client_methods, _ext

    for name in _client_methods.__all__:
        setattr(_ext.CpuClient, name, getattr(_client_methods, name))

    # Any: register() is typed for subclasses, and these become subclasses only by this call.
    pairs: tuple[tuple[Any, type], ...] = (
        (contract.Client, _ext.CpuClient),
        (contract.Device, _ext.CpuDevice),
        (contract.Memory, _ext.CpuMemory),
        (contract.Buffer, _ext.CpuBuffer),
        (contract.LoadedExecutable, _ext.CpuLoadedExecutable),
        (contract.ExecutionToken, _ext.CpuToken),
    )
    for abstract, concrete in pairs:
        abstract.register(concrete)
