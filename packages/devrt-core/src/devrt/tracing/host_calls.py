"""Calls from a program to Python on the host, while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt.sharding import PartitionSpec
from devrt.tracing.attributes import text_of
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.promotion import named
from devrt.tracing.sdy import ManualAxes, Meshes, PerValue, TensorSharding
from devrt.tracing.shapes import reshape, slice_
from devrt.tracing.trace import as_value, current_graph, emit

__all__ = ["HOST_CALL", "HOST_TARGET", "host_call", "printed_call"]

HOST_CALL = "devrt.host_call"
"""The operation. It is printed as a custom call; in a program of several devices within a manual
computation, as only there a device knows its number."""

HOST_TARGET = "devrt_host_call"
"""What the custom call names."""


def host_call(
    number: int,
    operands: Sequence[Any],
    results: Sequence[ShapedArray] = (),
    *,
    has_effect: bool = True,
    is_ordered: bool = False,
) -> list[Any]:
    """Add a call of a function of Python.

    Parameters
    ----------
    number
        By which the host knows the function.
    operands, results
        What it takes, and what it gives.
    has_effect
        Whether it is called though no result is used: then by the first device alone, or, in a
        manual computation, by each.
    is_ordered
        Whether it comes after the ordered calls before it.
    """
    graph = current_graph()
    taken = [*operands, *(_earlier(graph) if is_ordered else ())]
    attributes = {
        "number": number,
        "once": has_effect and not graph.manual_axes,
        "has_side_effect": has_effect,
        "ordered": is_ordered,
    }
    given = list(results) or [shaped((), named("int32"))]
    return emit(HOST_CALL, taken, given, attributes)


def _earlier(graph: Graph | None) -> list[Any]:
    """Return a scalar that is there when the last ordered call was made; none before the first."""
    while graph is not None:
        for op in reversed(graph.ops):
            sized = [value for value in op.results if value.aval.size]
            if sized and _is_ordered(op):
                return [_first(sized[0])]
        graph = graph.parent
    return []


def _is_ordered(op: Op) -> bool:
    return op.attributes.get("ordered") is True or any(
        _is_ordered(inner) for region in op.regions for inner in region.ops
    )


def _first(value: Any) -> Any:
    x = as_value(value)
    rank = len(x.aval.shape)
    return reshape(slice_(x, (0,) * rank, (1,) * rank), ())


def printed_call(
    op: Op,
    operands: Sequence[str],
    results: Sequence[str],
    fresh: Callable[[], str],
    meshes: Meshes,
) -> list[str]:
    """Return the lines of a call.

    Parameters
    ----------
    op
        The call.
    operands, results
        The names of its values.
    fresh
        Returns a name that no value has.
    meshes
        Those of the program.
    """
    takes = ", ".join(value.aval.type for value in op.operands)
    gives = ", ".join(value.aval.type for value in op.results)
    mesh = meshes.any
    bound = op.results[0].graph.manual_axes
    axes = () if mesh is None else tuple(axis for axis in mesh.axis_names if axis not in bound)
    if not axes:
        return _custom_call(op, operands, results, fresh())
    inner, made = [fresh() for _ in operands], [fresh() for _ in results]
    typed = zip(inner, op.operands, strict=True)
    parameters = ", ".join(f"{name}: {value.aval.type}" for name, value in typed)
    attributes = {
        "in_shardings": PerValue(tuple(_whole(mesh, value) for value in op.operands)),
        "out_shardings": PerValue(tuple(_whole(mesh, value) for value in op.results)),
        "manual_axes": ManualAxes(axes),
    }
    shown = ", ".join(f"{name} = {text_of(each, meshes)}" for name, each in attributes.items())
    return [
        f'{", ".join(results)} = "sdy.manual_computation"({", ".join(operands)}) ({{',
        *([f"^bb0({parameters}):"] if inner else []),
        *(f"  {line}" for line in _custom_call(op, inner, made, fresh())),
        f'  "sdy.return"({", ".join(made)}) : ({gives}) -> ()',
        f"}}) {{{shown}}} : ({takes}) -> ({gives})",
    ]


def _whole(mesh: Any, value: Value) -> TensorSharding:
    return TensorSharding(mesh, PartitionSpec(), len(value.aval.shape))


def _custom_call(op: Op, operands: Sequence[str], results: Sequence[str], device: str) -> list[str]:
    given = op.attributes
    once = "true" if given["once"] else "false"
    effect = ", has_side_effect = true" if given["has_side_effect"] else ""
    takes = ", ".join(["tensor<ui32>", *(value.aval.type for value in op.operands)])
    gives = ", ".join(value.aval.type for value in op.results)
    return [
        f'{device} = "stablehlo.partition_id"() : () -> tensor<ui32>',
        f'{", ".join(results)} = "stablehlo.custom_call"({", ".join([device, *operands])}) '
        f"{{api_version = 4 : i32, backend_config = {{number = {given['number']} : i64, "
        f'once = {once}}}, call_target_name = "{HOST_TARGET}"{effect}}} : ({takes}) -> ({gives})',
    ]
