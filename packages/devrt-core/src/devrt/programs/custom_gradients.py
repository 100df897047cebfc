"""Functions whose gradient is the user's, or computed once more: `custom_vjp`, `checkpoint`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from devrt._pytree import array_trees
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.differentiate import check_structure, cotangent_like
from devrt.tracing import as_value, composite, current_graph, is_tracing
from devrt.tracing.gradients.rules import zeros_if_none
from devrt.tracing.gradients.walk import is_inexact

__all__ = ["checkpoint", "custom_vjp", "remat"]


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Any = None,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """Return a function that keeps for its gradient its arguments, and what a policy says.

    The gradient computes the rest once more, which takes time and saves memory.

    Parameters
    ----------
    fun
        The function.
    prevent_cse
        Accepted for JAX's sake: the compiler never joins the two computations.
    policy
        Which results of operations are kept too: one of `devrt.checkpoint_policies`, or a function
        as they are. None keeps none. Loops, branches and what is made of other operations are
        computed once more, whatever it says.
    static_argnums
        The positions of arguments that are no arrays.
    """
    if fun is None:
        return functools.partial(checkpoint, policy=policy, static_argnums=static_argnums)
    if policy is not None and not callable(policy):
        msg = f"policy of checkpoint is {policy!r}. Give one of devrt.checkpoint_policies, or None."
        raise InvalidTypeError(msg, policy=policy)
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @functools.wraps(fun)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fun(*args, **kwargs)
        fixed = {number % len(args) for number in numbers}
        given = [arg for i, arg in enumerate(args) if i not in fixed]

        def called(*parts: Any, **named: Any) -> Any:
            rest = iter(parts)
            return fun(*(arg if i in fixed else next(rest) for i, arg in enumerate(args)), **named)

        return _composed("checkpoint", called, given, kwargs, {}, policy)

    return recomputed


remat = checkpoint


def _composed(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Any,
    attributes: dict[str, Any],
    policy: Callable[..., bool] | None = None,
) -> Any:
    """Add a function's operations to the trace as one, which gives also what a policy keeps."""
    leaves, tree = array_trees.tree_flatten((tuple(args), dict(kwargs)))
    out_tree: Any = None

    def flat(*values: Any) -> list[Any]:
        nonlocal out_tree
        positional, named = array_trees.tree_unflatten(tree, values)
        results, out_tree = array_trees.tree_flatten(function(*positional, **named))
        kept = [] if policy is None else _kept(policy)
        attributes["kept"] = len(kept)
        return [*map(as_value, results), *kept]

    made = composite(name, flat, leaves, attributes)
    return array_trees.tree_unflatten(out_tree, made[: out_tree.num_leaves])


def _kept(policy: Callable[..., bool]) -> list[Any]:
    """Return the results of the operations of the current graph that a policy keeps."""
    return [
        value
        for op in current_graph().ops
        if not op.regions
        and policy(op.name.split(".", 1)[-1], *(x.aval for x in op.operands), **op.attributes)
        for value in op.results
    ]


class custom_vjp:  # noqa: N801 - JAX's name
    """A function whose gradient is given by two others.

    Parameters
    ----------
    fun
        The function.
    nondiff_argnums
        The positions of arguments that are no arrays; ``bwd`` takes them first.

    Examples
    --------
    >>> import devrt
    >>> @devrt.custom_vjp
    ... def twice(x):
    ...     return 2 * x
    >>> twice.defvjp(lambda x: (2 * x, None), lambda kept, g: (3 * g,))
    >>> float(devrt.grad(twice)(1.0))
    3.0
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._fixed = tuple(nondiff_argnums)
        self._rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Give the functions of the gradient.

        Parameters
        ----------
        fwd
            Takes what the function takes; returns its result, and what ``bwd`` is to have of it.
        bwd
            Takes that and the result's cotangent; returns a tuple with a cotangent for each
            argument, of which each may be None.
        """
        self._rules = fwd, bwd

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        if self._rules is None:
            msg = f"{self._fun.__name__} is a custom_vjp without functions: call its defvjp first."
            raise InvalidArgumentError(msg)
        if not is_tracing():
            return self._fun(*args)
        fixed = {number % len(args): args[number] for number in self._fixed}
        given = [arg for i, arg in enumerate(args) if i not in fixed]
        tree = array_trees.tree_structure(tuple(given))

        def whole(parts: Sequence[Any]) -> list[Any]:
            rest = iter(parts)
            return [fixed[i] if i in fixed else next(rest) for i in range(len(args))]

        def back(operands: Sequence[Any], cotangents: Any, results: Any) -> list[Any]:
            parts = array_trees.tree_unflatten(tree, operands)
            return self._back(whole(parts), fixed, parts, cotangents, results)

        called = functools.partial(self._called, whole)
        return _composed("custom_vjp", called, given, {}, {"backward": back})

    def _called(self, whole: Callable[..., Any], *parts: Any) -> Any:
        return self._fun(*whole(parts))

    def _back(
        self, args: Sequence[Any], fixed: Any, parts: Any, cotangents: Any, results: Any
    ) -> list[Any]:
        assert self._rules is not None
        fwd, bwd = self._rules
        out, kept = fwd(*args)
        filled = zeros_if_none(cotangents, results)
        given = array_trees.tree_unflatten(array_trees.tree_structure(out), filled)
        found = bwd(*fixed.values(), kept, given)
        if not isinstance(found, tuple | list) or len(found) != len(parts):
            msg = f"the bwd of {self._fun.__name__} must return a tuple of {len(parts)} cotangents."
            raise InvalidArgumentError(msg)
        return [
            leaf for each, part in zip(found, parts, strict=True) for leaf in _leaves(each, part)
        ]


def _leaves(cotangent: Any, part: Any) -> list[Any]:
    """Return the cotangents of an argument's leaves; None for all of them, or of integers."""
    values, tree = array_trees.tree_flatten(part)
    if cotangent is None:
        return [None] * len(values)
    leaves, given = array_trees.tree_flatten(cotangent, is_leaf=lambda x: x is None)
    check_structure(given, tree)
    return [
        None if leaf is None or not is_inexact(value) else cotangent_like(leaf, value.aval)
        for leaf, value in zip(leaves, values, strict=True)
    ]
