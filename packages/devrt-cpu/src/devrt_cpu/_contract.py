"""Makes the native module's classes those of the backend contract."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["register"]


@functools.cache
def register() -> None:
    """Load the native module and make its classes those of `devrt.contract`, once."""
    from devrt import contract
    from devrt_cpu import _client_methods, _executable_methods, _ext
    from devrt_cpu._capabilities import capabilities

    written: tuple[tuple[type, Any], ...] = (
        (_ext.CpuClient, _client_methods),
        (_ext.CpuLoadedExecutable, _executable_methods),
    )
    for kind, methods in written:
        for name in methods.__all__:
            setattr(kind, name, getattr(methods, name))
    setattr(_ext.CpuClient, "capabilities", property(capabilities))  # noqa: B010

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
