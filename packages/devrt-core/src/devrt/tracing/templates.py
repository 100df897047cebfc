"""What a function adds to a graph, kept to be added again.

What functions like those of `devrt.numpy` add follows from the types of the values that they are
called with and from their other arguments. A template has it: a second call like one before
promotes, infers and checks nothing. In a manual computation it follows from more, and every call is
traced there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from devrt._support import caches
from devrt.tracing import trace
from devrt.tracing.aval import ShapedArray
from devrt.tracing.forms import form_of
from devrt.tracing.frames import user_frame
from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.tracer import Tracer

__all__ = ["call"]

MOST_TEMPLATES = 4096
"""How many are kept; with more, all are forgotten."""


class _Step(NamedTuple):
    """An operation of a template, or a constant that it uses.

    Values are numbered: those of the call, then the results of each step.
    """

    name: str
    operands: tuple[int, ...]
    attributes: Mapping[str, Any]
    results: tuple[ShapedArray, ...]
    regions: tuple[Graph, ...]
    constant: Any  # its key in `Graph.constants`; None for other operations
    form: tuple[str, str]


class _Template(NamedTuple):
    steps: tuple[_Step, ...]
    results: tuple[int, ...]
    kind: type | None  # tuple or list; None for one result as it is


_PLAIN = {bool, int, str, type, type(None)}
"""Types of arguments that are looked up by their values."""

_CALLS = 4
"""How many calls lead from that of an operation to that of `_added`."""

_templates: dict[Any, _Template | None] = {}
caches.register(_templates.clear)


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of devrt's in a trace, or add what it added in a call like this one.

    ``function`` has no effects but the operations that it adds, and depends on nothing but its
    arguments and, in a manual computation, on that.
    """
    graph = trace.current_graph()
    values: list[Any] = []
    key = _key(function, args, kwargs, graph, values) if graph.scope is None else None
    if key is None:
        return function(*args, **kwargs)
    try:
        template = _templates[key]
    except KeyError:
        return _recorded(key, values, function, args, kwargs)
    if template is None or len(graph.ops) + len(template.steps) > trace.MOST_OPS:
        return function(*args, **kwargs)
    return _added(template, graph, values)


def _key(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], graph: Graph, values: list[Any]
) -> tuple[Any, ...] | None:
    """Return what a template is for, and add the call's values; None if it has something else."""
    key = [function]
    for x in (*args, *kwargs.values()) if kwargs else args:
        kind = type(x)
        if kind is Tracer:
            if x.graph is not graph:
                return None
            values.append(x)
            key.append(x.aval)
        elif kind is float:
            if math.isnan(x):
                return None
            key.append(x.hex())  # where 0.0 and -0.0 differ
            key.append(float)
        elif kind in _PLAIN or isinstance(x, np.dtype):
            key.append(x)
            key.append(kind)  # as 1 is equal to True
        elif kind is tuple and all([type(each) is int for each in x]):
            key.append(x)
        else:
            return None
    if kwargs:
        key.append(tuple(kwargs))
    if _is_one_twice(values):
        key.append("one")
    return tuple(key)


def _is_one_twice(values: list[Any]) -> bool:
    return len(values) == 2 and values[0] is values[1]


def _recorded(
    key: Any, values: list[Any], function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function and keep what it adds."""
    graph = trace.current_graph()
    ops, uses = len(graph.ops), len(graph.uses)
    made = function(*args, **kwargs)
    found = [(at, use, graph.constants[use]) for at, use in graph.uses[uses:]]
    found += [(at, None, op) for at, op in enumerate(graph.ops[ops:], ops)]
    found.sort(key=lambda each: each[0])  # a constant before the operation at that position
    if len(_templates) >= MOST_TEMPLATES:
        _templates.clear()
    _templates[key] = _template(values, found, made)
    return made


def _template(values: list[Any], found: list[tuple[int, Any, Op]], made: Any) -> _Template | None:
    """Return what was found added as a template; None if it is more than plain operations."""
    numbers: dict[Value, int] = {value: i for i, value in enumerate(values)}
    if len(numbers) < len(values) and not _is_one_twice(values):
        return None  # of those that are equal here the next call has others
    steps, count = [], len(values)
    for _, constant, op in found:
        if op.results and op.results[0] in numbers:
            if constant is not None and numbers[op.results[0]] < len(values):
                return None  # it is an argument by chance
            continue
        operands = tuple([numbers.get(value, -1) for value in op.operands])
        if -1 in operands or not _is_plain(op):
            return None
        results = tuple([value.aval for value in op.results])
        op.form = form_of(op)
        steps.append(
            _Step(op.name, operands, op.attributes, results, op.regions, constant, op.form)
        )
        numbers.update(zip(op.results, range(count, count + len(results)), strict=True))
        count += len(results)
    kind = type(made) if type(made) in (tuple, list) else None
    returned = [made] if kind is None else made
    if not all([isinstance(each, Value) and each in numbers for each in returned]):
        return None
    return _Template(tuple(steps), tuple([numbers[each] for each in returned]), kind)


def _is_plain(op: Op) -> bool:
    """Return whether an operation is all that adding it does, and may be added to any graph."""
    is_shared = all([region.parent is None for region in op.regions])
    return is_shared and op.name.startswith(("stablehlo.", "chlo."))


def _added(template: _Template, graph: Graph, values: list[Any]) -> Any:
    """Add a template's operations to a graph; return what the function returned."""
    frame = user_frame(calls=_CALLS)
    ops, constants = graph.ops, graph.constants
    for name, operands, attributes, results, regions, constant, form in template.steps:
        if constant is not None:
            graph.uses.append((len(ops), constant))
            if (known := constants.get(constant)) is not None:
                values.append(known.results[0])
                continue
        made = [Tracer(aval, graph) for aval in results]
        op = Op(name, [values[i] for i in operands], attributes, made, regions, frame, form)
        ops.append(op)
        values += made
        if constant is not None:
            constants[constant] = op
    if template.kind is None:
        return values[template.results[0]]
    return template.kind([values[i] for i in template.results])
