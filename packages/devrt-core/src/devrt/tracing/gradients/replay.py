"""The operations of a graph once more, in the current one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.trace import as_value, current_graph, emit

__all__ = ["alias", "replay"]


def alias(value: Value) -> Any:
    """Return a value of its own that is equal to another one.

    What a function is differentiated by must be distinct from the same value in a closure.
    """
    graph = Graph(current_graph(), "alias")
    inner = type(value)(value.aval, graph, value.varying)
    graph.parameters, graph.results = [inner], [inner]
    return emit("devrt.alias", (value,), (value.aval,), None, (graph,))[0]


def replay(
    graph: Graph,
    operands: Sequence[Any],
    captures: Mapping[Value, Any] | None = None,
    there: Mapping[Value, Any] | None = None,
    *,
    with_effects: bool = False,
) -> tuple[list[Any], list[Op]]:
    """Add a graph's operations to the current graph, with operands in place of its parameters.

    Parameters
    ----------
    graph, operands
        The graph, and what stands for its parameters.
    captures
        What stands for values that the graph captures, where they do not themselves.
    there
        What has been computed already of the operations' results.
    with_effects
        Whether prints and the like are to be done here: not where the operations are only computed
        once more.

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
    given = (graph if with_effects else _silent(graph)).ops
    if there:
        ops = _copied_with(there, given, known)
    else:
        _copy_ops(given, known)
        ops = current_graph().ops[start:]
    return [known[value] for value in graph.results], ops


def _copied_with(
    there: Mapping[Value, Any], ops: Iterable[Op], known: dict[Value, Any]
) -> list[Op]:
    """Add operations as `_copy_ops` does; return them with the results that are there already.

    What computes those once more is not used, and so not printed.
    """
    added: list[Op] = []
    for op in ops:
        start = len(current_graph().ops)
        _copy_ops((op,), known)
        new = current_graph().ops[start:]
        if any(value in there for value in op.results):
            results = [there[value] for value in op.results]
            known.update(zip(op.results, results, strict=True))
            new = [Op(o.name, o.operands, o.attributes, results, o.regions, o.frame) for o in new]
        added += new
    return added


def _copy_ops(ops: Iterable[Op], known: dict[Value, Any]) -> None:
    """Add operations to the current graph; ``known`` has, and gets, what stands for each value."""
    for op in ops:
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
    copy = _copy(graph)
    copy.parent = current_graph()
    for outer, inner in graph.captures.items():
        value = known.get(outer)
        if value is not None:  # only an operation that was left out takes what is not known
            copy.captures[alias(value) if value in copy.captures else value] = inner
    return copy


def _silent(graph: Graph) -> Graph:
    """Return a graph without the operations that are there for their effect."""
    if not any(op.has_effect() for op in graph.ops):
        return graph
    copy = _copy(graph)
    copy.parent, copy.captures = graph.parent, graph.captures
    copy.ops = [
        _silenced(op) if op.has_effect() else op
        for op in graph.ops
        if op.attributes.get("has_side_effect") is not True
    ]
    return copy


def _silenced(op: Op) -> Op:
    attributes = dict(op.attributes)
    if "body" in attributes:  # of a scan: its gradient is made of it
        attributes["body"] = _silent(attributes["body"])
    regions = tuple(map(_silent, op.regions))
    return Op(op.name, op.operands, attributes, op.results, regions, op.frame)


def _copy(graph: Graph) -> Graph:
    """Return a graph of the same values and operations, without captures."""
    copy = Graph(name=graph.name)
    copy.parameters, copy.results, copy.ops = graph.parameters, graph.results, graph.ops
    copy.constants = graph.constants
    copy.mesh, copy.manual_axes, copy.scope = graph.mesh, graph.manual_axes, graph.scope
    copy.unchecked = graph.unchecked
    return copy
