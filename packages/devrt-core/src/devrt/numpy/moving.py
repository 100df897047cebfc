"""Arrays with elements at other places: rolled, flipped, turned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axes_of
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line

__all__ = ["flip", "fliplr", "flipud", "roll", "rot90"]


@operation(static=("axis",))
def flip(m: Any, axis: Any = None) -> Any:
    """Return an array with the order of elements along some axes reversed, by default all."""
    x = as_value(m)
    return tracing.reverse(x, axes_of(axis, x.ndim, "flip"))


def fliplr(m: Any) -> Any:
    """Return an array with its columns in reverse order."""
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """Return an array with its rows in reverse order."""
    return flip(m, 0)


@operation(static=("k", "axes"))
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Return an array turned by ``k`` right angles, from the first axis towards the second."""
    x = as_value(m)
    first, second = axes_of(axes, x.ndim, "rot90")
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    match k % 4:
        case 1:
            return tracing.transpose(tracing.reverse(x, (second,)), order)
        case 2:
            return tracing.reverse(x, (first, second))
        case 3:
            return tracing.reverse(tracing.transpose(x, order), (second,))
    return x


@operation(static=("axis",))
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Return an array with elements moved along axes; those beyond the end come at the start.

    ``shift`` is a number, a sequence with one for each axis, or an array of them. The program is
    the same for every shift.
    """
    x = as_value(a)
    if axis is None:
        return tracing.reshape(_rolled(tracing.reshape(x, (x.size,)), _one(shift), 0), x.shape)
    given = axis if isinstance(axis, Sequence) else (axis,)
    shifts = _shifts(shift, len(given))
    for i, by in zip(given, shifts * (len(given) if len(shifts) == 1 else 1), strict=True):
        x = _rolled(x, by, axes_of(i, x.ndim, "roll")[0])
    return x


def _shifts(shift: Any, count: int) -> list[Any]:
    if isinstance(shift, Sequence):
        shifts = list(shift)
    else:
        by = as_value(shift)
        shifts = [by] if not by.ndim else [by[i] for i in range(by.shape[0])]
    if len(shifts) not in (1, count):
        msg = f"roll: {len(shifts)} shifts are given for {count} axes{at_user_line()}."
        raise InvalidArgumentError(msg, shifts=len(shifts), axes=count)
    return shifts


def _one(shift: Any) -> Any:
    """Return a shift along all elements: the sum of several."""
    if isinstance(shift, Sequence):
        return sum(shift[1:], shift[0])
    by = as_value(shift)
    return by.sum() if by.ndim else shift


def _rolled(x: Any, shift: Any, axis: int) -> Any:
    size = x.shape[axis]
    if not size:
        return x
    twice = tracing.concatenate([x, x], axis)
    if isinstance(shift, int):
        first = -shift % size
        return tracing.slice_in_dim(twice, first, first + size, axis)
    start = tracing.binary("subtract", size, _modulo(shift, size))
    starts = [start if i == axis else 0 for i in range(x.ndim)]
    return tracing.dynamic_slice(twice, starts, x.shape)


def _modulo(shift: Any, size: int) -> Any:
    """Return a shift between 0 and ``size``, as the remainder has the sign of the shift."""
    rest = tracing.binary("remainder", shift, size)
    return tracing.select(tracing.compare("LT", rest, 0), tracing.binary("add", rest, size), rest)
