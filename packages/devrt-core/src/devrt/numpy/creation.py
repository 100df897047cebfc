"""Arrays made on the host and placed on devices, by NumPy's names.

What is made of an array on devices lies where that lies.

Element types follow JAX's defaults: Python integers and floats become 32-bit, and a ``dtype``
argument is taken as it is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.arrays import Array, device_put
from devrt.arrays.dispatch_key import WEAK, weakened
from devrt.arrays.external import is_on_device, taken_over
from devrt.arrays.guards import Config
from devrt.arrays.like import converted, filled, filled_like
from devrt.arrays.missing import gone
from devrt.arrays.put import (
    COPY,
    as_host_array,
    is_there,
    put_host,
    resolve_target,
    target_kind,
)
from devrt.contract import Device
from devrt.errors import InvalidTypeError
from devrt.numpy import staged
from devrt.numpy.host_dtypes import held_dtype, narrowed
from devrt.numpy.limits import dtype_beside, dtype_for
from devrt.numpy.made_on_host import made
from devrt.programs.constraints import with_sharding_constraint
from devrt.sharding import Sharding
from devrt.tracing import as_value, inexact, is_tracing, result_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

__all__ = [
    "arange",
    "array",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "eye",
    "frombuffer",
    "full",
    "full_like",
    "identity",
    "linspace",
    "ones",
    "ones_like",
    "tri",
    "zeros",
    "zeros_like",
]


def _staged(value: Any, device: Any) -> Array:
    """Return a value of the trace; a sharding is a constraint of its program."""
    is_stated = isinstance(device, Sharding)
    staged_value: Array = with_sharding_constraint(value, device) if is_stated else value
    return staged_value


def _are_devices(object: Any) -> bool:
    while isinstance(object, list | tuple) and object:
        object = object[0]
    return isinstance(object, Device)


def _placed(host: Any, device: Any = None) -> Array:
    if Config.guards_are_set and type(host) is not Array:
        kind = target_kind(device)
        return put_host(host, device, kind, COPY, "devrt.numpy", is_explicit=False)
    placed: Array = device_put(host, device)
    return placed


def _dtype(dtype: DTypeLike | None, operation: str) -> np.dtype[Any] | None:
    """Resolve a dtype, ml_dtypes' names included."""
    return None if dtype is None else dtype_for(dtype, operation)


def array(
    object: Any, dtype: DTypeLike | None = None, copy: bool | None = True, *, device: Any = None
) -> Array:
    """Make an array from nested sequences, a scalar or any array.

    Parameters
    ----------
    object
        What NumPy's ``array`` takes, or a devrt array.
    dtype
        Element type; by default an array keeps its own, and Python numbers become 32-bit
        (integers that do not fit stay 64-bit). Another one than that of a devrt array is made on
        the host, part by part: each is read once and put back where it was.
    copy
        Whether a devrt array that has the dtype and the placement already is copied. False and None
        return it as it is. What must be converted or moved is copied in any case.
    device
        A device or sharding; when omitted, where the devrt array lies, or the default device.

    Returns
    -------
    Array
        Of devices a NumPy array of objects. Sharded, and on the memory kind, as the devrt array.
        Waits for the device only where the elements of a devrt array become another dtype.

    Raises
    ------
    DeletedError
        If the devrt array was deleted.
    """
    given: Any = copy  # callers are not bound by the annotation
    if not (given is None or isinstance(given, bool)):
        msg = f"copy is True, False or None, not {given!r} of type {type(given).__name__}."
        raise InvalidTypeError(msg, operation="devrt.numpy.array")
    if _are_devices(object):
        grid: Any = np.array(object, dtype=np.object_)
        return grid  # type: ignore[no-any-return]
    if is_tracing():
        return _staged(_of_values(object, _dtype(dtype, "array")), device)
    if type(object) is Array:
        return _of_array(object, _dtype(dtype, "array"), bool(copy), device)
    must_copy = copy is not False
    if is_on_device(object) and (taken := taken_over(object, must_copy, device)) is not None:
        return _of_array(taken, _dtype(dtype, "array"), False, device)
    has_dtype = hasattr(object, "dtype")
    wanted = _dtype(dtype, "array") or held_dtype(object)
    host = as_host_array(object, wanted, "devrt.numpy.array")
    placed = _placed(host if has_dtype else narrowed(host, wanted), device)
    return _made_of(object, dtype, placed)


