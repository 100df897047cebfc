"""Products of matrices and vectors."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axis_of, refuse_out
from devrt.programs.eager import operation
from devrt.tracing import (
    DotDimensions,
    as_value,
    at_user_line,
    conjugate,
    convert,
    dtype_of,
    kind_of,
    named,
    promote,
)

__all__ = [
    "contract",
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]

_STATIC = ("precision", "preferred_element_type")


def contract(
    x: Any, y: Any, dimensions: DotDimensions, precision: Any = None, preferred: Any = None
) -> Any:
    """Return the product of two operands, promoted, summed over the contracting dimensions.

    ``preferred`` is the dtype that it is summed in and returned as.
    """
    x, y = promote(x, y)
    dtype = x.dtype if preferred is None else dtype_of(preferred)
    inner = _summed_in(x.dtype, dtype)
    if x.dtype == named("bool"):
        x, y, inner = convert(x, named("int32")), convert(y, named("int32")), named("int32")
    is_weak = x.weak_type and y.weak_type and preferred is None
    levels = tracing.precision_of(precision, "a product")
    made = tracing.dot_general(x, y, dimensions, precision=levels, dtype=inner)
    if dtype == named("bool"):
        return tracing.compare("NE", made, 0)
    return convert(made, dtype, weak_type=is_weak)


def _summed_in(operand: np.dtype[Any], result: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to sum in: that of the result, of 32 bits for fractions of 16 or fewer."""
    if operand.itemsize < 4 and kind_of(operand) == "f":
        return named("float32") if result.itemsize < 4 else result
    return result


def _mismatch(name: str, x: Any, y: Any, why: str) -> InvalidArgumentError:
    msg = f"{name}: {x.aval} and {y.aval} do not fit{at_user_line()}: {why}."
    return InvalidArgumentError(msg, shapes=(x.shape, y.shape))


def _check_vectors(name: str, x: Any, y: Any) -> None:
    if not (x.ndim and y.ndim):
        raise _mismatch(name, x, y, "each needs a dimension; multiply by numbers with `*`")


