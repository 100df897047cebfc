"""The frequencies of transforms, and arrays in their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axes_of, shape_at
from devrt.numpy.moving import roll
from devrt.tracing import at_user_line, dtype_of

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _frequencies(count: Any, n: int, d: float, dtype: Any, device: Any, name: str) -> Any:
    from devrt.numpy.creation import asarray

    if n < 1:
        msg = f"fft.{name}: n is 1 or more, not {n}{at_user_line()}."
        raise InvalidArgumentError(msg, n=n)
    wanted = np.dtype(np.float32) if dtype is None else dtype_of(dtype)
    return asarray((count / (n * d)).astype(wanted), device=device)


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of `fft`'s ``n`` elements, for samples that are ``d`` apart."""
    count = np.fft.ifftshift(np.arange(-(n // 2), n - n // 2))
    return _frequencies(count, n, d, dtype, device, "fftfreq")


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of `rfft`'s elements, for ``n`` samples that are ``d`` apart."""
    return _frequencies(np.arange(n // 2 + 1), n, d, dtype, device, "rfftfreq")


def fftshift(x: Any, axes: Any = None) -> Any:
    """Return a transform with the frequency of zero in the middle of its axes."""
    return _shifted(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """Return an array in the order of transforms: the inverse of `fftshift`."""
    return _shifted(x, axes, -1)


def _shifted(x: Any, axes: Any, direction: int) -> Any:
    shape = shape_at(x, "fft.fftshift")
    dims = axes_of(tuple(axes) if isinstance(axes, list) else axes, len(shape), "fft.fftshift")
    shifts = [shape[i] // 2 if direction > 0 else -(shape[i] // 2) for i in dims]
    return roll(x, tuple(shifts), dims) if dims else x
