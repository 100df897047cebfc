"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axes_of
from devrt.numpy.linalg.decompositions import svdvals
from devrt.numpy.linalg.operands import matrices
from devrt.numpy.linalg.solving import inv
from devrt.numpy.reductions import computed_in, max, min, sum
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, binary, compare, convert, inexact, real_of, unary

__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]


def _refused(name: str, order: Any, of: str) -> InvalidArgumentError:
    msg = f"linalg.{name}: there is no norm of order {order!r} of {of}{at_user_line()}."
    return InvalidArgumentError(msg, ord=order)


def _sizes(a: Any) -> tuple[Any, Any]:
    """Return the absolute values of elements, and the dtype of their norm."""
    x = as_value(a)
    dtype = inexact(x.dtype)
    x = convert(x, computed_in(dtype))
    return unary("abs", x, real_of(x.dtype)), real_of(dtype)


@operation(static=("axis", "keepdims", "ord"))
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return the norms of vectors along some axes, by default of all elements as one vector.

    ``ord`` is any number, or an infinity: the greatest, or least, absolute value.
    """
    sizes, dtype = _sizes(x)
    axes = axes_of(axis, sizes.ndim, "linalg.vector_norm")
    return convert(_of_vectors(sizes, axes, keepdims, ord), dtype)


def _of_vectors(x: Any, axes: tuple[int, ...], keepdims: bool, order: Any) -> Any:
    if order is None or order == 2:
        return unary("sqrt", sum(binary("multiply", x, x), axes, keepdims=keepdims))
    if isinstance(order, str):
        raise _refused("vector_norm", order, "vectors")
    if order == math.inf:
        return max(x, axes, keepdims=keepdims, initial=0)
    if order == -math.inf:
        return min(x, axes, keepdims=keepdims, initial=math.inf)
    if order == 0:
        nonzero = convert(compare("NE", x, 0), x.dtype)
        return sum(nonzero, axes, keepdims=keepdims)
    if order == 1:
        return sum(x, axes, keepdims=keepdims)
    total = sum(binary("power", x, float(order)), axes, keepdims=keepdims)
    return binary("power", total, 1 / order)


@operation(static=("keepdims", "ord"))
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norms of matrices along the last two axes.

    ``ord`` is ``fro``, ``nuc``, 1, -1, 2, -2 or an infinity; 2, -2 and ``nuc`` take singular
    values.
    """
    value, _ = matrices(x, "matrix_norm")
    return _of_matrices(value, (value.ndim - 2, value.ndim - 1), keepdims, ord)


def _of_matrices(x: Any, axes: tuple[int, int], keepdims: bool, order: Any) -> Any:
    sizes, dtype = _sizes(x)
    row, column = axes
    if order is None or order == "fro":
        made = _of_vectors(sizes, axes, keepdims, 2)
    elif order in ("nuc", 2, -2):
        made = _by_singular_values(x, axes, keepdims, order)
    elif order in (1, -1, math.inf, -math.inf):
        summed, left = (row, column) if order in (1, -1) else (column, row)
        reduce = max if order > 0 else min
        totals = sum(sizes, summed, keepdims=True)
        made = reduce(totals, left, keepdims=True, initial=0 if order > 0 else math.inf)
        if not keepdims:
            shape = tuple(n for i, n in enumerate(made.shape) if i not in axes)
            made = tracing.reshape(made, shape)
    else:
        raise _refused("matrix_norm", order, "matrices")
    return convert(made, dtype)


def _by_singular_values(x: Any, axes: tuple[int, int], keepdims: bool, order: Any) -> Any:
    others = [i for i in range(x.ndim) if i not in axes]
    values = svdvals(tracing.transpose(x, [*others, *axes]))
    if order == "nuc":
        made = sum(values, -1)
    else:
        made = max(values, -1, initial=0) if order == 2 else min(values, -1, initial=math.inf)
    if not keepdims:
        return made
    return tracing.reshape(made, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


@operation(static=("ord", "axis", "keepdims"))
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the norm of a vector or a matrix, or those along one or two axes.

    Without an order it is that of all elements as one vector; see `vector_norm`, `matrix_norm`.
    """
    value = as_value(x)
    if axis is None and (ord is None or value.ndim == 1):
        return vector_norm(value, ord=2 if ord is None else ord, keepdims=keepdims)
    axes = axes_of(axis, value.ndim, "linalg.norm")
    if len(axes) == 1:
        return vector_norm(value, axis=axes, ord=2 if ord is None else ord, keepdims=keepdims)
    if len(axes) != 2:
        msg = f"linalg.norm is of vectors and matrices, not of {len(axes)} axes{at_user_line()}."
        raise InvalidArgumentError(msg, axis=axis)
    dtype = computed_in(inexact(value.dtype))
    made = _of_matrices(convert(value, dtype), (axes[0], axes[1]), keepdims, ord)
    return convert(made, real_of(inexact(value.dtype)))


@operation(static=("p",))
def cond(x: Any, p: Any = None) -> Any:
    """Return the condition numbers of matrices: the norm times that of the inverse.

    By default, and for ``p`` 2 and -2, the ratio of the greatest and the least singular value.
    """
    value, dtype = matrices(x, "cond")
    if p is None or p in (2, -2):
        values = svdvals(value)
        greatest, least = max(values, -1, initial=0), min(values, -1, initial=math.inf)
        pair = (least, greatest) if p == -2 else (greatest, least)
        made = binary("divide", *pair)
    else:
        made = binary("multiply", matrix_norm(value, ord=p), matrix_norm(inv(value), ord=p))
    return convert(made, real_of(dtype))
