"""What NumPy refuses to make on the host, as errors of devrt's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError, OutOfMemoryError

__all__ = ["made"]

_Made = TypeVar("_Made")


def made(operation: str, device: Any, make: Callable[..., _Made], *arguments: Any) -> _Made:
    """Return what a function makes of a shape, for a device.

    Raises
    ------
    OutOfMemoryError
        If the host has no memory for it; names the device and the bytes.
    InvalidArgumentError, InvalidTypeError
        If there is no such shape.
    """
    try:
        return make(*arguments)
    except DevrtError:
        raise
    except MemoryError as error:
        raise _out_of_memory(operation, device, error) from None
    except (OverflowError, ValueError) as error:
        raise InvalidArgumentError(_text(operation, error), operation=operation) from error
    except TypeError as error:
        raise InvalidTypeError(_text(operation, error), operation=operation) from error


def _text(operation: str, error: Exception) -> str:
    return f"devrt.numpy.{operation} failed: {str(error).rstrip('.')}."


def _out_of_memory(operation: str, device: Any, error: MemoryError) -> OutOfMemoryError:
    target = _default_device() if device is None else device
    shape: Any = getattr(error, "shape", None)  # NumPy's own error has them
    dtype: Any = getattr(error, "dtype", None)
    size = None if shape is None or dtype is None else math.prod(shape) * dtype.itemsize
    what = "it" if size is None else f"{size} bytes"
    msg = (
        f"devrt.numpy.{operation} failed: out of memory: the host cannot allocate {what} for what "
        f"is to be put on {target}. Make a smaller array, or make it in a traced function."
    )
    return OutOfMemoryError(msg, operation=operation, device=str(target), bytes=size)


def _default_device() -> Any:
    from devrt.runtime import default_runtime

    return default_runtime().default_device()
