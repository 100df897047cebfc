"""Manual computations: bodies that see one device's part of each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt.sharding import PartitionSpec
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.ir import Graph, Scope
from devrt.tracing.promotion import named
from devrt.tracing.sdy import ManualAxes, PerValue, TensorSharding, mesh_sizes
from devrt.tracing.shapes import iota
from devrt.tracing.trace import as_value, current_graph, emit, emit_one, new_graph
from devrt.tracing.tracer import Tracer

__all__ = ["axes_in", "manual_computation", "sharding_constraint"]


def axes_in(spec: Any) -> tuple[str, ...]:
    """Return the axes that a spec names."""
    entries = [(e,) if isinstance(e, str) else e for e in spec]
    return tuple(axis for entry in entries if isinstance(entry, tuple) for axis in entry)


def manual_computation(
    mesh: Any,
    axes: Sequence[str],
    operands: Sequence[Any],
    in_specs: Sequence[PartitionSpec],
    function: Callable[..., tuple[Sequence[Any], Sequence[PartitionSpec]]],
    *,
    is_checked: bool = True,
    is_lent: bool = False,
) -> list[Any]:
    """Trace a function of shards, and return its results as whole values.

    Parameters
    ----------
    mesh
        The mesh whose axes the function binds.
    axes
        Those that it binds; specs name no others.
    operands, in_specs
        Whole values, and how each is divided; sizes divide.
    function
        Takes a shard of each, and returns shards and how they make up whole values.
    is_checked
        Whether it is known which values are the same on all devices. Otherwise all of them count as
        different, and the gradient within the function of what is the same is each device's own.
    is_lent
        Whether the axis lends itself to one other name.
    """
    outer = current_graph()
    values = [as_value(x) for x in operands]
    bound = tuple(axis for axis in mesh.axis_names if axis in axes)
    with new_graph() as body:
        body.mesh, body.manual_axes = mesh, (*outer.manual_axes, *bound)
        body.scope = Scope(body, bound, is_lent=is_lent)
        if not is_checked:
            body.unchecked = body.unchecked.union(bound)
        body.parameters = [
            Tracer(
                _part(value.aval, spec, mesh),
                body,
                value.varying.union(axes_in(spec), body.unchecked),
            )
            for value, spec in zip(values, in_specs, strict=True)
        ]
        results, out_specs = function(*body.parameters)
        body.results = [as_value(x) for x in results]
    taken = _close(body, mesh)
    values += [value for value, _ in taken]
    is_open = len(body.manual_axes) < len(mesh.axis_names)
    outer.root.meshes[mesh] = None

    def divided(given: Sequence[Any], specs: Sequence[PartitionSpec]) -> PerValue:
        pairs = zip(given, specs, strict=True)
        return PerValue(tuple(TensorSharding(mesh, s, v.aval.ndim, is_open) for v, s in pairs))

    attributes = {
        "in_shardings": divided(values, [*in_specs, *(spec for _, spec in taken)]),
        "out_shardings": divided(body.results, out_specs),
        "manual_axes": ManualAxes(bound),
    }
    pairs = zip(body.results, out_specs, strict=True)
    avals = [_whole(value.aval, spec, mesh) for value, spec in pairs]
    return emit("sdy.manual_computation", values, avals, attributes, (body,))


def _close(body: Graph, mesh: Any) -> list[tuple[Any, PartitionSpec]]:
    """Make parameters of what a body takes from outside; return the operands and their specs.

    The region of a manual computation may not name values around it.
    """
    taken = [(value, PartitionSpec()) for value in body.captures]
    body.parameters += body.captures.values()
    body.captures = {}
    scope = body.scope
    assert scope is not None
    for axis, parameter in scope.indices.items():
        positions = iota((mesh_sizes(mesh)[axis],), 0, named("int32"))
        taken.append((positions, PartitionSpec(axis)))
        body.parameters.append(parameter)
    return taken


def sharding_constraint(x: Any, mesh: Any, spec: PartitionSpec) -> Any:
    """Return a value that is divided over a mesh by a spec, which fits it."""
    x = as_value(x)
    current_graph().root.meshes[mesh] = None
    attributes = {"sharding": TensorSharding(mesh, spec, x.aval.ndim)}
    return emit_one("sdy.sharding_constraint", (x,), x.aval, attributes)


def _counts(spec: PartitionSpec, ndim: int, mesh: Any) -> list[int]:
    sizes = mesh_sizes(mesh)
    counts = [1] * ndim
    for i, entry in enumerate(spec):
        for axis in axes_in((entry,)):
            counts[i] *= sizes[axis]
    return counts


def _part(aval: ShapedArray, spec: PartitionSpec, mesh: Any) -> ShapedArray:
    sizes = zip(aval.shape, _counts(spec, aval.ndim, mesh), strict=True)
    return shaped(tuple(n // count for n, count in sizes), aval.dtype, aval.weak_type)


def _whole(aval: ShapedArray, spec: PartitionSpec, mesh: Any) -> ShapedArray:
    sizes = zip(aval.shape, _counts(spec, aval.ndim, mesh), strict=True)
    return shaped(tuple(n * count for n, count in sizes), aval.dtype, aval.weak_type)
