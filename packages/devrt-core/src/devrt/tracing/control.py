"""Branches and loops over graphs that were traced before.

A region names values of the graphs around it, so that closures cost nothing; `scan` alone takes
them as operands, which its gradient needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.elementwise import binary, compare
from devrt.tracing.gathering import dynamic_slice, dynamic_update_slice
from devrt.tracing.ir import Graph, Value
from devrt.tracing.promotion import named
from devrt.tracing.shapes import broadcast_in_dim, reshape
from devrt.tracing.trace import (
    as_value,
    composite,
    constant,
    current_graph,
    emit,
    trace_flat,
    trace_graph,
)

__all__ = ["case", "closed", "inline", "scan", "trace_body", "while_loop"]

Axes = frozenset[str]


def case(index: Any, branches: Sequence[Graph]) -> list[Any]:
    """Return the results of the branch that an index, an int32 scalar, selects.

    Branches take no parameters and give results of the same shapes and dtypes. An index out of
    bounds selects the last one.
    """
    index = as_value(index)
    columns = list(zip(*(branch.results for branch in branches), strict=True))
    avals = [
        shaped(
            column[0].aval.shape,
            column[0].aval.dtype,
            all(value.aval.weak_type for value in column),
        )
        for column in columns
    ]
    made = emit("stablehlo.case", (index,), avals, None, tuple(branches))
    for value, column in zip(made, columns, strict=True):
        value.varying = index.varying.union(*(each.varying for each in column))
    return made


def while_loop(condition: Graph, body: Graph, carries: Sequence[Any]) -> list[Any]:
    """Return carries after a loop: ``body`` is run on them while ``condition`` of them is true.

    ``body`` gives what it takes, in shape and dtype.
    """
    avals = [value.aval for value in body.results]
    made = emit("stablehlo.while", carries, avals, None, (condition, body))
    steps = condition.results[0].varying
    for value, result in zip(made, body.results, strict=True):
        value.varying = result.varying | steps
    return made


def trace_body(
    function: Callable[..., Sequence[Any]],
    carries: Sequence[Value],
    others: Sequence[ShapedArray] = (),
    varying: Sequence[Axes] = (),
    *,
    name: str,
) -> Graph:
    """Return the graph of a loop's body: from carries and other values to carries and results.

    In a manual computation a carry varies along what it becomes in the body too: the body is traced
    again until that is settled.

    Parameters
    ----------
    function
        Takes carries and others, flat; gives as many carries, then any other results.
    carries
        Where they begin.
    others, varying
        What else it takes: shapes and dtypes, and the axes along which they vary.
    name
        The graph's.
    """
    avals = [*(value.aval for value in carries), *others]
    sets = [value.varying for value in carries]

    def called(*parameters: Any) -> None:
        current_graph().results = [as_value(each) for each in function(*parameters)]

    while True:
        graph = trace_graph(called, avals, name, varying=[*sets, *varying])[0]
        given = [value.varying for value in graph.results]
        wider = [old | new for old, new in zip(sets, given, strict=False)]
        if wider == sets[: len(wider)]:
            return graph
        sets[: len(wider)] = wider


def closed(graph: Graph) -> list[Value]:
    """Turn what a graph captures into its first parameters, and return the values captured."""
    outer = list(graph.captures)
    graph.parameters[:0] = graph.captures.values()
    graph.captures.clear()
    return outer


def inline(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """Return the results of a closed graph for operands, in place of its parameters."""
    return emit("devrt.call", operands, [value.aval for value in graph.results], None, (graph,))


def scan(
    body: Graph, carries: Sequence[Any], xs: Sequence[Any], length: int, *, reverse: bool = False
) -> list[Any]:
    """Return carries after a loop over the first dimension, and what each step gave, stacked.

    It is one operation, ``devrt.scan``. Its operands are constants (what ``body`` captured), then
    carries, then ``xs``. Its attributes:

    ``body``
        The graph of one step. Its parameters are the constants, the carries, and an element of each
        of ``xs``; its results the carries and what is stacked. It captures nothing.
    ``consts``, ``carries``
        How many there are of either.
    ``length``, ``reverse``
        The number of steps, and whether the last element comes first.

    Its region is the loop that is printed: a while loop that counts steps and calls ``body``.

    Parameters
    ----------
    body
        The graph of one step, from `trace_body`; what it captures becomes operands.
    carries, xs
        Where carries begin, and what is taken element by element.
    length, reverse
        As above.
    """
    consts = closed(body)
    attributes = {
        "body": body,
        "consts": len(consts),
        "carries": len(carries),
        "length": length,
        "reverse": reverse,
    }

    def expanded(*operands: Any) -> list[Any]:
        return _expanded(body, operands, len(consts), len(carries), length, reverse)

    operands = [*consts, *carries, *xs]
    made = composite("scan", expanded, operands, attributes)
    for value, inner in zip(made, body.results, strict=True):
        value.varying = inner.varying
        weak = inner.aval.weak_type
        value.aval = shaped(value.aval.shape, value.aval.dtype, weak)
    return made


def _expanded(
    body: Graph, operands: Sequence[Any], consts: int, carries: int, length: int, reverse: bool
) -> list[Any]:
    fixed, first, xs = (
        operands[:consts],
        list(operands[consts : consts + carries]),
        operands[consts + carries :],
    )
    stacks = [
        broadcast_in_dim(constant(0, aval.dtype), (length, *aval.shape), ())
        for aval in (value.aval for value in body.results[carries:])
    ]
    if length == 0:
        return [*first, *stacks]
    counter = constant(0, named("int32"))
    begin = [counter, *first, *stacks]
    avals = [value.aval for value in begin]

    def step(i: Any, *state: Any) -> list[Any]:
        at = binary("subtract", constant(length - 1, i.aval.dtype), i) if reverse else i
        results = inline(body, [*fixed, *state[:carries], *(_element(x, at) for x in xs)])
        kept = [
            _with_element(stack, at, value)
            for stack, value in zip(state[carries:], results[carries:], strict=True)
        ]
        return [binary("add", i, constant(1, i.aval.dtype)), *results[:carries], *kept]

    limit = constant(length, named("int32"))
    condition = trace_flat(lambda i, *_: (compare("LT", i, limit),), avals, "condition")
    return while_loop(condition, trace_flat(step, avals, "body"), begin)[1:]


def _element(x: Any, at: Any) -> Any:
    x = as_value(x)
    rest = x.aval.shape[1:]
    return reshape(dynamic_slice(x, _starts(at, len(rest)), (1, *rest)), rest)


def _with_element(stack: Any, at: Any, value: Any) -> Any:
    shape = value.aval.shape
    return dynamic_update_slice(stack, reshape(value, (1, *shape)), _starts(at, len(shape)))


def _starts(at: Any, rest: int) -> list[Any]:
    return [at, *[constant(0, at.aval.dtype)] * rest]
