"""Matrices as products of others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.linalg.operands import matrices, square_matrices
from devrt.programs.eager import operation
from devrt.tracing import at_user_line, convert, real_of
from devrt.tracing.matrices import adjoint, householder, transposed, triangle
from devrt.tracing.matrices import cholesky as cholesky_of
from devrt.tracing.matrices import eig as eig_of
from devrt.tracing.matrices import eigh as eigh_of
from devrt.tracing.matrices import qr as qr_of
from devrt.tracing.matrices import svd as svd_of

__all__ = ["cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Any
    S: Any
    Vh: Any


@operation(static=("upper",))
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Return the triangular factors of positive definite matrices: lower, or upper if requested.

    Their lower triangle is read, of ``upper`` the upper one. A matrix that is not positive definite
    has NaN in its place.
    """
    x, dtype = square_matrices(a, "cholesky")
    if not x.size:
        return convert(x, dtype)
    factor = cholesky_of(adjoint(x) if upper else x)
    factor = triangle(factor, is_lower=True)
    return convert(adjoint(factor) if upper else factor, dtype)


@operation(static=("mode",))
def qr(a: Any, /, *, mode: str = "reduced") -> Any:
    """Return orthonormal columns Q and upper triangles R whose product matrices are.

    ``mode`` is ``reduced``, ``complete`` for square Q, ``r`` for R alone, or ``raw`` for the
    transposed Householder reflectors and their scales.
    """
    x, dtype = matrices(a, "qr")
    if mode == "raw":
        packed, scales = householder(x)
        return convert(transposed(packed), dtype), convert(scales, dtype)
    if mode not in ("reduced", "complete", "r"):
        msg = f"linalg.qr: mode {mode!r} is none of reduced, complete, r and raw{at_user_line()}."
        raise InvalidArgumentError(msg, mode=mode)
    if x.size:
        q, r = (convert(f, dtype) for f in qr_of(x, full_matrices=mode == "complete"))
    else:
        q, r = _empty_factors(x, dtype, mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def _empty_factors(x: Any, dtype: Any, is_complete: bool) -> tuple[Any, Any]:
    *batch, rows, columns = x.shape
    count = rows if is_complete else min(rows, columns)
    eye = tracing.constant(np.eye(rows, count), dtype)
    q = tracing.broadcast_to(eye, (*batch, rows, count))
    return q, tracing.constant(0, dtype, (*batch, count, columns))


@operation(static=("UPLO",))
def eigh(a: Any, /, UPLO: str = "L") -> EighResult:  # noqa: N803  NumPy's name
    """Return the eigenvalues of Hermitian matrices, in rising order, and vectors as columns.

    ``UPLO`` is the triangle that is read: ``L`` or ``U``.
    """
    x, dtype = square_matrices(a, "eigh")
    if UPLO not in ("L", "U"):
        msg = f"linalg.eigh: UPLO is 'L' or 'U', not {UPLO!r}{at_user_line()}."
        raise InvalidArgumentError(msg, UPLO=UPLO)
    values = real_of(dtype)
    if not x.size:
        return EighResult(tracing.constant(0, values, x.shape[:-1]), convert(x, dtype))
    # The other triangle is what the one that is read says.
    half = triangle(x, is_lower=UPLO == "L")
    rest = triangle(x, is_lower=UPLO == "L", offset=-1 if UPLO == "L" else 1)
    found, vectors = eigh_of(tracing.binary("add", half, adjoint(rest)))
    return EighResult(convert(found, values), convert(vectors, dtype))


def eigvalsh(a: Any, /, UPLO: str = "L") -> Any:  # noqa: N803  NumPy's name
    """Return the eigenvalues of Hermitian matrices, in rising order; see `eigh`."""
    return eigh(a, UPLO).eigenvalues


@operation
def eig(a: Any, /) -> EigResult:
    """Return the eigenvalues of square matrices, and vectors as columns: complex, in no order.

    On the CPU only, with LAPACK.
    """
    x, _ = square_matrices(a, "eig")
    return EigResult(*eig_of(x))


def eigvals(a: Any, /) -> Any:
    """Return the eigenvalues of square matrices: complex, in no order; see `eig`."""
    return eig(a).eigenvalues


@operation(static=("full_matrices", "compute_uv", "hermitian"))
def svd(
    a: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Return left singular vectors as columns, singular values, right vectors as rows.

    The values are in falling order. On the CPU only, with LAPACK, unless the matrices are
    ``hermitian``. Without ``compute_uv`` only the values are returned.
    """
    x, dtype = matrices(a, "svd")
    *batch, rows, columns = x.shape
    if not x.size:
        u, _ = _empty_factors(x, dtype, full_matrices)
        vh, _ = _empty_factors(adjoint(x), dtype, full_matrices)
        none = tracing.constant(0, real_of(dtype), (*batch, min(rows, columns)))
        factors = [u, none, adjoint(vh)]
    elif hermitian:
        factors = _hermitian_factors(x)
    else:
        factors = svd_of(x, full_matrices=full_matrices and compute_uv)
    u, s, vh = factors
    values = convert(s, real_of(dtype))
    return SVDResult(convert(u, dtype), values, convert(vh, dtype)) if compute_uv else values


def _hermitian_factors(x: Any) -> list[Any]:
    """Return singular values and vectors of Hermitian matrices, by their eigenvalues."""
    values, vectors = eigh(x)
    size = tracing.unary("abs", values)
    index = tracing.iota(size.shape, size.ndim - 1, tracing.named("int32"))
    keys, order = tracing.sort([tracing.unary("negate", size), index], size.ndim - 1)
    spread = tracing.broadcast_in_dim(order, x.shape, (*range(x.ndim - 2), x.ndim - 1))
    u = tracing.take_along(vectors, spread, x.ndim - 1)
    # A negative eigenvalue's sign goes to the right vector: sign(w) V^H = diag(1/s) U^H A.
    signs = tracing.take_along(tracing.unary("sign", values), order, size.ndim - 1)
    rows = tracing.broadcast_in_dim(signs, x.shape, (*range(x.ndim - 2), x.ndim - 2))
    vh = tracing.binary("multiply", adjoint(u), convert(rows, x.dtype))
    return [u, tracing.unary("negate", keys), vh]


def svdvals(x: Any, /) -> Any:
    """Return singular values in falling order; see `svd`."""
    return svd(x, full_matrices=False, compute_uv=False)