def _made_of(object: Any, dtype: Any, placed: Array) -> Array:
    """Return what was made of a value: of one of Python's numbers it gives way to others."""
    return weakened(placed) if dtype is None and type(object) in WEAK else placed


def _of_values(object: Any, dtype: np.dtype[Any] | None) -> Any:
    if isinstance(object, list | tuple):
        if staged.has_values(object):
            return staged.strong(staged.stacked(object), dtype)
        object = narrowed(as_host_array(object, dtype, "devrt.numpy.array"), dtype)
    if dtype is None and type(object) in WEAK:
        return as_value(object)
    return staged.strong(object, dtype)


def _of_array(x: Array, dtype: np.dtype[Any] | None, copy: bool, device: Any) -> Array:
    if x.is_deleted():
        raise gone(x, "devrt.numpy.array")
    if dtype is None or dtype == x.dtype:
        placed: Array = x if device is None else device_put(x, device, may_alias=not copy)
        return x.copy() if copy and device is None else placed
    if device is None or is_there(x, *resolve_target(x, device, "devrt.numpy.array")):
        return converted(x, dtype)
    return _placed(x._value("devrt.numpy.array").astype(dtype), device)


def asarray(
    object: Any, dtype: DTypeLike | None = None, *, copy: bool | None = None, device: Any = None
) -> Array:
    """Return ``object`` as an array: itself if it is one already with this dtype and placement.

    The parameters are those of `array`.
    """
    return array(object, dtype, copy, device=device)


