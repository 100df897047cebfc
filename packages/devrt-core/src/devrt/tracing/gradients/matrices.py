"""Rules of decompositions of matrices, and of triangular equations.

Formulas are for gradients, whose conjugates cotangents are: of complex matrices both sides are
conjugated. They follow Giles, "Collected Matrix Derivative Results for Forward and Reverse Mode
Algorithmic Differentiation" (2008), and Walter and Lehmann for QR (2010).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt.tracing.conversions import convert
from devrt.tracing.elementwise import unary
from devrt.tracing.gradients.rules import add, div, mul, neg, sub, where, zeros_if_none
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.matrices import (
    identity,
    product,
    solve,
    transposed,
    triangle,
    triangular_solve,
)
from devrt.tracing.shapes import broadcast_in_dim
from devrt.tracing.trace import constant

__all__ = ["RULES"]


def _conj(x: Any) -> Any:
    return unary("chlo.conj", x) if x.aval.dtype.kind == "c" else x


def _adjoint(x: Any) -> Any:
    return _conj(transposed(x))


def _columns(x: Any, like: Any) -> Any:
    """Return a vector as a matrix whose columns have its elements."""
    rank = like.aval.ndim
    return broadcast_in_dim(x, like.aval.shape, [*range(rank - 2), rank - 1])


def _diagonal(x: Any, like: Any) -> Any:
    """Return square matrices with a vector on the diagonal, and zeros elsewhere."""
    wide = _columns(x, like)
    return triangle(triangle(wide, is_lower=True), is_lower=False)


def _solve(a: Any, b: Any, *, lower: bool, form: str = "NO_TRANSPOSE", left: bool = True) -> Any:
    return triangular_solve(a, b, left_side=left, lower=lower, transpose_a=form)


def _half_lower(x: Any) -> Any:
    """Return the lower triangle of matrices with half of the diagonal."""
    kept = triangle(x, is_lower=True)
    return sub(kept, mul(0.5, triangle(kept, is_lower=False)))


def _hermitian(x: Any) -> Any:
    return mul(0.5, add(x, _adjoint(x)))


def _cholesky(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    is_lower = op.attributes["lower"]
    factor, bar = (x if is_lower else _adjoint(x) for x in (op.results[0], _conj(given[0])))
    factor, bar = (triangle(x, is_lower=True) for x in (factor, bar))
    inner = _half_lower(product(_adjoint(factor), bar))
    left = _solve(factor, inner, lower=True, form="ADJOINT")
    whole = _solve(factor, left, lower=True, left=False)
    return [_conj(_hermitian(whole))]


_FORM_BACK = {"NO_TRANSPOSE": "TRANSPOSE", "TRANSPOSE": "NO_TRANSPOSE", "ADJOINT": "NO_TRANSPOSE"}


def _triangular(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    a, _ = op.operands
    parts = op.attributes
    form = parts["transpose_a"].word
    matrix = _conj(a) if form == "ADJOINT" else a
    of_b = triangular_solve(
        matrix,
        given[0],
        left_side=parts["left_side"],
        lower=parts["lower"],
        unit_diagonal=parts["unit_diagonal"],
        transpose_a=_FORM_BACK[form],
    )
    if a not in walk.active:
        return [None, of_b]
    x = transposed(op.results[0])
    of_a = neg(product(of_b, x) if parts["left_side"] else product(x, of_b))
    if form != "NO_TRANSPOSE":
        of_a = transposed(of_a)
    of_a = _conj(of_a) if form == "ADJOINT" else of_a
    # Only one triangle is read; of a diagonal of ones not even that.
    beyond = 1 if parts["unit_diagonal"] else 0
    lower = parts["lower"]
    return [triangle(of_a, is_lower=lower, offset=-beyond if lower else beyond), of_b]


def _solved(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    of_b = solve(transposed(op.operands[0]), given[0])
    return [neg(product(of_b, transposed(op.results[0]))), of_b]


def _inverse(a: Any) -> Any:
    """Return the transposed inverses of square matrices."""
    return solve(transposed(a), identity(a))


def _scaled(g: Any, x: Any) -> Any:
    """Return matrices multiplied by one number each."""
    batch = range(len(g.aval.shape))
    return mul(broadcast_in_dim(convert(g, x.aval.dtype), x.aval.shape, batch), x)


def _det(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    return [_scaled(mul(given[0], op.results[0]), _inverse(op.operands[0]))]


def _slogdet(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    (a,) = op.operands
    if a.aval.dtype.kind == "c" and given[0] is not None:
        raise walk.refuse(op, "the sign of a complex determinant has no gradient here")
    # The sign of a real one changes at once, or not.
    return [None if given[1] is None else _scaled(given[1], _inverse(a))]


def _qr(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    q, r = op.results
    rows, columns = op.operands[0].aval.shape[-2:]
    if rows < columns or (op.attributes["full_matrices"] and rows != columns):
        raise walk.refuse(op, "QR has a gradient where the matrix has no more columns than rows")
    if q.aval.dtype.kind == "c":
        raise walk.refuse(op, "QR of complex matrices has no gradient here")
    q_bar, r_bar = zeros_if_none(given, op.results)
    r_bar = triangle(r_bar, is_lower=False)
    inner = sub(product(r, transposed(r_bar)), product(transposed(q_bar), q))
    lower = triangle(inner, is_lower=True)
    mirrored = add(lower, transposed(triangle(lower, is_lower=True, offset=-1)))
    whole = add(product(q, mirrored), q_bar)
    return [_solve(r, whole, lower=False, form="TRANSPOSE", left=False)]


def _gaps(values: Any, like: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``1 / (f(v_j) - f(v_i))``, and 0 where they are equal."""
    wide = _columns(function(values), like)
    gap = sub(wide, transposed(wide))
    return where("EQ", gap, 0, 0, div(1, where("EQ", gap, 0, 1, gap)))


