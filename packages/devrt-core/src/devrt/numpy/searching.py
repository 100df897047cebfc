"""Where values belong in sorted arrays, and which of them are in others."""

from __future__ import annotations

from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, binary, compare, convert, named, promote, select

__all__ = ["digitize", "isin", "searchsorted"]


def places_in(ordered: Any, values: Any, side: str) -> Any:
    """Return, as int32, how many elements of a sorted vector come before each value.

    Those equal to it count on the right side. It is found by halves, one step for each bit of the
    vector's length. NaNs come after all others.
    """
    size, shape = ordered.shape[0], values.shape
    low = tracing.constant(0, named("int32"), shape)
    high = tracing.constant(size, named("int32"), shape)
    for _ in range(size.bit_length()):
        # Halfway, without a sum beyond 32 bits.
        middle = binary("add", low, binary("divide", binary("subtract", high, low), 2))
        found = tracing.take(ordered, middle, 0)
        is_before = _before(found, values) if side == "left" else _not(_before(values, found))
        is_left = compare("LT", low, high)
        low = select(_and(is_left, is_before), binary("add", middle, 1), low)
        high = select(_and(is_left, _not(is_before)), middle, high)
    return low


def _and(x: Any, y: Any) -> Any:
    return binary("and", x, y)


def _not(x: Any) -> Any:
    return tracing.unary("not", x)


def _before(x: Any, y: Any) -> Any:
    """Return where x comes before y in order."""
    if x.dtype.kind == "c":
        (xr, xi), (yr, yi) = tracing.parts(x), tracing.parts(y)
        return binary("or", _before(xr, yr), _and(compare("EQ", xr, yr), _before(xi, yi)))
    before = compare("LT", x, y)
    if x.dtype.kind in "biu":
        return before
    return binary("or", before, _and(compare("NE", y, y), compare("EQ", x, x)))


@operation(static=("side", "method"))
def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Any:
    """Return the indices, int32, at which values belong in a sorted vector.

    On the ``left`` side before elements equal to them, on the ``right`` side after. ``sorter`` has
    the indices that sort ``a``. ``method`` is taken as JAX takes it and changes nothing.
    """
    if side not in ("left", "right"):
        msg = f"searchsorted: side is 'left' or 'right', not {side!r}{at_user_line()}."
        raise InvalidArgumentError(msg, side=side)
    del method
    x, values = promote(a, v)
    if x.ndim != 1:
        msg = f"searchsorted: the sorted array is a vector, not {x.aval}{at_user_line()}."
        raise InvalidArgumentError(msg, shape=x.shape)
    if sorter is not None:
        x = tracing.take(x, as_value(sorter), 0)
    if not x.size:
        return tracing.constant(0, named("int32"), values.shape)
    return places_in(x, values, side)


@operation(static=("right", "method"))
def digitize(x: Any, bins: Any, right: bool = False, *, method: str = "scan") -> Any:
    """Return the indices, int32, of the bins that values are in; the bins' edges rise or fall.

    A bin holds its lower edge, or with ``right`` its upper one.
    """
    values, edges = promote(x, bins)
    if edges.ndim != 1:
        msg = f"digitize: the edges are a vector, not {edges.aval}{at_user_line()}."
        raise InvalidArgumentError(msg, shape=edges.shape)
    side = "left" if right else "right"
    if not edges.size:
        return tracing.constant(0, named("int32"), values.shape)
    rising = searchsorted(edges, values, side, method=method)
    other = searchsorted(tracing.reverse(edges, [0]), values, side, method=method)
    falling = binary("subtract", edges.shape[0], other)
    first, last = (tracing.slice_(edges, (i,), (i + 1,)) for i in (0, edges.shape[0] - 1))
    is_rising = tracing.reshape(compare("LE", first, last), ())
    return select(tracing.broadcast_to(is_rising, values.shape), rising, falling)


@operation(static=("assume_unique", "invert", "method"))
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    method: str = "auto",
) -> Any:  # fmt: skip
    """Return which elements of one array are in another."""
    del assume_unique, method
    x, others = promote(element, test_elements)
    others = tracing.reshape(others, (others.size,))
    if not others.size or not x.size:
        return tracing.constant(invert, named("bool"), x.shape)
    (ordered,) = tracing.sort([others], 0)
    at = places_in(ordered, tracing.reshape(x, (x.size,)), "left")
    found = compare("EQ", tracing.take(ordered, at, 0), tracing.reshape(x, (x.size,)))
    found = tracing.reshape(found, x.shape)
    return _not(found) if invert else convert(found, named("bool"))
