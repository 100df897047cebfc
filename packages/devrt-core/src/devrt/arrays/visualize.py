"""Drawings of arrays' shardings, and shardings for who wants to know them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt import tree_util
from devrt.errors import InvalidTypeError, UnimplementedError
from devrt.sharding import Sharding, visualize_sharding
from devrt.tracing import Value, at_user_line

__all__ = ["inspect_array_sharding", "visualize_array_sharding"]


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Call a function with how an array lies.

    Parameters
    ----------
    value
        A tree of arrays. In a traced function the compiler decides how they lie, so that the
        function is called when the program is compiled, once for each program.
    callback
        What is called with the `Sharding` of each.

    Raises
    ------
    InvalidTypeError
        If an array has no sharding.
    UnimplementedError
        If a value is one of a loop, a branch or a `devrt.shard_map` in a traced function.
    """
    for leaf in tree_util.tree_leaves(value):
        if isinstance(leaf, Value):
            _inspect_when_compiled(leaf, callback)
        else:
            callback(_sharding_of(leaf, "inspect_array_sharding"))


def visualize_array_sharding(
    arr: Any,
    *,
    use_color: bool = True,
    max_width: int = 80,
    dims: Sequence[int] | None = None,
) -> None:
    """Draw which device holds which part of an array.

    Parameters
    ----------
    arr
        An array, or anything with a ``shape`` and a ``sharding``. A value of a traced function is
        drawn when the program is compiled.
    use_color
        Whether to colour the blocks where the output is a terminal.
    max_width
        Width of a drawing in text, in characters.
    dims
        The dimensions to draw, down and across; needed for arrays of more than two.

    Raises
    ------
    InvalidTypeError
        If ``arr`` has no sharding.
    InvalidArgumentError
        If ``dims`` is wrong or missing.
    UnimplementedError
        As for `inspect_array_sharding`.

    Notes
    -----
    SVG in a notebook, else text on the standard output, in colour on a terminal.
    """

    def draw(sharding: Sharding) -> None:
        visualize_sharding(arr.shape, sharding, use_color=use_color, max_width=max_width, dims=dims)

    if isinstance(arr, Value):
        _inspect_when_compiled(arr, draw)
    else:
        draw(_sharding_of(arr, "visualize_array_sharding"))


def _sharding_of(array: Any, operation: str) -> Sharding:
    sharding = getattr(array, "sharding", None)
    if not isinstance(sharding, Sharding):
        msg = (
            f"{operation} takes an array on devices, not a {type(array).__name__}. "
            "Put it there with devrt.device_put first."
        )
        raise InvalidTypeError(msg)
    return sharding


def _inspect_when_compiled(value: Value, callback: Callable[[Sharding], Any]) -> None:
    graph = value.graph
    if graph is not graph.root:
        msg = (
            f"how a value of a loop, a branch, a gradient or a devrt.shard_map lies cannot be "
            f"seen{at_user_line()}. Inspect what goes into it, or its result."
        )
        raise UnimplementedError(msg, operation="inspect_array_sharding")
    graph.inspected.append((value, callback))
