"""Functions of trees, traced as branches and bodies of loops, and what their types must be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from devrt._pytree import array_trees
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.tracing import as_value, at_user_line, convert, result_type

__all__ = [
    "check_carry",
    "check_given",
    "check_scalar",
    "describe",
    "differences",
    "flatten",
    "no_branches",
    "raise_different",
    "settled",
]


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree as values, and its structure."""
    leaves, structure = array_trees.tree_flatten(tree)
    return [as_value(leaf) for leaf in leaves], structure


def describe(function: Callable[..., Any]) -> str:
    """Return a function's name and line."""
    function = inspect.unwrap(getattr(function, "func", function))  # of a partial
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else str(name)


def differences(
    structures: Sequence[Any], avals: Sequence[Sequence[Any]], sides: Sequence[str]
) -> str:
    """Return how two results differ, as lines of text; empty where they do not."""
    if structures[0] != structures[1]:
        shown = (f"{s} is {_shown(t, a)}" for s, t, a in zip(sides, structures, avals, strict=True))
        return "; ".join(shown)
    first, second = sides
    paths = _paths(structures[0])
    return "; ".join(
        f"{first}{path} is {x} and {second}{path} is {y}"
        for path, x, y in zip(paths, *avals, strict=True)
        if (x.shape, x.dtype) != (y.shape, y.dtype)
    )


def _shown(structure: Any, avals: Sequence[Any]) -> str:
    return str(array_trees.tree_unflatten(structure, [_Shown(str(aval)) for aval in avals]))


class _Shown:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _paths(structure: Any) -> Iterator[str]:
    tree = array_trees.tree_unflatten(structure, range(structure.num_leaves))
    return (array_trees.keystr(path) for path, _ in array_trees.tree_flatten_with_path(tree)[0])


def raise_different(what: str, found: str, advice: str) -> NoReturn:
    """Raise the error for branches or bodies of different types."""
    raise InvalidTypeError(f"{what}{at_user_line()}: {found}. {advice}", operation=what)


def settled(inits: Sequence[Any], results: Sequence[Any]) -> list[Any] | None:
    """Return where carries begin, with weak ones of the dtype that the body makes of them.

    None where they have it already: only a number of Python's gives way.
    """
    pairs = list(zip(inits, results, strict=False))
    gives_way = [x.aval.weak_type and x.aval.dtype != y.aval.dtype for x, y in pairs]
    if len(inits) > len(results) or not any(gives_way):
        return None
    return [
        convert(x, result_type(x, y)[0]) if gives else x
        for (x, y), gives in zip(pairs, gives_way, strict=True)
    ]


def check_carry(
    what: str,
    function: Callable[..., Any],
    structures: Sequence[Any],
    inits: Sequence[Any],
    results: Sequence[Any],
    *,
    counted: bool = False,
) -> None:
    """Raise if a body returns another carry than it takes; a counter before it is not spoken of."""
    avals = [[value.aval for value in values] for values in (inits, results)]
    if counted:
        structures = [array_trees.treedef_children(each)[1] for each in structures]
        avals = [each[1:] for each in avals]
    sides = "the carry that it takes", "the one that it returns"
    found = differences(structures, avals, sides)
    if found:
        advice = "Return what is taken: convert with astype(), or begin with what is returned."
        raise_different(f"{what}: a body of different types, {describe(function)}", found, advice)


def check_given(what: str, role: str, x: Any) -> None:
    """Raise if a function stands in the place of a scalar, or nothing."""
    if x is None or (callable(x) and not hasattr(x, "shape")):
        msg = f"{what}: the {role} is a scalar, not {x!r}{at_user_line()}."
        raise InvalidTypeError(msg, operation=what)


def check_scalar(what: str, role: str, x: Any, kinds: str, expected: str) -> Any:
    """Return a scalar as a value.

    Raises
    ------
    InvalidTypeError
        If it has dimensions, or a dtype of another kind than one of ``kinds``.
    """
    value = as_value(x)
    if value.aval.shape or value.aval.dtype.kind not in kinds:
        msg = f"{what}: the {role} is {expected}, not {value.aval}{at_user_line()}."
        raise InvalidTypeError(msg, operation=what)
    return value


def no_branches(what: str) -> InvalidArgumentError:
    """Return the error for a switch without branches."""
    msg = f"{what} needs at least one branch{at_user_line()}."
    return InvalidArgumentError(msg, operation=what)