def _real_like(like: Any, values: Any) -> Any:
    """Return zeros of the shape of matrices and the dtype of their eigenvalues."""
    return constant(0, values.aval.dtype, like.aval.shape)


def _eigh(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    values, vectors = op.results
    dtype = vectors.aval.dtype
    real = _real_like(vectors, values)
    values_bar, vectors_bar = (_conj(each) for each in zeros_if_none(given, op.results))
    gaps = convert(_gaps(values, real, lambda v: v), dtype)
    inner = mul(gaps, product(_adjoint(vectors), vectors_bar))
    inner = add(inner, convert(_diagonal(values_bar, real), dtype))
    whole = product(product(vectors, inner), _adjoint(vectors))
    return [_conj(_hermitian(whole))]


def _svd(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    left, values, right = op.results
    rows, columns = op.operands[0].aval.shape[-2:]
    has_vectors = given[0] is not None or given[2] is not None
    if has_vectors and left.aval.dtype.kind == "c":
        raise walk.refuse(op, "singular vectors of complex matrices have no gradient here")
    if op.attributes["full_matrices"] and rows != columns:
        raise walk.refuse(op, "give full_matrices=False")
    left_bar, values_bar, right_bar = zeros_if_none(given, op.results)
    dtype, square = left.aval.dtype, _square_like(values, left)
    core = _diagonal(values_bar, square)
    if not has_vectors:
        whole = product(product(left, convert(core, dtype)), right)
        return [_conj(whole)]
    v, v_bar = transposed(right), transposed(right_bar)
    gaps = _gaps(values, square, lambda s: mul(s, s))
    of_left = mul(gaps, product(transposed(left), left_bar))
    of_right = mul(gaps, product(transposed(v), v_bar))
    scale = _columns(values, square)
    core = add(core, mul(add(of_left, transposed(of_left)), scale))
    core = add(core, mul(transposed(scale), add(of_right, transposed(of_right))))
    whole = product(product(left, core), right)
    inverse = div(1, values)
    if rows > columns:
        rest = sub(left_bar, product(left, product(transposed(left), left_bar)))
        whole = add(whole, product(mul(rest, _columns(inverse, rest)), right))
    if columns > rows:
        rest = sub(v_bar, product(v, product(transposed(v), v_bar)))
        whole = add(whole, product(left, transposed(mul(rest, _columns(inverse, rest)))))
    return [whole]


def _square_like(values: Any, like: Any) -> Any:
    count = values.aval.shape[-1]
    return constant(0, values.aval.dtype, (*like.aval.shape[:-2], count, count))


RULES: dict[str, Rule] = {
    "stablehlo.cholesky": _cholesky,
    "stablehlo.triangular_solve": _triangular,
    "devrt.solve": _solved,
    "devrt.det": _det,
    "devrt.slogdet": _slogdet,
    "devrt.qr": _qr,
    "devrt.eigh": _eigh,
    "devrt.svd": _svd,
}
