"""The operations of a graph once more, in the current one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.trace import as_value, current_graph, emit

__all__ = ["alias", "copy_ops", "replay"]


def alias(value: Value) -> Any:
    """Return a value of its own that is equal to another one.

    What a function is differentiated by must be distinct from the same value in a closure.
    """
    graph = Graph(current_graph(), "alias")
    inner = type(value)(value.aval, graph, value.varying)
    graph.parameters, graph.results = [inner], [inner]
    return emit("devrt.alias", (value,), (value.aval,), None, (graph,))[0]


def replay(
    graph: Graph, operands: Sequence[Any], captures: Mapping[Value, Any] | None = None
) -> tuple[list[Any], list[Op]]:
    """Add a graph's operations to the current graph, with operands in place of its parameters.

    ``captures`` has what stands for values that the graph captures, where they do not themselves.

    Returns
    -------
    results, ops
        What stands for the graph's results, and the operations that were added.
    """
    known: dict[Value, Any] = dict(zip(graph.parameters, map(as_value, operands), strict=True))
    others = captures or {}
    for outer, inner in graph.captures.items():
        known[inner] = as_value(others.get(outer, outer))
    start = len(current_graph().ops)
    copy_ops(graph.ops, known)
    return [known[value] for value in graph.results], current_graph().ops[start:]


def copy_ops(ops: Iterable[Op], known: dict[Value, Any]) -> None:
    """Add operations to the current graph; ``known`` has, and gets, what stands for each value.

    What is done for its effect alone is left out: it has been done.
    """
    for op in ops:
        if not op.results:
            continue
        operands = [known[value] for value in op.operands]
        regions = tuple(_region(region, known) for region in op.regions)
        avals = [value.aval for value in op.results]
        made = emit(op.name, operands, avals, op.attributes, regions)
        current_graph().ops[-1].frame = op.frame
        known.update(zip(op.results, made, strict=True))


def _region(graph: Graph, known: dict[Value, Any]) -> Graph:
    """Return a graph with the same operations that captures what stands for its captures."""
    if not graph.captures:
        return graph
    copy = Graph(current_graph(), graph.name)
    copy.parameters, copy.results, copy.ops = graph.parameters, graph.results, graph.ops
    copy.constants = graph.constants
    copy.mesh, copy.manual_axes, copy.scope = graph.mesh, graph.manual_axes, graph.scope
    for outer, inner in graph.captures.items():
        value = known[outer]
        copy.captures[alias(value) if value in copy.captures else value] = inner
    return copy
