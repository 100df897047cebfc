"""Branches and loops of traced functions: cond, switch, while_loop, fori_loop."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from devrt import tracing
from devrt._pytree import array_trees
from devrt.errors import InvalidTypeError
from devrt.lax import bodies
from devrt.lax.scans import scan_flat
from devrt.lax.staging import staged
from devrt.programs.arguments import check_callable
from devrt.tracing import as_value, at_user_line, compare, constant, convert, named

__all__ = ["cond", "fori_loop", "switch", "while_loop"]

_NOTHING: Any = object()

Function = Callable[..., Any]


def cond(
    pred: Any,
    true_fun: Function,
    false_fun: Function,
    *operands: Any,
    operand: Any = _NOTHING,
) -> Any:
    """Return ``true_fun(*operands)`` where a scalar is true, else ``false_fun(*operands)``.

    Both are traced; one runs.

    Parameters
    ----------
    pred
        A scalar; a number is true unless it is zero.
    true_fun, false_fun
        Functions of the operands, whose results have one structure, shapes and dtypes.
    *operands
        Trees of arrays. What a function closes over is no operand and needs to be none.
    operand
        One operand, by name.

    Raises
    ------
    InvalidTypeError
        If the functions return different types, or ``pred`` is no scalar.
    """
    functions: Any = true_fun, false_fun  # callers are not bound by the annotation
    if not all(map(callable, functions)) and len(operands) == 2 and callable(operands[1]):
        return _cond_of_pairs(pred, true_fun, false_fun, *operands)
    check_callable("lax.cond", *functions)
    bodies.check_given("lax.cond", "predicate", pred)
    given = operands if operand is _NOTHING else (operand,)
    return staged(_cond, (true_fun, false_fun), None, pred, *given)


def _cond_of_pairs(pred: Any, x: Any, true_fun: Any, y: Any, false_fun: Any) -> Any:
    """Call JAX's older form: each function with an operand of its own."""
    return cond(pred, lambda a, _: true_fun(a), lambda _, b: false_fun(b), x, y)


def _cond(functions: Sequence[Function], _: None, pred: Any, *operands: Any) -> Any:
    kinds, expected = "biuf", "a scalar, a truth value or a real number"
    chosen = bodies.check_scalar("lax.cond", "predicate", pred, kinds, expected)
    if chosen.aval.dtype.kind != "b":
        chosen = compare("NE", chosen, constant(0, chosen.aval.dtype))
    index = convert(chosen, named("int32"))
    return _branched("lax.cond", index, functions[::-1], ("false_fun", "true_fun"), operands)


def switch(
    index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _NOTHING
) -> Any:
    """Return ``branches[index](*operands)``, with ``index`` clamped to the branches there are.

    Parameters
    ----------
    index
        An integer scalar.
    branches
        Functions of the operands, whose results have one structure, shapes and dtypes.
    *operands
        Trees of arrays.
    operand
        One operand, by name.

    Raises
    ------
    InvalidTypeError
        If the branches return different types, or ``index`` is no integer scalar.
    """
    branches = tuple(branches)
    check_callable("lax.switch", *branches)
    if not branches:
        raise bodies.no_branches("lax.switch")
    bodies.check_given("lax.switch", "index", index)
    given = operands if operand is _NOTHING else (operand,)
    return staged(_switch, branches, None, index, *given)


def _switch(branches: Sequence[Function], _: None, index: Any, *operands: Any) -> Any:
    value = bodies.check_scalar("lax.switch", "index", index, "iu", "an integer scalar")
    if len(branches) == 1:
        return branches[0](*operands)
    value = tracing.clamp(0, value, len(branches) - 1)
    sides = [f"branch {i}" for i in range(len(branches))]
    return _branched("lax.switch", convert(value, named("int32")), branches, sides, operands)


def _branched(
    what: str, index: Any, functions: Sequence[Function], sides: Sequence[str], operands: Any
) -> Any:
    leaves, tree = bodies.flatten(operands)
    structures: list[Any] = []

    def traced(function: Function) -> Any:
        def flat() -> list[Any]:
            results, structure = bodies.flatten(function(*array_trees.tree_unflatten(tree, leaves)))
            structures.append(structure)
            return results

        return tracing.trace_flat(flat, (), bodies.describe(function).partition(" ")[0])

    graphs = [traced(function) for function in functions]
    avals = [[value.aval for value in graph.results] for graph in graphs]
    for i in range(1, len(graphs)):
        found = bodies.differences(
            (structures[0], structures[i]), (avals[0], avals[i]), (sides[0], sides[i])
        )
        if found:
            names = f"{bodies.describe(functions[0])} and {bodies.describe(functions[i])}"
            advice = f"Let {names} return the same types: convert with astype()."
            bodies.raise_different(f"{what}: branches of different types", found, advice)
    return array_trees.tree_unflatten(structures[0], tracing.case(index, graphs))


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """Return a carry after a loop: ``body_fun`` is called on it while ``cond_fun`` of it is true.

    The number of steps is not known to the compiler, so that gradients do not go through it.

    Parameters
    ----------
    cond_fun
        Returns a bool scalar.
    body_fun
        Returns a carry of the structure, shapes and dtypes of the one that it takes.
    init_val
        The carry to begin with, a tree. A Python number in it takes the dtype that the body makes
        of it.

    Raises
    ------
    InvalidTypeError
        If the body returns another type than it takes, or ``cond_fun`` no bool scalar.
    """
    check_callable("lax.while_loop", cond_fun, body_fun)
    return staged(_while_loop, (cond_fun, body_fun), None, init_val)