@operation(static=_STATIC)
def matmul(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Return the product of matrices, or stacks of them, which are broadcast.

    A vector on the left is a row, one on the right a column.
    """
    x, y = as_value(a), as_value(b)
    _check_vectors("matmul", x, y)
    inner = y.shape[max(0, y.ndim - 2)]
    if x.shape[-1] != inner:
        raise _mismatch("matmul", x, y, f"{x.shape[-1]} columns, {inner} rows")
    shared: tuple[int, ...] = ()
    if x.ndim > 1 and y.ndim > 2:
        batch = tracing.broadcast_shapes(x.shape[:-2], y.shape[:-2], operation="matmul")
        x, y, shared = _batched(x, batch), _batched(y, batch), tuple(range(len(batch)))
    dimensions = DotDimensions((x.ndim - 1,), (max(0, y.ndim - 2),), shared, shared)
    return contract(x, y, dimensions, precision, preferred_element_type)


def _batched(x: Any, batch: tuple[int, ...]) -> Any:
    return tracing.broadcast_to(x, (*batch, *x.shape[-2:]))


@operation(static=_STATIC)
def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Return the sum of products over the last axis of one and the last but one of the other."""
    x, y = as_value(a), as_value(b)
    if not (x.ndim and y.ndim):
        made = tracing.binary("multiply", *promote(x, y))
        return (
            made
            if preferred_element_type is None
            else convert(made, dtype_of(preferred_element_type))
        )
    at = max(0, y.ndim - 2)
    if x.shape[-1] != y.shape[at]:
        raise _mismatch("dot", x, y, f"{x.shape[-1]} columns, {y.shape[at]} rows")
    return contract(x, y, DotDimensions((x.ndim - 1,), (at,)), precision, preferred_element_type)


@operation(static=_STATIC)
def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Return the sum of products of all elements, those of ``a`` conjugated."""
    x, y = as_value(a), as_value(b)
    if x.size != y.size:
        raise _mismatch("vdot", x, y, f"{x.size} elements, {y.size} elements")
    flat = [tracing.reshape(each, (each.size,)) for each in (conjugate(x), y)]
    return contract(flat[0], flat[1], DotDimensions((0,), (0,)), precision, preferred_element_type)


@operation(static=("axis", *_STATIC))
def vecdot(
    x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Return the sum of products along an axis, the elements of ``x1`` conjugated."""
    x, y = as_value(x1), as_value(x2)
    _check_vectors("vecdot", x, y)
    if not -min(x.ndim, y.ndim) <= axis < max(x.ndim, y.ndim):
        axis_of(axis, min(x.ndim, y.ndim), "vecdot")
    x, y = (tracing.transpose(v, _to_last(axis, v.ndim)) for v in (x, y))
    if x.shape[-1] != y.shape[-1]:
        raise _mismatch("vecdot", x, y, f"{x.shape[-1]} elements, {y.shape[-1]} elements")
    x, y = tracing.broadcast(conjugate(x), y, operation="vecdot")
    batch = tuple(range(x.ndim - 1))
    last = (x.ndim - 1,)
    dimensions = DotDimensions(last, last, batch, batch)
    return contract(x, y, dimensions, precision, preferred_element_type)


def _to_last(axis: int, ndim: int) -> list[int]:
    at = axis_of(axis, ndim, "vecdot")
    return [*(i for i in range(ndim) if i != at), at]


def matvec(x1: Any, x2: Any, /) -> Any:
    """Return the products of matrices and vectors, both stacked and broadcast."""
    from devrt.numpy.shaping import expand_dims, squeeze

    return squeeze(matmul(x1, expand_dims(x2, -1)), -1)


@operation
def vecmat(x1: Any, x2: Any, /) -> Any:
    """Return the products of vectors, conjugated, and matrices, both stacked and broadcast."""
    from devrt.numpy.shaping import expand_dims, squeeze

    return squeeze(matmul(expand_dims(conjugate(as_value(x1)), -2), x2), -2)


@operation(static=_STATIC)
def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Return the sum of products over the last axes of both."""
    x, y = as_value(a), as_value(b)
    if not (x.ndim and y.ndim):
        return dot(x, y, precision=precision, preferred_element_type=preferred_element_type)
    if x.shape[-1] != y.shape[-1]:
        raise _mismatch("inner", x, y, f"{x.shape[-1]} elements, {y.shape[-1]} elements")
    dimensions = DotDimensions((x.ndim - 1,), (y.ndim - 1,))
    return contract(x, y, dimensions, precision, preferred_element_type)


@operation
def outer(a: Any, b: Any, out: None = None) -> Any:
    """Return the products of each element of one with each of the other."""
    refuse_out(out, "outer")
    x, y = as_value(a), as_value(b)
    from devrt.numpy import multiply

    return multiply(tracing.reshape(x, (x.size, 1)), tracing.reshape(y, (1, y.size)))


@operation(static=("axes", *_STATIC))
def tensordot(
    a: Any, b: Any, axes: Any = 2, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """Return the sum of products over some axes of each.

    ``axes`` is how many of the last of ``a`` go with the first of ``b``, or a pair of axes or of
    sequences of them.
    """
    x, y = as_value(a), as_value(b)
    left, right = _tensordot_axes(x, y, axes)
    sizes = [tuple(v.shape[i] for i in dims) for v, dims in ((x, left), (y, right))]
    if sizes[0] != sizes[1]:
        raise _mismatch("tensordot", x, y, f"axes {left} of sizes {sizes[0]}, {right} {sizes[1]}")
    return contract(x, y, DotDimensions(left, right), precision, preferred_element_type)


def _tensordot_axes(x: Any, y: Any, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, Sequence):
        pair = [each if isinstance(each, Sequence) else (each,) for each in axes]
        if len(pair) == 2 and len(pair[0]) == len(pair[1]):
            left = tuple(axis_of(i, x.ndim, "tensordot") for i in pair[0])
            return left, tuple(axis_of(i, y.ndim, "tensordot") for i in pair[1])
        raise _mismatch("tensordot", x, y, f"the axes {axes} are not as many of each")
    count = operator.index(axes)
    if not 0 <= count <= min(x.ndim, y.ndim):
        raise _mismatch("tensordot", x, y, f"{count} axes are not there")
    return tuple(range(x.ndim - count, x.ndim)), tuple(range(count))


@operation
def kron(a: Any, b: Any) -> Any:
    """Return the Kronecker product: each element of ``a`` replaced by it times ``b``."""
    from devrt.numpy import multiply

    x, y = as_value(a), as_value(b)
    rank = max(x.ndim, y.ndim)
    sizes = [(1,) * (rank - v.ndim) + v.shape for v in (x, y)]
    apart = [
        tuple(n for pair in zip(*order, strict=True) for n in pair)
        for order in ((sizes[0], (1,) * rank), ((1,) * rank, sizes[1]))
    ]
    made = multiply(tracing.reshape(x, apart[0]), tracing.reshape(y, apart[1]))
    return tracing.reshape(made, tuple(map(math.prod, zip(*sizes, strict=True))))


@operation(static=("axisa", "axisb", "axisc", "axis"))
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """Return the cross product of vectors of two or three components along an axis."""
    from devrt.numpy import multiply, subtract
    from devrt.numpy.joining import stack
    from devrt.numpy.shaping import moveaxis

    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promote(a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise _mismatch("cross", x, y, "the vectors have two or three components")
    is_flat = x.shape[-1] == y.shape[-1] == 2
    x, y = (_of_three(v) for v in (x, y))
    x, y = tracing.broadcast(x, y, operation="cross")
    p, q = ([tracing.index_in_dim(v, i, v.ndim - 1) for i in range(3)] for v in (x, y))

    def minor(i: int, j: int) -> Any:
        return subtract(multiply(p[i], q[j]), multiply(p[j], q[i]))

    if is_flat:
        return minor(0, 1)
    return moveaxis(stack([minor(1, 2), minor(2, 0), minor(0, 1)], axis=-1), -1, axisc)


def _of_three(x: Any) -> Any:
    none = (0,) * (x.ndim - 1)
    return tracing.pad(x, 0, (*none, 0), (*none, 3 - x.shape[-1]))
