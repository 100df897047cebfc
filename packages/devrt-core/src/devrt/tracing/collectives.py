"""Operations between the devices of a manual computation."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import Any

from devrt.errors import InvalidArgumentError, UnboundAxisError
from devrt.tracing.attributes import Literal
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.elementwise import binary
from devrt.tracing.frames import at_user_line
from devrt.tracing.ir import Graph, Scope
from devrt.tracing.promotion import named
from devrt.tracing.reductions import scalar_region
from devrt.tracing.sdy import ReplicaGroups, SourceTargetPairs, mesh_sizes
from devrt.tracing.shapes import expand_dims, index_in_dim, reshape
from devrt.tracing.trace import as_value, composite, constant, current_graph, emit_one, is_tracing
from devrt.tracing.tracer import Tracer

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "axis_count",
    "axis_index",
    "bound_axes",
    "broadcast_from",
    "permute",
    "pvary",
    "reduce_scatter",
    "unvary",
]

Groups = tuple[tuple[int, ...], ...] | None

# One number for all channels: XLA tells the collectives of one program apart by themselves.
_CHANNEL = Literal("#stablehlo.channel_handle<handle = 1, type = 1>")
_UNIT = Literal("unit")


def bound_axes(axis_name: Any, operation: str) -> tuple[str, ...]:
    """Return the mesh axes of one name, or of several.

    Raises
    ------
    UnboundAxisError
        If no enclosing computation binds one of them.
    InvalidArgumentError
        If one is named twice.
    """
    names = tuple(axis_name) if isinstance(axis_name, tuple | list | set) else (axis_name,)
    graph = current_graph() if is_tracing() else None
    axes = tuple(_bound(name, graph, operation) for name in names)
    if len(set(axes)) < len(axes):
        msg = (
            f"{operation}: the axes {names} name one axis twice{at_user_line()}; the axes here are "
            f"{', '.join(map(repr, current_graph().manual_axes))}."
        )
        raise InvalidArgumentError(msg, axes=names)
    return axes


def _bound(name: Any, graph: Graph | None, operation: str) -> str:
    if graph is not None:
        if name in graph.manual_axes:
            return str(name)
        lent = _lent(graph.scope, name)
        if lent is not None:
            return lent
    raise _unbound(name, graph, operation)


def _lent(scope: Scope | None, name: Any) -> str | None:
    """Return the axis that lends itself to a name; one takes one name."""
    while scope is not None:
        if scope.lent is not None and (not scope.lent or name in scope.lent):
            return scope.lent.setdefault(name, scope.axes[0])
        scope = scope.outer
    return None


def _unbound(name: Any, graph: Graph | None, operation: str) -> UnboundAxisError:
    axes = graph.manual_axes if graph is not None else ()
    lent = graph.scope.lent if graph is not None and graph.scope is not None else None
    if lent:
        has = f"the axis of this pmap is {next(iter(lent))!r} already; name it with axis_name"
    elif axes:
        near = difflib.get_close_matches(str(name), axes, n=1)
        hint = f". Did you mean {near[0]!r}?" if near else ""
        has = f"the axes here are {', '.join(map(repr, axes))}{hint}"
    else:
        has = "there are none here: call it in the function of a devrt.shard_map or devrt.pmap"
    msg = f"{operation}: no enclosing computation binds axis {name!r}{at_user_line()}; {has}"
    return UnboundAxisError(msg if msg.endswith("?") else f"{msg}.", axis=name, axis_names=axes)


def axis_count(axes: Sequence[str]) -> int:
    """Return the number of positions along axes that are bound."""
    sizes = mesh_sizes(current_graph().mesh)
    return math.prod(sizes[axis] for axis in axes)


def axis_index(axes: Sequence[str]) -> Any:
    """Return the device's position along axes that are bound, the last one fastest."""
    sizes = mesh_sizes(current_graph().mesh)
    index: Any = constant(0, named("int32"))
    for axis in axes:
        scaled = binary("multiply", index, sizes[axis])
        index = binary("add", scaled, reshape(_position(axis), ()))
    return index


def _position(axis: str) -> Any:
    """Return the parameter that holds the position along an axis, of shape (1,).

    Each device's part of the axis's positions: known without the number of the device, which the
    compiler does not tell where only some axes are manual.
    """
    scope = current_graph().scope
    while scope is not None and axis not in scope.axes:
        scope = scope.outer
    assert scope is not None
    if axis not in scope.indices:
        aval = shaped((1,), named("int32"))
        varying = scope.graph.unchecked.union((axis,))
        scope.indices[axis] = Tracer(aval, scope.graph, varying)
    return as_value(scope.indices[axis])


