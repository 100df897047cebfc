"""Arrays that lie where another one lies: of one value, or of its elements in another dtype.

This release compiles no programs of its own, so both are made on the host, for each part once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.arrays.array import Array
from devrt.arrays.construct import put_parts
from devrt.arrays.guards import Config, check_transfer
from devrt.arrays.missing import NoShards, gone
from devrt.arrays.read_only import host_of
from devrt.contract import refuse_nulls
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import Placement

if TYPE_CHECKING:
    import numpy as np

__all__ = ["converted", "filled", "filled_like"]

Shape = tuple[int, ...]
Parts = Mapping[Shape, "np.ndarray[Any, Any]"]


def filled(
    shape: Any, value: Any, dtype: np.dtype[Any] | None, operation: str
) -> np.ndarray[Any, Any]:
    """Return what ``numpy.full`` makes, without losing anything of a complex or masked value.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If there is no such shape, or the dtype does not hold the value.
    """
    import numpy as np

    refuse_nulls(value, operation)
    what = f"{operation} cannot fill an array of shape {shape} and dtype {dtype} with {value!r:.80}"
    if dtype is not None and dtype.kind != "c" and np.iscomplexobj(value):
        msg = f"{what}: the dtype has no imaginary part. Pass the value's real part."
        raise InvalidArgumentError(msg, operation=operation, dtype=str(dtype))
    try:
        if value is not None:  # NumPy makes NaN of it
            return np.full(shape, value, dtype)
        error: Exception = TypeError("None is no number")
    except (OverflowError, TypeError, ValueError) as refused:
        error = refused
    kind = InvalidTypeError if isinstance(error, TypeError) else InvalidArgumentError
    msg = f"{what}: {str(error).rstrip('.')}. Pass a value that the dtype holds."
    raise kind(msg, operation=operation, dtype=str(dtype)) from error


def filled_like(x: Array, value: Any, dtype: np.dtype[Any]) -> Array:
    """Return an array that is placed as ``x`` and holds one value, or several broadcast to it.

    Raises `DeletedError` if ``x`` was deleted, as its placement is gone with it, and
    `InvalidArgumentError` if ``value`` does not broadcast, or a transfer guard refuses.
    """
    import numpy as np

    if x.is_deleted():
        raise gone(x, "devrt.numpy.full_like")
    plan = x.sharding.placement(x.shape)
    filling = filled(np.shape(value), value, dtype, "devrt.numpy.full_like")
    if filling.ndim == 0:
        block = np.full(plan.shard_shape, filling)
        return _placed_as(x, dict.fromkeys(plan.offsets, block), plan, dtype)
    try:
        whole = np.broadcast_to(filling, x.shape)
    except ValueError as error:
        msg = f"a fill_value of shape {filling.shape} does not broadcast to the shape {x.shape}."
        raise InvalidArgumentError(msg, shape=x.shape) from error
    parts = {at: whole[index] for at, index in zip(plan.offsets, plan.indices, strict=True)}
    return _placed_as(x, parts, plan, dtype)


def converted(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return ``x`` with elements of another dtype, placed as it is.

    Waits for ``x``. Each distinct part is read once, and put back. Raises as `filled_like`.
    """
    if x.is_deleted():
        raise gone(x, "devrt.numpy.array")
    x._check_readable("devrt.numpy.array")
    plan = x.sharding.placement(x.shape)
    held = dict(zip(plan.offsets, x._buffers, strict=True))
    for buffer in held.values():
        if not buffer.memory.is_host_visible:
            buffer.copy_to_host_async()
    parts = {offset: host_of(buffer).astype(dtype) for offset, buffer in held.items()}
    return _placed_as(x, parts, plan, dtype)


def _placed_as(x: Array, parts: Parts, plan: Placement, dtype: np.dtype[Any]) -> Array:
    sharding = x.sharding
    if not parts:
        return Array(NoShards(dtype, sharding), sharding, x.shape, x.committed)
    if Config.guards_are_set:
        part = next(iter(parts.values()))
        check_transfer("host_to_device", "devrt.numpy", part, sharding, is_explicit=False)
    buffers = put_parts(parts, plan, sharding)
    return Array(buffers, x._sharding, x._shape, x.committed)
