"""NumPy's functions on arrays of devices: eager, each as a program of its own, and in traces.

Dtypes follow JAX's promotion; Python's numbers are of 32 bits where nothing else decides.
"""

from __future__ import annotations

import functools
from typing import Any

from devrt._support.lazy import attach

# NumPy and the dtypes come with the first name that is used: they take longer than all of devrt.
_exported, _, __all__ = attach(__name__)

_METADATA = {"dtype", "ndim", "shape", "size"}

__array_api_version__ = "2024.12"


def __getattr__(name: str) -> Any:
    if name in __all__:
        from devrt.programs.overlaid import moving

        value = moving(name, _exported(name))
        globals()[name] = value
        return value
    if name == "ndarray":
        from devrt.arrays import Array

        return Array
    import numpy as np

    from devrt import dtypes

    if name in _element_types():
        return dtypes.to_numpy(dtypes.by_name(name).code).type
    value = getattr(np, name, None) if not name.startswith("_") else None
    if isinstance(value, float | type(None)) and hasattr(np, name):
        return value  # a constant: pi, e, inf, nan, newaxis
    if isinstance(value, type) and issubclass(value, np.generic):
        return value
    if name == "dtype":
        import ml_dtypes  # noqa: F401  which has NumPy know its types by name
    if name in _METADATA:
        return value
    if value is None:
        from devrt._support.absent import absent  # seldom needed, and start-up counts

        raise AttributeError(absent("devrt.numpy", name, __dir__()))
    raise AttributeError(
        f"module 'devrt.numpy' has no attribute {name!r}. Use numpy.{name} on numpy.asarray(x), or "
        "write it with the functions that are here."
    )


@functools.cache
def _element_types() -> frozenset[str]:
    from devrt import dtypes

    return frozenset(element.name for element in dtypes.ELEMENT_TYPES)


def __dir__() -> list[str]:
    return sorted({*__all__, *_element_types(), *_METADATA})
