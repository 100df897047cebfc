"""Partition specs for trees of values: as prefixes of the trees, and checked against shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from devrt._pytree import array_trees
from devrt._pytree.functions import broadcast_prefix
from devrt._pytree.mismatch import prefix_differences
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.arguments import name_at, parameters_of
from devrt.sharding import PartitionSpec
from devrt.tracing import at_user_line, axes_in, mesh_sizes

__all__ = ["check_axes", "check_shape", "named_leaves", "spread"]


def _is_none(tree: Any) -> bool:
    return tree is None


def spread(
    specs: Any, tree: Any, name: str, what: str, is_leaf: Callable[[Any], bool] = _is_none
) -> list[Any]:
    """Return a spec for each leaf of a tree; ``specs`` is a beginning of it, or one for all.

    Parameters
    ----------
    specs, tree
        As above.
    name, what
        What errors call the specs and the tree: ``"shard_map in_specs"``, ``"arguments of f"``.
    is_leaf
        What of the specs is no tree.

    Raises
    ------
    InvalidArgumentError
        If ``specs`` is no beginning of the tree.
    """
    first = next(prefix_differences(specs, tree, is_leaf), None)
    if first is not None:
        path, _, facts = first
        msg = (
            f"{name}{array_trees.keystr(path)} does not fit the {what}{at_user_line()}: "
            f"{facts[0]} against {facts[1]}{''.join(facts[2:])}. Give one for all, or a "
            "tuple with one for each argument or result, each of which may be a tree like it."
        )
        raise InvalidArgumentError(msg, path=path)
    return broadcast_prefix(specs, tree, is_leaf=is_leaf)


def named_leaves(function: Callable[..., Any], args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return the leaves of positional arguments with what errors call them: ``params['w']``."""
    parameters = parameters_of(function)
    return [
        (name_at(parameters, path[0].idx) + array_trees.keystr(path[1:]), leaf)
        for path, leaf in array_trees.tree_flatten_with_path(args)[0]
    ]


def check_axes(spec: Any, mesh: Any, axes: Sequence[str], what: str) -> None:
    """Raise unless a spec names axes of a mesh, each once, and of those only some.

    Raises
    ------
    InvalidTypeError
        If it is no `PartitionSpec`.
    InvalidArgumentError
        If it names another axis, or one twice, or leaves a dimension to the compiler.
    """
    if not isinstance(spec, PartitionSpec):
        msg = (
            f"{what} is {spec!r} of type {type(spec).__name__}, which is no "
            f"PartitionSpec{at_user_line()}. Write devrt.P('axis', None), and devrt.P() for a "
            "value that all devices take whole."
        )
        raise InvalidTypeError(msg, spec=spec)
    try:
        mesh.layout(spec)
    except InvalidArgumentError as error:
        msg = f"{what}{at_user_line()}: {error.message}"
        raise InvalidArgumentError(msg, spec=spec, axis_names=mesh.axis_names) from None
    if PartitionSpec.UNCONSTRAINED in spec:
        msg = (
            f"{what} is {spec}{at_user_line()}: no dimension of it can be left to the compiler. "
            "Write None where it is not divided."
        )
        raise InvalidArgumentError(msg, spec=spec)
    others = [axis for axis in axes_in(spec) if axis not in axes]
    if others:
        msg = (
            f"{what} is {spec}, which names {', '.join(map(repr, others))}{at_user_line()}; the "
            f"axes here are {', '.join(map(repr, axes))}. Name those only, or bind the other ones "
            "with axis_names."
        )
        raise InvalidArgumentError(msg, spec=spec, axis_names=tuple(axes))


def check_shape(aval: Any, spec: PartitionSpec, mesh: Any, what: str) -> None:
    """Raise `InvalidArgumentError` unless a spec divides a value; ``what`` names it."""
    shape, sizes = aval.shape, mesh_sizes(mesh)
    if len(spec) > len(shape):
        msg = (
            f"{what} is {aval}, of {len(shape)} dimensions, and its spec {spec} has "
            f"{len(spec)} entries{at_user_line()}. Give at most one entry per dimension."
        )
        raise InvalidArgumentError(msg, shape=shape, spec=spec)
    for i, entry in enumerate(spec):
        axes = axes_in((entry,))
        count = math.prod(sizes[axis] for axis in axes)
        if shape[i] % count:
            over = " and ".join(f"{axis!r} (size {sizes[axis]})" for axis in axes)
            msg = (
                f"{what} is {aval}: its dimension {i} has size {shape[i]}, which does not divide "
                f"into {count} equal parts over {over}, as {spec} says{at_user_line()}. Pad it to "
                f"{-(-shape[i] // count) * count}, or divide another dimension."
            )
            raise InvalidArgumentError(msg, dimension=i, size=shape[i], axes=axes, count=count)
