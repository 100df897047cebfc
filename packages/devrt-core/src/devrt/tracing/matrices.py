"""Decompositions of matrices, and equations of triangular ones.

Cholesky, triangular equations, ``Qr`` and ``Eigh`` are written by XLA itself, on every platform.
Singular values and general eigenvalues are LAPACK's, on the CPU. Composites, for gradients:
``devrt.qr``, ``devrt.solve``, ``devrt.eigh``, ``devrt.svd``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.tracing.attributes import Literal
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.complex_parts import complex_from, conjugate, real_part
from devrt.tracing.contractions import DotDimensions, dot_general
from devrt.tracing.conversions import convert
from devrt.tracing.elementwise import binary, compare, select, unary
from devrt.tracing.kinds import complex_of, real_of
from devrt.tracing.promotion import named
from devrt.tracing.reductions import reduce
from devrt.tracing.shapes import broadcast_in_dim, iota, pad, slice_, transpose
from devrt.tracing.trace import as_value, composite, constant, emit, emit_one

__all__ = [
    "adjoint",
    "cholesky",
    "eig",
    "eigh",
    "householder",
    "product",
    "qr",
    "solve",
    "svd",
    "transposed",
    "triangle",
    "triangular_solve",
]

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_MOST_SWEEPS = 100


def cholesky(a: Any, *, lower: bool = True) -> Any:
    """Return the triangular factor of positive definite matrices; NaN for others.

    Only the triangle of that side is read, and what the other one of the result has is undefined.
    """
    a = as_value(a)
    return emit_one("stablehlo.cholesky", (a,), a.aval, {"lower": lower})


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = True,
    lower: bool = False,
    unit_diagonal: bool = False,
    transpose_a: str = "NO_TRANSPOSE",
) -> Any:
    """Return x of ``a @ x == b``, or of ``x @ a == b``, for triangular matrices of one dtype.

    ``transpose_a`` is NO_TRANSPOSE, TRANSPOSE or ADJOINT: of ``a``, whose triangle ``lower`` names.
    """
    a, b = as_value(a), as_value(b)
    attributes = {
        "left_side": left_side,
        "lower": lower,
        "unit_diagonal": unit_diagonal,
        "transpose_a": Literal(f"#stablehlo<transpose {transpose_a}>"),
    }
    return emit_one("stablehlo.triangular_solve", (a, b), b.aval, attributes)


def _written_out(
    target: str, operands: Sequence[Any], results: Sequence[ShapedArray], config: str = ""
) -> list[Any]:
    """Return the results of a custom call that the compiler itself writes out."""
    attributes = {
        "call_target_name": target,
        "backend_config": config,
        "api_version": Literal("1 : i32"),
    }
    return emit("stablehlo.custom_call", operands, results, attributes)


def qr(a: Any, *, full_matrices: bool = False) -> list[Any]:
    """Return orthonormal columns and the upper triangle whose product matrices are."""
    return composite(
        "qr",
        lambda value: _factors(value, householder(value), full_matrices),
        (a,),
        {"full_matrices": full_matrices},
    )


def solve(a: Any, b: Any) -> Any:
    """Return x of ``a @ x == b`` for square matrices of one dtype and shape of stacks."""
    return composite("solve", _solved, (a, b))[0]


def _solved(a: Any, b: Any) -> list[Any]:
    q, r = qr(a)
    return [triangular_solve(r, product(adjoint(q), b))]


def householder(a: Any) -> list[Any]:
    """Return the reflectors of a QR decomposition, with the triangle above them, and their scales.

    Each is ``1 - scale * v @ v.mH``; v has a one on the diagonal, and its rest below.
    """
    a = as_value(a)
    *batch, rows, columns = a.aval.shape
    scales = shaped((*batch, min(rows, columns)), a.aval.dtype)
    return _written_out("Qr", (a,), (shaped(a.aval.shape, a.aval.dtype), scales))


def _factors(a: Any, reflectors: Sequence[Any], full_matrices: bool) -> list[Any]:
    packed, scales = reflectors
    *batch, rows, columns = a.aval.shape
    count = rows if full_matrices else min(rows, columns)
    none = (0,) * len(batch)
    square = slice_(packed, (*none, 0, 0), (*batch, rows, min(columns, count)))
    more = count - square.aval.shape[-1]
    square = pad(square, 0, (*none, 0, 0), (*none, 0, more))
    target = "ProductOfElementaryHouseholderReflectors"
    (q,) = _written_out(target, (square, scales), (square.aval,))
    upper = slice_(packed, (*none, 0, 0), (*batch, count, columns))
    return [q, triangle(upper, is_lower=False)]


def triangle(x: Any, *, is_lower: bool, offset: int = 0) -> Any:
    """Return matrices with zeros beyond a diagonal: above it of a lower triangle."""
    x = as_value(x)
    shape = x.aval.shape[-2:]
    row, column = (iota(shape, i, named("int32")) for i in (0, 1))
    edge = binary("add", row, offset)
    is_kept = compare("GE", edge, column) if is_lower else compare("LE", edge, column)
    return select(is_kept, x, constant(0, x.aval.dtype))


def eigh(a: Any) -> list[Any]:
    """Return the eigenvalues of Hermitian matrices, in rising order, and the vectors as columns."""
    return composite("eigh", _eigh, (a,))


def _eigh(a: Any) -> list[Any]:
    aval = a.aval
    values = shaped(aval.shape[:-1], real_of(aval.dtype))
    config = f"1,1,{_MOST_SWEEPS},1e-6"
    vectors, found = _written_out("Eigh", (a,), (shaped(aval.shape, aval.dtype), values), config)
    is_wide = values.dtype == named("float64")
    return _refined(a, vectors) if is_wide else [found, vectors]


def _refined(a: Any, vectors: Any) -> list[Any]:
    """Return eigenvalues and vectors to the precision of 64 bits, where XLA stops at fewer.

    One step of Ogita and Aishima, "Iterative refinement for symmetric eigenvalue decomposition"
    (2018). Vectors whose eigenvalues are too close to tell them apart are only made orthogonal.
    """
    rank = len(a.aval.shape)
    rows = adjoint(vectors)
    error = binary("subtract", identity(a), product(rows, vectors))
    inner = product(rows, product(a, vectors))
    real = real_of(a.aval.dtype)
    quotient, excess = (_diagonal(x) for x in (inner, error))
    values = binary("divide", quotient, binary("subtract", 1.0, excess))
    row, column = (
        broadcast_in_dim(values, a.aval.shape, (*range(rank - 2), i)) for i in (rank - 2, rank - 1)
    )
    gap = binary("subtract", column, row)
    change = binary("add", inner, binary("multiply", convert(column, a.aval.dtype), error))
    is_apart = compare("GT", unary("abs", gap), binary("multiply", 8.0, unary("abs", change, real)))
    apart = binary("divide", change, convert(select(is_apart, gap, 1.0), a.aval.dtype))
    step = select(is_apart, apart, binary("multiply", error, 0.5))
    return [values, binary("add", vectors, product(vectors, step))]


def product(x: Any, y: Any) -> Any:
    """Return the products of matrices, as precise as their dtype."""
    rank = len(x.aval.shape)
    batch = tuple(range(rank - 2))
    dimensions = DotDimensions((rank - 1,), (rank - 2,), batch, batch)
    return dot_general(x, y, dimensions, precision=("highest", "highest"))


def transposed(x: Any) -> Any:
    """Return matrices with rows as columns."""
    rank = len(x.aval.shape)
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: Any) -> Any:
    """Return matrices with rows as columns, conjugated."""
    return transposed(conjugate(x))


def identity(x: Any) -> Any:
    """Return identities of the shape and dtype of matrices."""
    shape = x.aval.shape
    row, column = (iota(shape, i, named("int32")) for i in (len(shape) - 2, len(shape) - 1))
    return convert(compare("EQ", row, column), x.aval.dtype)


def _diagonal(x: Any) -> Any:
    """Return the diagonals of square matrices, their real parts."""
    x = real_part(x) if x.aval.dtype.kind == "c" else x
    kept = select(compare("NE", identity(x), 0), x, 0)
    return reduce("add", kept, 0, [len(x.aval.shape) - 1])


# -- LAPACK's ------------------------------------------------------------------------------------


def svd(a: Any, *, full_matrices: bool = False) -> list[Any]:
    """Return left vectors as columns, singular values in falling order, right ones as rows."""
    mode = "A" if full_matrices else "S"
    return composite("svd", lambda value: _svd(value, mode), (a,), {"full_matrices": full_matrices})


def _svd(a: Any, mode: str) -> list[Any]:
    aval = a.aval
    *batch, rows, columns = aval.shape
    count = min(rows, columns)
    wide, high = (rows, columns) if mode == "A" else (count, count)
    results = (
        shaped(aval.shape, aval.dtype),
        shaped((*batch, count), real_of(aval.dtype)),
        shaped((*batch, rows, wide), aval.dtype),
        shaped((*batch, high, columns), aval.dtype),
        shaped(tuple(batch), named("int32")),
    )
    target = f"lapack_{_LETTERS[aval.dtype.name]}gesdd_ffi"
    options = f"mode = {ord(mode)} : ui8"
    _, values, left, right, info = _lapack(target, a, results, options, (0, 2, 3))
    return [_if_found(info, x) for x in (left, values, right)]


def eig(a: Any) -> list[Any]:
    """Return the eigenvalues of square matrices, and the right vectors as columns: complex."""
    aval = as_value(a).aval
    both = complex_of(aval.dtype)
    is_complex = aval.dtype.kind == "c"
    values = [shaped(aval.shape[:-1], aval.dtype)] * (1 if is_complex else 2)
    vectors = shaped(aval.shape, both)
    results = (*values, vectors, vectors, shaped(aval.shape[:-2], named("int32")))
    target = f"lapack_{_LETTERS[aval.dtype.name]}geev_ffi"
    options = f"compute_left = {ord('N')} : ui8, compute_right = {ord('V')} : ui8"
    count = len(values)
    *parts, _, right, info = _lapack(target, a, results, options, (count, count + 1))
    found = parts[0] if is_complex else complex_from(*parts)
    return [_if_found(info, x) for x in (found, right)]


def _lapack(
    target: str, a: Any, results: Sequence[ShapedArray], options: str, by_column: Sequence[int]
) -> list[Any]:
    """Return the results of a routine of LAPACK, whose matrices lie column by column."""
    given = [_order(len(aval.shape), i in by_column) for i, aval in enumerate(results)]
    attributes = {
        "call_target_name": target,
        "api_version": Literal("4 : i32"),
        "backend_config": Literal(f"{{{options}}}"),
        "operand_layouts": Literal(f"[{_order(len(as_value(a).aval.shape), True)}]"),
        "result_layouts": Literal(f"[{', '.join(given)}]"),
    }
    return emit("stablehlo.custom_call", (a,), results, attributes)


def _order(rank: int, is_by_column: bool) -> str:
    """Return a layout: the dimensions from the one whose elements lie next to each other."""
    order = list(range(rank))[::-1]
    if is_by_column:
        order[0], order[1] = order[1], order[0]
    return f"dense<{order}> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"


def _if_found(info: Any, x: Any) -> Any:
    """Return a result where the routine has one, NaN where it says that it has none."""
    is_found = broadcast_in_dim(compare("EQ", info, 0), x.aval.shape, range(len(info.aval.shape)))
    nan = convert(constant(float("nan"), real_of(x.aval.dtype)), x.aval.dtype)
    return select(is_found, x, nan)
