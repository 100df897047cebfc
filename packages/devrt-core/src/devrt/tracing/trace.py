"""The trace of this thread: which graph operations go to, and how values come into it.

The state is a stack of graphs, per thread. Every function that opens a graph closes it again, so
that an exception leaves no trace behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from devrt import dtypes
from devrt._support.context import Context
from devrt.errors import InvalidTypeError, UnexpectedTracerError
from devrt.tracing.attributes import Dense
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.frames import at_user_line, user_frame
from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.promotion import dtype_of_scalar
from devrt.tracing.replication import varying_of
from devrt.tracing.tracer import Tracer

__all__ = [
    "HIDDEN_TYPES",
    "NUMBERS",
    "as_value",
    "composite",
    "constant",
    "current_graph",
    "emit",
    "emit_one",
    "is_tracing",
    "leaked",
    "new_graph",
    "trace_graph",
]

HIDDEN_TYPES: set[type] = set()
"""Types of arrays on devices: a function that closes over one takes it as a hidden parameter."""

MOST_OPS = 1_000_000
"""How many operations a graph may have."""

_LARGEST_CONSTANT = 1024  # bytes of a NumPy array that is written into the program
NUMBERS = (bool, int, float, complex)
"""Types of Python's numbers; NumPy's scalars are instances of some too."""


class _State(threading.local):
    graph: Graph | None = None


_state = _State()


def is_tracing() -> bool:
    """Return whether this thread is in a trace."""
    return _state.graph is not None


def current_graph() -> Graph:
    """Return the graph that operations go to."""
    graph = _state.graph
    assert graph is not None, "operations are made in a trace"
    return graph


@contextmanager
def new_graph(name: str = "", *, outermost: bool = False) -> Iterator[Graph]:
    """Make a new graph the current one: within the current one, or outermost."""
    outer = _state.graph
    graph = Graph(None if outermost else outer, name)
    _state.graph = graph
    if outer is None:
        Context.trace_begun()
    try:
        yield graph
    finally:
        _state.graph = outer
        if outer is None:
            Context.trace_ended()


def trace_graph(
    function: Callable[..., Any],
    avals: Sequence[ShapedArray],
    name: str = "",
    *,
    outermost: bool = False,
    varying: Sequence[frozenset[str]] | None = None,
) -> tuple[Graph, Any]:
    """Call a function with parameters of some shapes and dtypes; return the graph, and its result.

    The caller sets `Graph.results` from what the function returned.
    """
    with new_graph(name, outermost=outermost) as graph:
        none: frozenset[str] = frozenset()
        sets = varying or [none] * len(avals)
        graph.parameters = [
            Tracer(aval, graph, axes | graph.unchecked)
            for aval, axes in zip(avals, sets, strict=True)
        ]
        return graph, function(*graph.parameters)


def trace_flat(
    function: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str = ""
) -> Graph:
    """Return the graph of a function that takes and returns flat sequences of values."""

    def called(*parameters: Any) -> None:
        current_graph().results = [as_value(each) for each in function(*parameters)]

    return trace_graph(called, avals, name)[0]


# -- values -----------------------------------------------------------------------------------


def as_value(x: Any) -> Any:
    """Return an operand as a value of the current graph.

    Parameters
    ----------
    x
        A value of this graph or of one around it, a number of Python's (weak), a NumPy array or
        scalar (a constant; a hidden parameter if it is large), or an array on devices (a hidden
        parameter).

    Raises
    ------
    InvalidTypeError
        If it is anything else.
    UnexpectedTracerError
        If it is a value of a trace that has ended.
    """
    if isinstance(x, Value):  # the common case, first
        return x if x.graph is _state.graph else _captured(x, current_graph())
    if isinstance(x, NUMBERS) and not isinstance(x, np.generic):
        return constant(x, dtype_of_scalar(x), weak_type=type(x) is not bool)
    if type(x) in HIDDEN_TYPES:
        return hidden(x)
    if isinstance(x, np.ndarray | np.generic):
        if x.nbytes > _LARGEST_CONSTANT:
            return hidden(x)
        return constant(x, dtypes.to_numpy(dtypes.code_of(x.dtype)))
    msg = (
        f"a value of type {type(x).__name__} is no array and no number{at_user_line()}. Pass "
        "arrays, NumPy's or devrt's, or numbers; lists become arrays with devrt.numpy.asarray."
    )
    raise InvalidTypeError(msg, type=type(x).__name__)


def _captured(value: Value, graph: Graph) -> Value:
    """Return what stands in a graph for a value of one around it."""
    if not graph.is_within(value.graph):
        raise leaked(value)
    path = []
    inner: Graph | None = graph
    while inner is not value.graph:
        assert inner is not None
        path.append(inner)
        inner = inner.parent
    for each in reversed(path):
        known = each.captures.get(value)
        if known is None:
            axes = value.varying | each.unchecked
            known = each.captures[value] = type(value)(value.aval, each, axes)
        value = known
    return value


def leaked(value: Value) -> UnexpectedTracerError:
    """Return the error for a value that is used after its trace: it says where it came from."""
    name = value.graph.root.name or "a function"
    made = [op.frame for op in value.graph.ops if any(value is each for each in op.results)]
    at = f", at {made[0]}" if made and made[0].line else ""
    what = f"came out of the trace of {name!r}{at}" if made else f"is an argument of {name!r}"
    msg = (
        f"a value of {value.aval} was used{at_user_line()} after its trace had ended: it {what}. A "
        "traced function must hand its values over by returning them: do not keep them in globals, "
        "attributes, lists, caches or closures."
    )
    return UnexpectedTracerError(msg, traced=name)


def hidden(array: Any) -> Value:
    """Return the hidden parameter of the outermost graph for an array that is closed over."""
    graph = current_graph()
    root = graph.root
    known = root.hidden.get(id(array))
    if known is None:
        aval = getattr(array, "aval", None) or shaped(
            tuple(array.shape), dtypes.to_numpy(dtypes.code_of(array.dtype))
        )
        known = root.hidden[id(array)] = (array, Tracer(aval, root))
    return known[1] if graph is root else _captured(known[1], graph)


def constant(
    x: Any, dtype: np.dtype[Any], shape: tuple[int, ...] | None = None, *, weak_type: bool = False
) -> Any:
    """Return a constant of a dtype; equal ones are one value of the graph.

    ``x`` is a NumPy array, or one number for every element of ``shape``.

    Raises
    ------
    InvalidTypeError
        If the dtype does not hold an integer.
    """
    array = np.asarray(x) if _is(x, dtype) else _converted(_checked(x, dtype), dtype)
    is_splat = shape is not None and array.ndim == 0
    key = (array.tobytes(), dtype, array.shape if not is_splat else shape, weak_type)
    graph = current_graph()
    at, known = len(graph.ops), graph.constants.get(key)
    if known is None:
        held = np.broadcast_to(array, shape) if is_splat and shape else array
        aval = shaped(held.shape, dtype, weak_type)
        emit("stablehlo.constant", (), (aval,), {"value": Dense(held)})
        known = graph.constants[key] = graph.ops[-1]
    graph.uses.append((at, key))
    return known.results[0]


def _converted(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):  # a number beyond the dtype is infinite, as everywhere
        return np.asarray(x).astype(dtype)


def _is(x: Any, dtype: np.dtype[Any]) -> bool:
    return isinstance(x, np.ndarray | np.generic) and x.dtype == dtype


def _checked(x: Any, dtype: np.dtype[Any]) -> Any:
    if type(x) is int and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not limits.min <= x <= limits.max:
            msg = (
                f"{dtype.name} does not hold {x}{at_user_line()}. Convert the array to a wider "
                "dtype."
            )
            raise InvalidTypeError(msg, dtype=dtype.name)
    return x


# -- operations -------------------------------------------------------------------------------


def emit(
    name: str,
    operands: Sequence[Any],
    results: Sequence[ShapedArray],
    attributes: Mapping[str, Any] | None = None,
    regions: tuple[Graph, ...] = (),
) -> list[Any]:
    """Add an operation to the current graph and return its results.

    Parameters
    ----------
    name
        With its dialect.
    operands
        What `as_value` takes.
    results
        The type of each result.
    attributes
        What `devrt.tracing.attributes.text_of` takes, by name.
    regions
        Graphs, each traced within the current one.
    """
    graph = current_graph()
    values = [x if isinstance(x, Value) and x.graph is graph else as_value(x) for x in operands]
    if graph.manual_axes:
        sets = varying_of(name, values, attributes or {}, regions, len(results))
        made = [
            Tracer(aval, graph, axes | graph.unchecked)
            for aval, axes in zip(results, sets, strict=True)
        ]
    else:
        made = [Tracer(aval, graph) for aval in results]
    if len(graph.ops) >= MOST_OPS:
        raise _too_large(graph)
    graph.ops.append(Op(name, values, attributes or {}, made, regions, user_frame()))
    return made


def emit_one(
    name: str,
    operands: Sequence[Any],
    result: ShapedArray,
    attributes: Mapping[str, Any] | None = None,
    regions: tuple[Graph, ...] = (),
) -> Any:
    """Add an operation with one result; see `emit`."""
    return emit(name, operands, (result,), attributes, regions)[0]


def composite(
    name: str,
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    attributes: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Add an operation that is made of others, which `devrt.tracing.grad` may know as one.

    ``function`` takes the operands as values and returns a sequence of values.
    """
    values = [as_value(x) for x in operands]
    graph = trace_flat(function, [value.aval for value in values], name)
    avals = [value.aval for value in graph.results]
    return emit(f"devrt.{name}", values, avals, attributes, (graph,))


def _too_large(graph: Graph) -> InvalidTypeError:
    msg = (
        f"the trace of {graph.root.name!r} has {len(graph.ops)} operations, more than a program "
        f"may have; the last one is traced{at_user_line()}. Write loops as devrt.lax.fori_loop or "
        "devrt.lax.scan."
    )
    return InvalidTypeError(msg, count=len(graph.ops))
