"""Products of matrices, and products that sum over any dimensions."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.lax.checks import lax_operation, one_dtype, require
from devrt.tracing import DotDimensions, as_value, dtype_of

__all__ = ["Precision", "batch_matmul", "dot", "dot_general"]


class Precision(enum.Enum):
    """How precise products of floats are, where hardware gives a choice."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


_STATIC = "dimension_numbers", "precision", "preferred_element_type"


@lax_operation(static=_STATIC)
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return a product that is summed over contracting dimensions, for each of batching dimensions.

    Parameters
    ----------
    lhs, rhs
        Arrays of one dtype.
    dimension_numbers
        ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``. The result has the
        batching dimensions, then the rest of ``lhs``, then the rest of ``rhs``.
    precision
        ``"default"``, ``"high"``, ``"highest"``, a `Precision`, or a pair for the two operands.
    preferred_element_type
        The result's dtype, in which is summed.
    """
    x, y = one_dtype("dot_general", lhs, rhs)
    (lc, rc), (lb, rb) = dimension_numbers
    dims = DotDimensions(tuple(lc), tuple(rc), tuple(lb), tuple(rb))
    _check(x.aval, y.aval, dims)
    dtype = None if preferred_element_type is None else dtype_of(preferred_element_type)
    levels = tracing.precision_of(precision, "lax.dot_general")
    return tracing.dot_general(x, y, dims, precision=levels, dtype=dtype)


def _check(x: Any, y: Any, dims: DotDimensions) -> None:
    left = (*dims.lhs_contracting, *dims.lhs_batching)
    right = (*dims.rhs_contracting, *dims.rhs_batching)
    for aval, used in ((x, left), (y, right)):
        is_known = len(set(used)) == len(used) and all(0 <= d < aval.ndim for d in used)
        require(is_known, "dot_general", f"{used} are not different dimensions of {aval}")
    fits = len(dims.lhs_contracting) == len(dims.rhs_contracting) and len(left) == len(right)
    sizes = [[aval.shape[d] for d in used] for aval, used in ((x, left), (y, right))]
    reason = f"dimensions {left} of {x} and {right} of {y} differ in size"
    require(fits and sizes[0] == sizes[1], "dot_general", reason)


@lax_operation(static=_STATIC)
def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the product of vectors or matrices: of the last dimension and the last but one."""
    x, y = as_value(lhs), as_value(rhs)
    if dimension_numbers is None:
        ranks = x.aval.ndim, y.aval.ndim
        require(all(1 <= n <= 2 for n in ranks), "dot", "takes vectors and matrices")
        fits = x.aval.shape[-1] == y.aval.shape[0]
        require(fits, "dot", f"{x.aval} and {y.aval} differ in the size that is summed over")
        dimension_numbers = (((ranks[0] - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


@lax_operation(static=("precision",))
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Return the products of matrices, for each of the dimensions before the last two."""
    x, y = as_value(lhs), as_value(rhs)
    rank = x.aval.ndim
    fits = rank >= 2 and x.aval.shape[:-2] == y.aval.shape[:-2] and rank == y.aval.ndim
    require(fits, "batch_matmul", f"takes batches of one shape, not {x.aval} and {y.aval}")
    batch: Sequence[int] = tuple(range(rank - 2))
    return dot_general(x, y, (((rank - 1,), (rank - 2,)), (batch, batch)), precision)
