"""Loops over the first dimension of arrays: scan and map."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from devrt import tracing
from devrt._pytree import array_trees
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.lax import bodies
from devrt.lax.staging import staged
from devrt.programs.arguments import check_callable
from devrt.tracing import at_user_line, shaped

__all__ = ["map", "scan", "scan_flat"]

Function = Callable[..., Any]


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Return a carry after a loop over the first dimension of arrays, and what each step gave.

    As this Python does::

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    Parameters
    ----------
    f
        Takes a carry and an element of ``xs``; returns a carry of the same structure, shapes and
        dtypes, and what is stacked, a tree.
    init
        The carry to begin with, a tree. A Python number in it takes the dtype that ``f`` makes of
        it.
    xs
        A tree of arrays with first dimensions of one size; None, with ``length``, for none.
    length
        The number of steps.
    reverse
        Whether the last element comes first. What is stacked keeps its place.
    unroll
        Accepted for JAX's sake: the compiler decides.

    Raises
    ------
    InvalidTypeError
        If ``f`` returns another carry than it takes, or no pair.
    InvalidArgumentError
        If the sizes of first dimensions differ, or none is known.
    """
    check_callable("lax.scan", f)
    steps = None if length is None else operator.index(length)
    result: tuple[Any, Any] = staged(_scan, (f,), (steps, bool(reverse)), init, xs)
    return result


def _scan(functions: Sequence[Function], statics: Any, init: Any, xs: Any) -> Any:
    length, reverse = statics
    return scan_flat("lax.scan", functions[0], init, xs, length, reverse=reverse)


def scan_flat(
    what: str,
    f: Function,
    init: Any,
    xs: Any,
    length: int | None,
    *,
    reverse: bool = False,
    about: Function | None = None,
) -> tuple[Any, Any]:
    """Do `scan` in a trace; ``what`` and ``about`` are named by errors."""
    inits, tree = bodies.flatten(init)
    leaves, xs_tree = bodies.flatten(xs)
    steps = _length(what, leaves, length)
    trees: list[Any] = [None, None]

    def flat(*state: Any) -> list[Any]:
        carry = array_trees.tree_unflatten(tree, state[: len(inits)])
        made = f(carry, array_trees.tree_unflatten(xs_tree, state[len(inits) :]))
        carried, stacked = _pair(what, about or f, made)
        (first, trees[0]), (second, trees[1]) = bodies.flatten(carried), bodies.flatten(stacked)
        return [*first, *second]

    others = [shaped(x.aval.shape[1:], x.aval.dtype, x.aval.weak_type) for x in leaves]
    sets = [x.varying for x in leaves]
    body = tracing.trace_body(flat, inits, others, sets, name="scan")
    changed = bodies.settled(inits, body.results) if trees[0] == tree else None
    if changed is not None:
        inits = changed
        body = tracing.trace_body(flat, inits, others, sets, name="scan")
    count = trees[0].num_leaves
    pair, counted = (tree, trees[0]), what == "lax.fori_loop"
    results = body.results[:count]
    bodies.check_carry(what, about or f, pair, inits, results, counted=counted)
    made = tracing.scan(body, inits, leaves, steps, reverse=reverse)
    carry = array_trees.tree_unflatten(tree, made[:count])
    return carry, array_trees.tree_unflatten(trees[1], made[count:])


def _pair(what: str, f: Function, made: Any) -> tuple[Any, Any]:
    if isinstance(made, tuple | list) and len(made) == 2:
        return made[0], made[1]
    msg = (
        f"{what}: {bodies.describe(f)} returns a pair, the carry and what is stacked (None for "
        f"nothing), and returned {made!r}{at_user_line()}."
    )
    raise InvalidTypeError(msg, operation=what)


def _length(what: str, xs: Sequence[Any], length: int | None) -> int:
    scalars = [str(x.aval) for x in xs if not x.aval.shape]
    sizes = list(dict.fromkeys(x.aval.shape[0] for x in xs if x.aval.shape))
    if scalars:
        problem = f"{', '.join(scalars)} has no first dimension to go along"
    elif len(sizes) > 1:
        problem = (
            f"the first dimensions of the arrays have sizes {', '.join(str(n) for n in sizes)}"
        )
    elif length is not None and sizes and sizes[0] != length:
        problem = f"length is {length}, and the first dimensions have size {sizes[0]}"
    elif length is None and not sizes:
        problem = "there are no arrays to go along, and no length"
    elif (length or 0) < 0:
        problem = f"length is {length}"
    else:
        return sizes[0] if length is None else length
    msg = f"{what}{at_user_line()}: {problem}."
    raise InvalidArgumentError(msg, operation=what)


def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:
    """Return ``f`` of each element along the first dimension of arrays, stacked.

    Parameters
    ----------
    f
        Takes an element of ``xs``, a tree; returns a tree.
    xs
        A tree of arrays with first dimensions of one size.
    batch_size
        Accepted for JAX's sake: elements are taken one by one, which gives the same results.

    Raises
    ------
    InvalidArgumentError
        If the sizes of first dimensions differ.
    """
    check_callable("lax.map", f)
    if batch_size is not None and operator.index(batch_size) < 1:
        msg = f"lax.map: batch_size is {batch_size}, and must be 1 or more."
        raise InvalidArgumentError(msg, operation="lax.map")
    return staged(_map, (f,), None, xs)


def _map(functions: Sequence[Function], _: None, xs: Any) -> Any:
    (f,) = functions
    return scan_flat("lax.map", lambda _, x: (None, f(x)), None, xs, None, about=f)[1]