def _while_loop(functions: Sequence[Function], _: None, init: Any) -> Any:
    cond_fun, body_fun = functions
    return _looped("lax.while_loop", cond_fun, body_fun, init)


def _looped(
    what: str, cond_fun: Function, body_fun: Function, init: Any, about: Function | None = None
) -> Any:
    inits, tree = bodies.flatten(init)
    structure: Any = None

    def flat(*carry: Any) -> list[Any]:
        nonlocal structure
        results, structure = bodies.flatten(body_fun(array_trees.tree_unflatten(tree, carry)))
        return results

    body = tracing.trace_body(flat, inits, name="body")
    changed = bodies.settled(inits, body.results) if structure == tree else None
    if changed is not None:
        inits = changed
        body = tracing.trace_body(flat, inits, name="body")
    pair, counted = (tree, structure), about is not None
    bodies.check_carry(what, about or body_fun, pair, inits, body.results, counted=counted)

    def condition(*carry: Any) -> list[Any]:
        return [_truth(cond_fun, cond_fun(array_trees.tree_unflatten(tree, carry)))]

    avals = [value.aval for value in inits]
    sets = [value.varying for value in body.results]
    goes_on = tracing.trace_body(condition, (), avals, sets, name="condition")
    return array_trees.tree_unflatten(tree, tracing.while_loop(goes_on, body, inits))


def _truth(cond_fun: Function, result: Any) -> Any:
    leaves = array_trees.tree_leaves(result)
    value = as_value(leaves[0]) if len(leaves) == 1 else None
    if value is None or result is not leaves[0] or value.aval.shape or value.aval.dtype.kind != "b":
        shown = ", ".join(str(as_value(leaf).aval) for leaf in leaves) or repr(result)
        msg = (
            f"lax.while_loop: cond_fun returns a bool scalar, and {bodies.describe(cond_fun)} "
            f"returned {shown}{at_user_line()}. Compare, or reduce with devrt.numpy.any or all."
        )
        raise InvalidTypeError(msg, operation="lax.while_loop")
    return value


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Function,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Return a carry after ``body_fun(i, carry)`` for each ``i`` from ``lower`` to below ``upper``.

    With Python integers as bounds it is a `scan`, through which gradients go. With arrays as bounds
    it is a `while_loop`.

    Parameters
    ----------
    lower, upper
        Integer scalars.
    body_fun
        Takes the counter and the carry; returns a carry of the same structure, shapes and dtypes.
    init_val
        The carry to begin with, a tree.
    unroll
        Accepted for JAX's sake: the compiler decides.

    Raises
    ------
    InvalidTypeError
        If the body returns another type than it takes, or a bound is no integer scalar.
    """
    check_callable("lax.fori_loop", body_fun)
    _check_bounds(lower, upper)
    bounds = _static(lower), _static(upper)
    if None in bounds:
        return staged(_dynamic_loop, (body_fun,), None, lower, upper, init_val)
    return staged(_static_loop, (body_fun,), bounds, init_val)


def _check_bounds(lower: Any, upper: Any) -> None:
    """Raise unless bounds have one dtype; only a number of Python's gives way to a signed one."""
    (first, one), (last, other) = tracing.result_type(lower), tracing.result_type(upper)
    if first != last and not ((one or other) and first.kind == last.kind == "i"):
        msg = (
            f"lax.fori_loop: the bounds are of one dtype, not {first} and {last}{at_user_line()}. "
            "Convert one of them with astype()."
        )
        raise InvalidTypeError(msg, operation="lax.fori_loop")


def _static(bound: Any) -> int | None:
    if isinstance(bound, tracing.ArrayOperators | bool):
        return None
    try:
        return operator.index(bound)
    except TypeError:
        return None


def _static_loop(functions: Sequence[Function], bounds: tuple[int, int], init: Any) -> Any:
    (body_fun,), (lower, upper) = functions, bounds

    def step(carry: Any, _: Any) -> tuple[Any, None]:
        i, state = carry
        following = tracing.binary("add", i, constant(1, i.aval.dtype, weak_type=True))
        return (following, body_fun(i, state)), None

    is_narrow = all(-(2**31) <= bound < 2**31 for bound in bounds)
    # Numbers of Python's give way to what the body computes with, as an argument of jit would.
    first = constant(lower, named("int32" if is_narrow else "int64"), weak_type=True)
    length = max(0, upper - lower)
    carry, _ = scan_flat("lax.fori_loop", step, (first, init), None, length, about=body_fun)
    return carry[1]


def _dynamic_loop(functions: Sequence[Function], _: None, lower: Any, upper: Any, init: Any) -> Any:
    (body_fun,) = functions
    kinds = "iu", "an integer scalar"
    given = [
        bodies.check_scalar("lax.fori_loop", role, bound, *kinds)
        for role, bound in (("lower bound", lower), ("upper bound", upper))
    ]
    first, last = tracing.promote(*given)

    def body(carry: Any) -> Any:
        i, state = carry
        return tracing.binary("add", i, constant(1, i.aval.dtype)), body_fun(i, state)

    def goes_on(carry: Any) -> Any:
        return compare("LT", carry[0], last)

    return _looped("lax.fori_loop", goes_on, body, (first, init), body_fun)[1]
