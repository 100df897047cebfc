"""Linear equations, inverses and determinants, and powers of matrices.

Equations are solved by QR decompositions: they are what every platform's compiler writes out.
Composites, for gradients: ``devrt.solve`` of square matrices and columns, ``devrt.slogdet`` and
``devrt.det``.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axes_of, values_of
from devrt.numpy.diagonals import diagonal as diagonal_of
from devrt.numpy.linalg.decompositions import svd
from devrt.numpy.linalg.operands import matrices, square_matrices
from devrt.numpy.products import matmul
from devrt.numpy.reductions import any, prod, sum
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    at_user_line,
    binary,
    compare,
    convert,
    promote,
    real_of,
    select,
    unary,
)
from devrt.tracing.matrices import adjoint, householder, identity, triangle
from devrt.tracing.matrices import solve as solved

__all__ = [
    "det",
    "inv",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "pinv",
    "slogdet",
    "solve",
    "tensorinv",
    "tensorsolve",
]


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Any
    logabsdet: Any


@operation
def solve(a: Any, b: Any, /) -> Any:
    """Return x of ``a @ x == b``, for a vector ``b`` or matrices of columns.

    A singular ``a`` gives values that are not finite, or too large to mean anything.
    """
    a, b = promote(a, b)
    is_vector = b.ndim == 1
    x, dtype = square_matrices(a, "solve")
    columns = convert(tracing.reshape(b, (b.size, 1)) if is_vector else b, x.dtype)
    if columns.ndim < 2 or columns.shape[-2] != x.shape[-1]:
        msg = f"linalg.solve: {a.aval} and {b.aval} do not fit{at_user_line()}."
        raise InvalidArgumentError(msg, shapes=(a.shape, b.shape))
    batch = tracing.broadcast_shapes(x.shape[:-2], columns.shape[:-2], operation="linalg.solve")
    x = tracing.broadcast_to(x, (*batch, *x.shape[-2:]))
    columns = tracing.broadcast_to(columns, (*batch, *columns.shape[-2:]))
    found = solved(x, columns) if columns.size else columns
    if is_vector:
        found = tracing.reshape(found, found.shape[:-1])
    return convert(found, dtype)


@operation
def inv(a: Any, /) -> Any:
    """Return the inverses of square matrices; of singular ones nothing of use; see `solve`."""
    x, dtype = square_matrices(a, "inv")
    return convert(solve(x, identity(x)), dtype)


def _signed_diagonal(a: Any) -> tuple[Any, Any]:
    """Return the diagonal of R of a QR decomposition, and the determinant of Q."""
    packed, scales = householder(a)
    # A reflector 1 - s v v^H has the determinant 1 - s v^H v.
    below = triangle(packed, is_lower=True, offset=-1)
    length = convert(sum(tracing.squared_size(below), axis=-2), a.dtype)
    one = tracing.constant(1, a.dtype)
    each = binary("subtract", one, binary("multiply", scales, binary("add", length, one)))
    return diagonal_of(packed, 0, -2, -1), prod(each, axis=-1)


@operation
def slogdet(a: Any, /) -> SlogdetResult:
    """Return the signs of determinants, and the logarithms of their absolute values."""
    x, dtype = square_matrices(a, "slogdet")
    sign, logarithm = tracing.composite("slogdet", _slogdet, (x,))
    return SlogdetResult(convert(sign, dtype), convert(logarithm, real_of(dtype)))


def _slogdet(a: Any) -> list[Any]:
    if not a.shape[-1]:
        shape = a.shape[:-2]
        return [tracing.constant(1, a.dtype, shape), tracing.constant(0, real_of(a.dtype), shape)]
    diagonal, sign = _signed_diagonal(a)
    size = unary("abs", diagonal, real_of(a.dtype))
    signs = binary("multiply", sign, prod(unary("sign", diagonal), axis=-1))
    return [signs, sum(unary("log", size), axis=-1)]


@operation
def det(a: Any, /) -> Any:
    """Return the determinants of square matrices."""
    x, dtype = square_matrices(a, "det")
    return convert(tracing.composite("det", _det, (x,))[0], dtype)


def _det(a: Any) -> list[Any]:
    if not a.shape[-1]:
        return [tracing.constant(1, a.dtype, a.shape[:-2])]
    diagonal, sign = _signed_diagonal(a)
    return [binary("multiply", sign, prod(diagonal, axis=-1))]


# -- by singular values --------------------------------------------------------------------------


def _cutoff(s: Any, relative: Any, shape: tuple[int, ...]) -> Any:
    """Return the value up to which singular ones count as zero: relative to the greatest."""
    greatest = tracing.slice_(s, (0,) * s.ndim, (*s.shape[:-1], min(1, s.shape[-1])))
    if relative is None:
        relative = float(np.finfo(s.dtype).eps) * max(shape[-2:])
    relative = as_value(relative)
    if relative.ndim:
        relative = tracing.reshape(relative, (*relative.shape, 1))
    return binary("multiply", greatest, convert(relative, s.dtype))


@operation(static=("hermitian",))
def pinv(a: Any, /, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """Return the Moore-Penrose inverses of matrices.

    Singular values up to ``rtol`` times the greatest count as zero; by default that is the dtype's
    smallest step, times the larger size of the matrix.
    """
    x, dtype = matrices(a, "pinv")
    if not x.size:
        return convert(adjoint(x), dtype)
    u, s, vh = svd(x, full_matrices=False, hermitian=hermitian)
    limit = _cutoff(s, rcond if rtol is None else rtol, x.shape)
    inverse = select(compare("GT", s, limit), binary("divide", 1.0, s), 0.0)
    dims = (*range(x.ndim - 2), x.ndim - 2)
    shape = (*vh.shape[:-2], vh.shape[-2], u.shape[-2])
    rows = convert(tracing.broadcast_in_dim(inverse, shape, dims), x.dtype)
    return convert(matmul(adjoint(vh), binary("multiply", rows, adjoint(u))), dtype)


@operation(static=("hermitian",))
def matrix_rank(
    A: Any,  # noqa: N803  NumPy's name
    /,
    rtol: Any = None,
    hermitian: bool = False,
    *,
    tol: Any = None,
) -> Any:
    """Return the ranks of matrices: how many singular values count as more than zero.

    They are those beyond ``tol``, or ``rtol`` times the greatest one; see `pinv`.
    """
    x = as_value(A)
    if x.ndim < 2:
        return convert(any(x), tracing.named("int32"))
    x, _ = matrices(x, "matrix_rank")
    s = svd(x, full_matrices=False, compute_uv=False, hermitian=hermitian)
    limit = as_value(tol) if tol is not None else _cutoff(s, rtol, x.shape)
    if tol is not None and limit.ndim:
        limit = tracing.reshape(limit, (*limit.shape, 1))
    if not x.size:
        return tracing.constant(0, tracing.named("int32"), x.shape[:-2])
    return sum(convert(compare("GT", s, limit), tracing.named("int32")), axis=-1)


@operation
def lstsq(a: Any, b: Any, /, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """Return x with the least ``norm(b - a @ x)``, the squared residuals, the rank, and values.

    The residuals are those of each column; there are none unless ``a`` has more rows than columns
    and full rank, which is only seen from the values of NaN in a trace.
    """
    a, b = promote(a, b)
    x, dtype = matrices(a, "lstsq")
    is_vector = b.ndim == 1
    y = convert(tracing.reshape(b, (b.size, 1)) if is_vector else b, x.dtype)
    if x.ndim != 2 or y.ndim != 2 or y.shape[0] != x.shape[0]:
        msg = f"linalg.lstsq: {a.aval} and {b.aval} do not fit{at_user_line()}."
        raise InvalidArgumentError(msg, shapes=(a.shape, b.shape))
    u, s, vh = svd(x, full_matrices=False)
    is_kept = compare("GT", s, _cutoff(s, rcond, x.shape))
    inverse = select(is_kept, binary("divide", 1.0, s), 0.0)
    scaled = tracing.reshape(convert(inverse, x.dtype), (inverse.size, 1))
    found = matmul(adjoint(vh), binary("multiply", scaled, matmul(adjoint(u), y)))
    rank = sum(convert(is_kept, tracing.named("int32")))
    squares = sum(tracing.squared_size(binary("subtract", y, matmul(x, found))), axis=0)
    rows, columns = x.shape
    full = compare("EQ", rank, columns)
    residuals = select(full, squares, math.nan) if rows > columns else squares[:0]
    found = tracing.reshape(found, (found.size,)) if is_vector else found
    values = real_of(dtype)
    return convert(found, dtype), convert(residuals, values), rank, convert(s, values)


# -- products ------------------------------------------------------------------------------------


@operation(static=("n",))
def matrix_power(a: Any, n: int) -> Any:
    """Return square matrices multiplied by themselves; of a negative power their inverses."""
    x = as_value(a)
    square_matrices(x, "matrix_power")
    power = operator.index(n)
    if power == 0:
        return identity(x)
    base, made = (inv(x) if power < 0 else x), None
    power = abs(power)
    while True:
        if power & 1:
            made = base if made is None else matmul(made, base)
        power >>= 1
        if not power:
            return made
        base = matmul(base, base)


@operation(static=("precision",))
def multi_dot(arrays: Any, /, *, precision: Any = None) -> Any:
    """Return the product of matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors.
    """
    values = values_of(arrays, "linalg.multi_dot")
    sizes = [x.shape[0] for x in values] + [values[-1].shape[-1]]
    sizes[0] = 1 if values[0].ndim == 1 else sizes[0]
    sizes[-1] = 1 if values[-1].ndim == 1 else sizes[-1]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(values))}
    for length in range(1, len(values)):
        for i in range(len(values) - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def product(i: int, j: int) -> Any:
        k = best[i, j][1]
        if i == j:
            return values[i]
        return matmul(product(i, k), product(k + 1, j), precision=precision)

    return product(0, len(values) - 1)


@operation(static=("ind",))
def tensorinv(a: Any, /, ind: int = 2) -> Any:
    """Return the inverse of an array as a map from its last dimensions to its first ``ind``."""
    x = as_value(a)
    if ind <= 0:
        msg = f"linalg.tensorinv: ind is 1 or more, not {ind}{at_user_line()}."
        raise InvalidArgumentError(msg, ind=ind)
    shape = (*x.shape[ind:], *x.shape[:ind])
    rows = math.prod(x.shape[:ind])
    return tracing.reshape(inv(tracing.reshape(x, (rows, x.size // max(1, rows)))), shape)


@operation(static=("axes",))
def tensorsolve(a: Any, b: Any, /, axes: Any = None) -> Any:
    """Return x of ``tensordot(a, x, x.ndim) == b``."""
    x, y = as_value(a), as_value(b)
    if axes is not None:
        moved = axes_of(axes, x.ndim, "linalg.tensorsolve")
        x = tracing.transpose(x, [*(i for i in range(x.ndim) if i not in moved), *moved])
    shape = x.shape[y.ndim :]
    square = tracing.reshape(x, (y.size, math.prod(shape)))
    return tracing.reshape(solve(square, tracing.reshape(y, (y.size,))), shape)