def pvary(x: Any, axes: Sequence[str]) -> Any:
    """Return a value that counts as varying along axes."""
    return _same("pvary", as_value(x), axes)


def unvary(x: Any, axes: Sequence[str]) -> Any:
    """Return a value, which is equal on all devices along axes, as one that is known to be."""
    return _same("unvary", as_value(x), axes)


def _same(name: str, x: Any, axes: Sequence[str]) -> Any:
    return composite(name, lambda value: (value,), (x,), {"axes": tuple(axes)})[0]


def _groups(axes: Sequence[str], groups: Groups) -> dict[str, Any]:
    mesh = current_graph().mesh
    return {"replica_groups": ReplicaGroups(mesh, tuple(axes), groups), "channel_handle": _CHANNEL}


def _resized(x: Any, dimension: int, size: int) -> ShapedArray:
    """Return a value's type with a dimension of another size."""
    shape = (*x.aval.shape[:dimension], size, *x.aval.shape[dimension + 1 :])
    return shaped(shape, x.aval.dtype, x.aval.weak_type)


def _count(axes: Sequence[str], groups: Groups) -> int:
    return len(groups[0]) if groups is not None else axis_count(axes)


def all_reduce(name: str, x: Any, axes: Sequence[str], groups: Groups = None) -> Any:
    """Return a value reduced by ``stablehlo.NAME`` over the devices along axes."""
    x = as_value(x)
    if axis_count(axes) == 1:
        return unvary(x, axes)
    attributes = {**_groups(axes, groups), "use_global_device_ids": _UNIT}
    region = scalar_region(name, x.aval.dtype)
    return emit_one("stablehlo.all_reduce", (x,), x.aval, attributes, (region,))


def all_gather(x: Any, axes: Sequence[str], dimension: int, groups: Groups = None) -> Any:
    """Return the parts of all devices along axes, one after the other along a dimension."""
    x = as_value(x)
    if axis_count(axes) == 1:
        return pvary(x, axes)
    result = _resized(x, dimension, x.aval.shape[dimension] * _count(axes, groups))
    attributes = {
        "all_gather_dim": dimension,
        **_groups(axes, groups),
        "use_global_device_ids": _UNIT,
    }
    return emit_one("stablehlo.all_gather", (x,), result, attributes)


def reduce_scatter(
    name: str, x: Any, axes: Sequence[str], dimension: int, groups: Groups = None
) -> Any:
    """Return a device's part, along a dimension, of a value reduced over the devices along axes."""
    x = as_value(x)
    if axis_count(axes) == 1:
        return pvary(x, axes)
    result = _resized(x, dimension, x.aval.shape[dimension] // _count(axes, groups))
    attributes = {
        "scatter_dimension": dimension,
        **_groups(axes, groups),
        "use_global_device_ids": _UNIT,
    }
    region = scalar_region(name, x.aval.dtype)
    return emit_one("stablehlo.reduce_scatter", (x,), result, attributes, (region,))


def all_to_all(x: Any, axes: Sequence[str], split: int, concat: int, groups: Groups = None) -> Any:
    """Send each device a part along dimension ``split``; join those received along ``concat``."""
    x = as_value(x)
    if axis_count(axes) == 1:
        return pvary(x, axes)
    count, shape = _count(axes, groups), list(x.aval.shape)
    shape[split] //= count
    shape[concat] *= count
    attributes = {
        "split_dimension": split,
        "concat_dimension": concat,
        "split_count": count,
        **_groups(axes, groups),
    }
    result = shaped(tuple(shape), x.aval.dtype, x.aval.weak_type)
    return emit_one("stablehlo.all_to_all", (x,), result, attributes)


def permute(x: Any, axes: Sequence[str], pairs: Sequence[tuple[int, int]]) -> Any:
    """Return what another device holds of a value; zeros where none sends.

    ``pairs`` has positions along the axes, of the device that sends and the one that receives.
    """
    x = as_value(x)
    mesh = current_graph().mesh
    if axis_count(axes) == 1:
        return pvary(x if pairs else constant(0, x.aval.dtype, x.aval.shape), axes)
    attributes = {
        "source_target_pairs": SourceTargetPairs(mesh, tuple(axes), tuple(pairs)),
        "channel_handle": _CHANNEL,
    }
    return emit_one("stablehlo.collective_permute", (x,), x.aval, attributes)


def broadcast_from(x: Any, axes: Sequence[str], source: int) -> Any:
    """Return what the device at a position along axes holds of a value."""
    x = as_value(x)
    rows = all_gather(expand_dims(x, 0), axes, 0)
    return unvary(index_in_dim(rows, source), axes)
