"""What all elements up to each one come to, along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devrt import tracing, tree_util
from devrt.lax import bodies
from devrt.lax.checks import axis_of, lax_operation, named_operation, require, require_kind
from devrt.lax.reductions import identity
from devrt.lax.staging import staged
from devrt.programs.arguments import check_callable
from devrt.tracing import as_value, binary, constant, slice_in_dim, unary

__all__ = ["associative_scan", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]

Function = Callable[..., Any]


def _cumulative(name: str, op: str, kinds: str, text: str) -> Function:
    def compute(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        x = require_kind(name, operand, kinds)
        dimension = axis_of(name, axis, len(x.aval.shape))
        if not x.aval.size:
            return x
        start = identity(op, x.aval.dtype)
        return tracing.cumulative(op, x, start, dimension, reverse=reverse)

    text = f"Return {text} of all elements up to each one; from the end if ``reverse``."
    return named_operation(compute, name, text, static=("axis", "reverse"))


cummax = _cumulative("cummax", "maximum", "biuf", "the greatest")
cummin = _cumulative("cummin", "minimum", "biuf", "the least")
cumprod = _cumulative("cumprod", "multiply", "iufc", "the product")
cumsum = _cumulative("cumsum", "add", "iufc", "the sum")


@lax_operation(static=("axis", "reverse"))
def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Return log(sum(exp(x))) of all elements up to each one; from the end if ``reverse``."""
    x = require_kind("cumlogsumexp", operand, "f")
    return _associative((_logaddexp,), (bool(reverse), int(axis)), x)


def _logaddexp(x: Any, y: Any) -> Any:
    greater, difference = binary("maximum", x, y), binary("subtract", x, y)
    size = unary("negate", unary("abs", difference))
    sum_ = binary("add", greater, unary("log_plus_one", unary("exponential", size)))
    is_same = tracing.compare("EQ", x, y)  # infinities of one sign have no difference
    twice = binary("add", x, constant(0.6931471805599453, x.aval.dtype))
    return tracing.select(is_same, twice, sum_)


def associative_scan(fn: Function, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return what an associative function makes of all elements up to each one.

    It takes a number of operations that grows with the logarithm of the size, each on many
    elements.

    Parameters
    ----------
    fn
        Takes two trees of arrays, and returns one: ``fn(fn(a, b), c) == fn(a, fn(b, c))``.
    elems
        A tree of arrays, with one size along the axis.
    reverse
        Whether it goes from the end.
    axis
        Along which.

    Raises
    ------
    InvalidTypeError
        If the sizes differ, or ``fn`` returns another tree.
    """
    check_callable("lax.associative_scan", fn)
    return staged(_associative, (fn,), (bool(reverse), int(axis)), elems)


def _associative(functions: tuple[Function], statics: tuple[bool, int], elems: Any) -> Any:
    (fn,), (reverse, axis), name = functions, statics, "associative_scan"
    leaves, structure = bodies.flatten(elems)
    require(bool(leaves), name, "takes one array or more")
    axes = [axis_of(name, axis, len(x.aval.shape)) for x in leaves]
    sizes = {x.aval.shape[d] for x, d in zip(leaves, axes, strict=True)}
    require(len(sizes) == 1, name, f"arrays have one size along the axis, not {sorted(sizes)}")

    def combine(first: list[Any], second: list[Any]) -> list[Any]:
        sides = (tree_util.tree_unflatten(structure, side) for side in (first, second))
        results, tree = tree_util.tree_flatten(fn(*sides))
        require(tree == structure, name, "fn returns a tree as those that it takes")
        return [as_value(x) for x in results]

    if reverse:
        leaves = [tracing.reverse(x, [d]) for x, d in zip(leaves, axes, strict=True)]
    made = _scanned(combine, leaves, axes)
    if reverse:
        made = [tracing.reverse(x, [d]) for x, d in zip(made, axes, strict=True)]
    return tree_util.tree_unflatten(structure, made)


def _scanned(combine: Function, xs: list[Any], axes: list[int]) -> list[Any]:
    size = xs[0].aval.shape[axes[0]]
    if size < 2:
        return xs
    pairs = combine(_every(xs, axes, 0, size - 1), _every(xs, axes, 1, size))
    second = _scanned(combine, pairs, axes)
    count = second[0].aval.shape[axes[0]]
    before = second if size % 2 else _range(second, axes, 0, count - 1)
    first = _range(xs, axes, 0, 1)
    if size == 2:
        even = first
    else:
        later = combine(before, _every(xs, axes, 2, size))
        parts = zip(first, later, axes, strict=True)
        even = [tracing.concatenate([a, b], d) for a, b, d in parts]
    return [_interleaved(a, b, d) for a, b, d in zip(even, second, axes, strict=True)]


def _every(xs: list[Any], axes: list[int], start: int, stop: int) -> list[Any]:
    return [slice_in_dim(x, start, stop, d, 2) for x, d in zip(xs, axes, strict=True)]


def _range(xs: list[Any], axes: list[int], start: int, stop: int) -> list[Any]:
    return [slice_in_dim(x, start, stop, d) for x, d in zip(xs, axes, strict=True)]


def _interleaved(even: Any, second: Any, axis: int) -> Any:
    """Return elements of two arrays alternately; the latter may have one less."""
    shape, count = even.aval.shape, second.aval.shape[axis]
    missing = tuple(shape[axis] - count if i == axis else 0 for i in range(len(shape)))
    second = tracing.pad(second, constant(0, second.aval.dtype), (0,) * len(shape), missing)
    both = tracing.concatenate([tracing.expand_dims(x, axis + 1) for x in (even, second)], axis + 1)
    whole = tracing.reshape(both, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))
    return slice_in_dim(whole, 0, shape[axis] + count, axis)
