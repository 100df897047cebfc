"""A function's trace: its graph, with the trees of what it takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from devrt._pytree import array_trees
from devrt.arrays import Array
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.arguments import Arguments, Call
from devrt.tracing import (
    HIDDEN_TYPES,
    Graph,
    ShapedArray,
    as_value,
    at_user_line,
    current_graph,
    trace_graph,
)
from devrt.tracing.frames import last_user_frame

__all__ = ["Trace", "trace", "values_of"]

HIDDEN_TYPES.add(Array)


class Trace(NamedTuple):
    """What a call of a function adds up to.

    Attributes
    ----------
    name : str
        The function's.
    graph : Graph
        Its operations; `Graph.hidden` are the arrays that it closes over.
    in_tree, out_tree : PyTreeDef
        The structures of its arguments, static ones apart, and of what it returns.
    avals : tuple of ShapedArray
        What it takes, by leaf.
    paths : list of str
        What errors call each leaf.
    donated : list of bool
        Whether each leaf's memory is given to the program.
    """

    name: str
    graph: Graph
    in_tree: Any
    out_tree: Any
    avals: tuple[ShapedArray, ...]
    paths: list[str]
    donated: list[bool]

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """What it gives, by leaf."""
        return tuple([value.aval for value in self.graph.results])

    @property
    def meshes(self) -> tuple[Any, ...]:
        """The meshes that its operations name."""
        return tuple(self.graph.meshes)

    @property
    def hidden(self) -> list[Any]:
        """The arrays that it closes over: the program's first parameters."""
        return [array for array, _ in self.graph.hidden.values()]


def trace(arguments: Arguments, call: Call, avals: tuple[ShapedArray, ...]) -> Trace:
    """Call a function with values of some shapes and dtypes and keep what it computes."""
    out_tree = None

    def flat(*parameters: Any) -> None:
        nonlocal out_tree
        args, kwargs = arguments.put_together(parameters, call.tree, call.statics)
        current_graph().takes_static = True
        returned = arguments.function(*args, **kwargs)
        current_graph().results, out_tree = values_of(returned, arguments.name)

    try:
        graph, _ = trace_graph(flat, avals, arguments.name, outermost=True)
    except (RecursionError, InvalidArgumentError) as error:
        # Deep down a flattening may be what meets the end first.
        if not isinstance(error, RecursionError) and not isinstance(
            error.__cause__, RecursionError
        ):
            raise
        raise _endless(arguments.name, error) from None
    paths = arguments.paths(call.tree, call.statics)
    donated = (
        arguments.donated(call.tree, call.statics) if arguments.donates else [False] * len(avals)
    )
    return Trace(arguments.name, graph, call.tree, out_tree, avals, paths, donated)


def _endless(name: str, error: Exception) -> InvalidArgumentError:
    """Return the error for a function that calls itself as long as it is traced."""
    calls, traceback = 0, error.__traceback__
    while traceback is not None:
        calls, traceback = calls + 1, traceback.tb_next
    msg = (
        f"the trace of {name!r} is {calls} calls deep, deeper than Python goes; the last line is "
        f"{last_user_frame(error.__traceback__)}. A condition on traced values never ends a "
        "recursion: use devrt.lax.while_loop or devrt.lax.cond, or end it by a Python value."
    )
    return InvalidArgumentError(msg, operation="jit", count=calls)


def values_of(returned: Any, name: str) -> tuple[list[Any], Any]:
    """Return the leaves of what a function returned as values of the graph, and their tree.

    Raises `InvalidTypeError` for a leaf that is no array; names its path.
    """
    leaves, tree = array_trees.tree_flatten(returned)
    try:
        return [as_value(leaf) for leaf in leaves], tree
    except InvalidTypeError as error:
        path = _path_of_wrong(returned)
        if path is None:
            raise
        where = f"the result{path[0]} of {name}"
        msg = (
            f"{where} is of type {type(path[1]).__name__}, which is no array and no "
            f"number{at_user_line()}. Return arrays, numbers, and trees of them."
        )
        raise InvalidTypeError(msg, type=type(path[1]).__name__) from error


def _path_of_wrong(returned: Any) -> tuple[str, Any] | None:
    pairs: Sequence[Any] = array_trees.tree_flatten_with_path(returned)[0]
    for path, leaf in pairs:
        try:
            as_value(leaf)
        except InvalidTypeError:
            keys = array_trees.keystr(path)
            return (f" at {keys}" if keys else ""), leaf
    return None
