"""Functions and their gradients in a trace: what `grad` and `vjp` have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from devrt._pytree import array_trees
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.tracing import as_value, at_user_line, constant, convert, current_graph, shaped
from devrt.tracing.gradients.families import RULES
from devrt.tracing.gradients.replay import alias
from devrt.tracing.gradients.rules import zeros
from devrt.tracing.gradients.walk import Walk, has_fractions, is_inexact

__all__ = ["FLOAT0", "Options", "Pulled", "no_cotangents", "record", "value_and_gradients"]

FLOAT0 = np.dtype([("float0", np.void, 0)])
"""The dtype of the cotangents of integers: they have no bytes."""


class Options(NamedTuple):
    """How a function is differentiated; see `devrt.value_and_grad`."""

    argnums: tuple[int, ...]
    is_one: bool
    has_aux: bool
    holomorphic: bool
    allow_int: bool

    def positions(self, count: int) -> list[int]:
        """Return the positions of the arguments to differentiate by.

        Raises
        ------
        InvalidArgumentError
            If there are fewer arguments.
        """
        for number in self.argnums:
            if not -count <= number < count:
                msg = (
                    f"argnums has {number}, and the function was called with {count} positional "
                    "arguments. Differentiate by positional arguments that are there."
                )
                raise InvalidArgumentError(msg, argnums=self.argnums)
        return [number % count for number in self.argnums]


class Pulled(NamedTuple):
    """A function's result in a trace, and how cotangents go back from it.

    Attributes
    ----------
    outputs : list
        The leaves of the result, as values.
    tree : PyTreeDef
        The structure of the result.
    aux : object
        What else the function returned.
    pull : callable
        From cotangents of the outputs to those of the inputs, of which each may be None.
    """

    outputs: list[Any]
    tree: Any
    aux: Any
    pull: Callable[[Sequence[Any]], list[Any]]


def no_cotangents(value: Any) -> np.ndarray[Any, Any]:
    """Return what stands for the cotangents of integers."""
    return np.zeros(np.shape(value), FLOAT0)


def record(function: Callable[[], Any], inputs: Sequence[Any], has_aux: bool) -> Pulled:
    """Call a function in a trace and keep its operations.

    ``inputs`` are the values to differentiate by, which the function uses; each is a value of its
    own, by `alias`.
    """
    graph = current_graph()
    start = len(graph.ops)
    with _no_static(graph):
        returned, aux = function(), None
    if has_aux:
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            msg = (
                "with has_aux=True the function must return a pair of its result and what else it "
                f"has; it returned a value of type {type(returned).__name__}."
            )
            raise InvalidTypeError(msg, has_aux=True)
        returned, aux = returned
    leaves, tree = array_trees.tree_flatten(returned)
    outputs = [as_value(leaf) for leaf in leaves]
    ops = graph.ops[start:]

    def pull(cotangents: Sequence[Any]) -> list[Any]:
        found = Walk(RULES).pull(ops, outputs, cotangents, inputs)
        return [
            None
            if not is_inexact(value)
            else zeros(value)
            if cotangent is None
            else convert(cotangent, value.aval.dtype, weak_type=value.aval.weak_type)
            for value, cotangent in zip(inputs, found, strict=True)
        ]

    return Pulled(outputs, tree, aux, pull)


@contextmanager
def _no_static(graph: Any) -> Iterator[None]:
    """Let errors not advise static arguments: a function that is differentiated has none."""
    before, graph.takes_static = graph.takes_static, False
    try:
        yield
    finally:
        graph.takes_static = before


def value_and_gradients(
    function: Callable[..., Any],
    options: Options,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[Any, Any, list[Any]]:
    """Return a function's value, what else it returned, and gradients by leaf; in a trace.

    The gradients of integers are None.
    """
    positions = options.positions(len(args))
    pairs, tree = array_trees.tree_flatten_with_path([args[i] for i in positions])
    inputs = [_input(leaf, path, positions, options) for path, leaf in pairs]
    given = list(args)
    for i, part in zip(positions, array_trees.tree_unflatten(tree, inputs), strict=True):
        given[i] = part
    called = functools.partial(function, *given, **kwargs)
    pulled = record(called, inputs, options.has_aux)
    value = _scalar(pulled, options, getattr(function, "__name__", "the function"))
    one = constant(1, value.aval.dtype)
    return value, pulled.aux, pulled.pull([one])


def _input(leaf: Any, path: Any, positions: Sequence[int], options: Options) -> Any:
    """Return an argument's leaf as a value of its own."""
    value = as_value(leaf)
    is_complex = value.aval.dtype.kind == "c"
    if not is_inexact(value) and options.allow_int:
        return value
    if not is_inexact(value) or (options.holomorphic and not is_complex):
        where = f"argument {positions[path[0].idx]}{array_trees.keystr(path[1:])}"
        kind = "complex numbers" if options.holomorphic else "fractions or complex numbers"
        msg = (
            f"grad differentiates by {kind}, and {where} is of {value.aval}. Convert it, name "
            "other arguments in argnums, or give allow_int=True for integers."
        )
        raise InvalidTypeError(msg, argument=where, dtype=str(value.aval.dtype))
    return alias(value)


def _scalar(pulled: Pulled, options: Options, name: str) -> Any:
    """Return the only output, which must be a scalar of fractions."""
    if not array_trees.treedef_is_leaf(pulled.tree) or not pulled.outputs:
        is_none = pulled.tree == array_trees.tree_structure(None)
        msg = (
            f"grad needs a function that returns one scalar, and {name} returned "
            f"{'None' if is_none else pulled.tree}{at_user_line()}. "
        )
        msg += (
            "Does it lack a `return`?"
            if is_none
            else "Give has_aux=True if it returns a pair of a scalar and what else it has."
        )
        raise InvalidTypeError(msg, tree=str(pulled.tree))
    (value,) = pulled.outputs
    wanted = "c" if options.holomorphic else "f"
    kind = "c" if value.aval.dtype.kind == "c" else "f" if is_inexact(value) else "other"
    if value.aval.shape or kind != wanted:
        number = "complex number" if options.holomorphic else "real number"
        msg = (
            f"grad needs a function that returns one {number}, and {name} returned "
            f"{value.aval}{at_user_line()}."
            + (" Sum it, or use devrt.vjp." if value.aval.shape else "")
            + (" Give holomorphic=True, or take its real part." if kind == "c" else "")
        )
        raise InvalidTypeError(msg, shape=value.aval.shape, dtype=str(value.aval.dtype))
    return value


def check_structure(given: Any, tree: Any) -> None:
    """Raise `InvalidArgumentError` unless cotangents are a tree like the function's result."""
    if given != tree:
        msg = f"the function returned {tree}, and its cotangents are {given}: give a tree like it."
        raise InvalidArgumentError(msg, tree=str(given))


def cotangent_like(leaf: Any, aval: Any) -> Any:
    """Return the cotangent of an output as a value; None if the output is of integers.

    Raises
    ------
    InvalidTypeError
        If it is of another shape or dtype than the output.
    """
    if not has_fractions(aval.dtype):
        return None
    value = as_value(leaf)
    if value.aval.weak_type:
        value = convert(value, aval.dtype)
    if (value.aval.shape, value.aval.dtype) != (aval.shape, aval.dtype):
        wanted = shaped(aval.shape, aval.dtype)
        msg = f"a cotangent must be of {wanted}, as the result is, and is of {value.aval}."
        raise InvalidTypeError(msg, shape=value.aval.shape)
    return value
