"""`vjp`: a function's result, and a function from its cotangents to those of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt._pytree import array_trees
from devrt.programs.arguments import check_callable
from devrt.programs.differentiate import (
    Pulled,
    check_structure,
    cotangent_like,
    no_cotangents,
    record,
)
from devrt.programs.gradients import CallOf, program_of
from devrt.programs.tracebacks import shortened
from devrt.tracing import as_value, is_tracing
from devrt.tracing.gradients.replay import alias
from devrt.tracing.gradients.walk import has_fractions, is_inexact

__all__ = ["vjp"]


@shortened
def vjp(fun: Any, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return a function's result, and what takes cotangents of it back to its arguments.

    Parameters
    ----------
    fun
        The function.
    *primals
        Its arguments: trees of arrays.
    has_aux
        Whether ``fun`` returns a pair: its result, and what else it has.

    Returns
    -------
    out, function
        The result, and a function that takes a tree like it and returns a tuple with a tree for
        each argument. With ``has_aux`` what else ``fun`` has comes third.

    Examples
    --------
    >>> import devrt
    >>> out, back = devrt.vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> [float(each) for each in back(1.0)]
    [4.0, 3.0]
    """
    check_callable("vjp", fun)
    found = _traced(fun, primals, has_aux) if is_tracing() else _run(fun, primals, has_aux)
    out, back, aux = found
    return (out, back, aux) if has_aux else (out, back)


def _recorded(fun: Callable[..., Any], primals: Any, has_aux: bool) -> tuple[Pulled, list[Any]]:
    """Call the function in a trace; return what it gave, and the values of its arguments."""
    leaves, tree = array_trees.tree_flatten(primals)
    values = [as_value(leaf) for leaf in leaves]
    inputs = [alias(value) if is_inexact(value) else value for value in values]
    args = array_trees.tree_unflatten(tree, inputs)
    return record(lambda: fun(*args), inputs, has_aux), inputs


def _traced(fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool) -> Any:
    pulled, inputs = _recorded(fun, primals, has_aux)

    def back(cotangents: Any) -> Any:
        leaves, given = array_trees.tree_flatten(cotangents)
        check_structure(given, pulled.tree)
        pairs = zip(leaves, pulled.outputs, strict=True)
        found = pulled.pull([cotangent_like(leaf, output.aval) for leaf, output in pairs])
        return _like(primals, found, inputs)

    return array_trees.tree_unflatten(pulled.tree, pulled.outputs), back, pulled.aux


def _like(primals: Sequence[Any], found: Sequence[Any], inputs: Sequence[Any]) -> Any:
    pairs = zip(found, inputs, strict=True)
    filled = [no_cotangents(value) if each is None else each for each, value in pairs]
    return array_trees.tree_unflatten(array_trees.tree_structure(tuple(primals)), filled)


def _run(fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool) -> Any:
    """Run the function as a program, and the way back as another one.

    The second one computes the function once more: only the arguments are kept between them.
    """
    there = program_of(fun, ("vjp", has_aux), _there)
    call, leaves = CallOf.taken_apart(primals, {}, set(range(len(primals))))
    out, aux = there(leaves, call=call)
    likes = [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves]
    outputs, tree = array_trees.tree_flatten(out)

    def back(cotangents: Any) -> Any:
        given, structure = array_trees.tree_flatten(cotangents)
        check_structure(structure, tree)
        pairs = zip(given, outputs, strict=True)
        shown = [g for g, output in pairs if has_fractions(output.dtype)]
        found = iter(program_of(fun, ("back", has_aux), _back)(leaves, shown, call=call))
        is_shown = [has_fractions(value.dtype) for value in likes]
        return _like(primals, [next(found) if each else None for each in is_shown], likes)

    return out, back, aux


def _there(function: Callable[[], Any], key: Any) -> Callable[..., Any]:
    def program(leaves: Sequence[Any], call: CallOf) -> Any:
        args, _ = call.put_together(leaves)
        pulled, _ = _recorded(function(), args, key[1])
        return array_trees.tree_unflatten(pulled.tree, pulled.outputs), pulled.aux

    return program


def _back(function: Callable[[], Any], key: Any) -> Callable[..., Any]:
    def program(leaves: Sequence[Any], shown: Sequence[Any], call: CallOf) -> Any:
        args, _ = call.put_together(leaves)
        pulled, _inputs = _recorded(function(), args, key[1])
        rest = iter(shown)
        given = [
            cotangent_like(next(rest), output.aval) if is_inexact(output) else None
            for output in pulled.outputs
        ]
        return [each for each in pulled.pull(given) if each is not None]

    return program