def full(
    shape: int | Sequence[int],
    fill_value: Any,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """Make an array of ``shape`` whose elements are all ``fill_value``.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If the dtype does not hold ``fill_value``, or it has elements that are missing.
    """
    if is_tracing():
        given = (shape, fill_value, _dtype(dtype, "full"))
        return _staged(made("full", device, staged.full, *given), device)
    operation = "devrt.numpy.full"
    host = made("full", device, filled, shape, fill_value, _dtype(dtype, "full"), operation)
    placed = _placed(host if hasattr(fill_value, "dtype") else narrowed(host, dtype), device)
    return _made_of(fill_value, dtype, placed)


def zeros(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """Make an array of zeros, float32 by default."""
    target = dtype_beside(shape, dtype, "zeros")
    if is_tracing():
        return full(shape, 0, target, device=device)
    return _placed(made("zeros", device, np.zeros, shape, target), device)


def ones(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """Make an array of ones, float32 by default."""
    target = dtype_beside(shape, dtype, "ones")
    if is_tracing():
        return full(shape, 1, target, device=device)
    return _placed(made("ones", device, np.ones, shape, target), device)


def empty(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """Make an array of zeros: arrays are immutable, so unset elements could never be set."""
    return zeros(shape, dtype_beside(shape, dtype, "empty"), device=device)


def full_like(
    x: Any,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    """Make an array of ``x``'s shape and dtype whose elements are all ``fill_value``.

    ``shape`` is another one than that of ``x``. The array lies where ``x`` lies, on the same memory
    kind, unless ``device`` says otherwise. Nothing is read of an ``x`` on devices: one part goes
    from the host to each device or memory that differs.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If the dtype does not hold ``fill_value``, or it has elements that are missing.
    DeletedError
        If ``x`` was deleted.
    """
    if is_tracing():
        value = as_value(x)
        own_dtype = dtype if dtype is not None else value.dtype
        return full(value.shape if shape is None else shape, fill_value, own_dtype, device=device)
    if shape is not None:
        return full(shape, fill_value, dtype or getattr(x, "dtype", None), device=device)
    if type(x) is Array and device is None:
        return filled_like(x, fill_value, _dtype(dtype, "full_like") or x.dtype)
    like: Any = x if type(x) is Array else np.asarray(x)
    own = like.dtype if hasattr(x, "dtype") else narrowed(like, dtype).dtype
    given = (like.shape, fill_value, _dtype(dtype, "full_like") or own, "devrt.numpy.full_like")
    host = made("full_like", device, filled, *given)
    return _placed(host, device)


def zeros_like(
    x: Any, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Make an array of zeros of ``x``'s shape and dtype, placed as `full_like` places it."""
    return full_like(x, 0, dtype, shape, device=device)


def ones_like(
    x: Any, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Make an array of ones of ``x``'s shape and dtype, placed as `full_like` places it."""
    return full_like(x, 1, dtype, shape, device=device)


def empty_like(
    x: Any, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Make an array of zeros of ``x``'s shape and dtype: arrays are immutable."""
    return full_like(x, 0, dtype, shape, device=device)


def copy(x: Any, order: str | None = None) -> Array:
    """Return an array of its own memory."""
    return array(x, copy=True)


def arange(
    start: float,
    stop: float | None = None,
    step: float | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """Make evenly spaced values within ``[start, stop)``, by NumPy's rules."""
    first, last = (0, start) if stop is None else (start, stop)
    bounds = [staged.checked_bound(each) for each in (first, last, 1 if step is None else step)]
    host = made("arange", device, partial(np.arange, dtype=_dtype(dtype, "arange")), *bounds)
    if is_tracing():
        return _staged(staged.progression(narrowed(host, dtype)), device)
    return _placed(narrowed(host, dtype), device)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Make ``num`` evenly spaced values from ``start`` to ``stop``, by NumPy's rules.

    Of arrays, in a new dimension ``axis``. With ``retstep`` also return the distance.
    """
    if all(isinstance(each, bool | int | float | complex) for each in (start, stop)):
        spaced = partial(np.linspace, retstep=True, dtype=_dtype(dtype, "linspace"))
        host, step = made("linspace", device, spaced, start, stop, num, endpoint)
        host = narrowed(host, dtype)
        placed = _staged(as_value(host), device) if is_tracing() else _placed(host, device)
        if not retstep:
            return placed
        return placed, float(step) if not isinstance(step, complex) else step
    from devrt import numpy

    given = _dtype(dtype, "linspace") or inexact(result_type(start, stop)[0])
    values = numpy.moveaxis(staged.line(start, stop, num, bool(endpoint), given), 0, axis)
    if not retstep:
        return values
    return values, (stop - start) / max(num - 1 if endpoint else num, 1)


def eye(
    N: int,  # noqa: N803  NumPy's name
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """Make an ``N`` by ``M`` array with ones on the ``k``-th diagonal, float32 by default."""
    target = _dtype(dtype, "eye") or np.dtype(np.float32)
    if is_tracing():
        columns = N if M is None else M
        return _staged(staged.below_diagonal(N, columns, k, target, "EQ"), device)
    return _placed(made("eye", device, np.eye, N, M, k, target), device)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """Make an ``n`` by ``n`` array with ones on its diagonal."""
    return eye(n, dtype=dtype)


def tri(
    N: int,  # noqa: N803  NumPy's name
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: DTypeLike | None = None,
) -> Array:
    """Make an ``N`` by ``M`` array with ones at and below the ``k``-th diagonal."""
    target = _dtype(dtype, "tri") or np.dtype(np.float32)
    if is_tracing():
        columns = N if M is None else M
        below: Array = staged.below_diagonal(N, columns, k, target, "LE")
        return below
    return _placed(made("tri", None, np.tri, N, M, k, target))


def frombuffer(
    buffer: Any, dtype: DTypeLike | None = None, count: int = -1, offset: int = 0
) -> Array:
    """Make an array of one dimension of the bytes of a buffer, float32 by default."""
    return array(np.frombuffer(buffer, _dtype(dtype, "frombuffer") or np.float32, count, offset))
