"""Drawings of arrays' shardings, and shardings for who wants to know them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt import tree_util
from devrt.errors import InvalidTypeError, UnimplementedError
from devrt.sharding import GSPMDSharding, NamedSharding, Sharding, visualize_sharding
from devrt.tracing import Value, as_value, at_user_line, current_graph, inspect

__all__ = ["inspect_array_sharding", "visualize_array_sharding"]


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Call a function with how an array lies.

    Parameters
    ----------
    value
        A tree of arrays. In a traced function the compiler decides how they lie, so that the
        function is called when the program is compiled, once for each program. A value of a loop's
        body, or of a branch, is known by one sharding too.
    callback
        What is called with the `Sharding` of each.

    Raises
    ------
    InvalidTypeError
        If an array has no sharding.
    UnimplementedError
        If a value is one device's part, in a `devrt.shard_map` or `devrt.pmap`.
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

    def draw(sharding: Sharding, shape: tuple[int, ...]) -> None:
        visualize_sharding(shape, sharding, use_color=use_color, max_width=max_width, dims=dims)

    if isinstance(arr, Value):
        shape = arr.aval.shape
        _inspect_when_compiled(arr, lambda sharding: draw(sharding, _held(shape, sharding)))
    else:
        draw(_sharding_of(arr, "visualize_array_sharding"), arr.shape)


def _held(shape: tuple[int, ...], sharding: Sharding) -> tuple[int, ...]:
    """Return the shape that a compiler holds a value in: it pads what does not divide."""
    if not isinstance(sharding, NamedSharding | GSPMDSharding):
        return shape
    counts = sharding.op_sharding(len(shape)).partitions or (1,) * len(shape)
    return tuple(-(-n // count) * count for n, count in zip(shape, counts, strict=True))


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
    value = as_value(value)
    axes = current_graph().manual_axes
    if axes:
        msg = (
            f"a value in the body of a shard_map or pmap is one device's part along {axes}, and no "
            f"sharding says how the parts make up a whole{at_user_line()}. Inspect what goes into "
            "it, or its result; devrt.debug.print shows each device's part."
        )
        raise UnimplementedError(msg, operation="inspect_array_sharding", axes=axes)
    inspect(value, callback)
