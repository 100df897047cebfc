"""Graphs as StableHLO's text: the same in every process, without paths and lines of the user.

The text of an operation holds no location, so that the disk cache finds the program again after a
line was inserted above it; `Printed.frames` has the user's line of each line of text instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from devrt.tracing.forms import form_of
from devrt.tracing.frames import Frame
from devrt.tracing.host_calls import HOST_CALL, printed_call
from devrt.tracing.inspection import INSPECTION, Inspected, printed_barrier
from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.sdy import Meshes

__all__ = ["Printed", "live_ops", "print_module"]

_WORD = re.compile(r"[^A-Za-z0-9_]")


class Printed(NamedTuple):
    """A program's text.

    Attributes
    ----------
    text : str
        The text.
    frames : mapping of int to Frame
        The user's line for each of its lines, which count from 1.
    inspected : sequence of Inspected
        The values whose shardings somebody wants to know, by their numbers in the text.
    """

    text: str
    frames: Mapping[int, Frame]
    inspected: Sequence[Inspected]


def print_module(
    graph: Graph,
    name: str,
    *,
    arguments: Sequence[str] = (),
    results: Sequence[str] = (),
    meshes: Meshes | None = None,
    replicas: int = 1,
) -> Printed:
    """Return the module whose function main is a graph.

    Parameters
    ----------
    graph
        The graph. What it closes over (`Graph.hidden`) comes before its parameters.
    name
        Of the module; other characters than letters, digits and ``_`` become ``_``.
    arguments, results
        Attributes of each parameter and result, as text without braces; empty for none.
    meshes
        Those that the program's attributes name; None if it runs on one device and names none.
    replicas
        On how many devices it runs as it is, each with values of its own.
    """
    parameters = [value for _, value in graph.hidden.values()] + graph.parameters
    meshes = meshes or Meshes()
    printer = _Printer(meshes)
    arguments = arguments or [""] * len(parameters)
    results = results or [""] * len(graph.results)
    takes, gives = [], []
    for i, (value, attributes) in enumerate(zip(parameters, arguments, strict=True)):
        printer.names[value] = f"%arg{i}"
        takes.append(f"%arg{i}: {value.aval.type}" + (f" {{{attributes}}}" if attributes else ""))
    for value, attributes in zip(graph.results, results, strict=True):
        gives.append(value.aval.type + (f" {{{attributes}}}" if attributes else ""))
    counts = f"mhlo.num_partitions = {meshes.num_partitions} : i32"
    counts += f", mhlo.num_replicas = {replicas} : i32"
    word = _WORD.sub("_", name) or "main"
    lines = printer.lines
    lines.append(f"module @{word} attributes {{{counts}}} {{")
    lines.extend(f"  {line}" for line in meshes.lines())
    lines.append(f"  func.func public @main({', '.join(takes)}) -> ({', '.join(gives)}) {{")
    printer.body(graph, "    ")
    lines.append("    " + printer.returned("return", graph.results))
    lines += ["  }", "}", ""]
    return Printed("\n".join(lines), printer.frames, printer.inspected)


class _Printer:
    """The lines so far, and the names of values."""

    def __init__(self, meshes: Meshes) -> None:
        self._meshes = meshes
        self.lines: list[str] = []
        self.frames: dict[int, Frame] = {}
        self.names: dict[Value, str] = {}
        self.inspected: list[Inspected] = []
        self._count = 0

    def body(self, graph: Graph, indent: str, frame: Frame | None = None) -> None:
        """Print the operations of a graph that something depends on.

        ``frame`` is the line of all of them, of a graph that many operations share.
        """
        for outer, inner in graph.captures.items():
            self.names[inner] = self.names[outer]
        inspections = []
        for op in live_ops(graph):
            if op.name.startswith("stablehlo."):  # the common case, first
                self._op(op, indent, frame or op.frame)
            elif op.name == INSPECTION:
                inspections.append(op)
            elif op.name == HOST_CALL:
                self._host_call(op, indent)
            elif op.name.startswith("devrt.") or self._is_undivided(op):
                self._inlined(op, indent)
            else:
                self._op(op, indent, frame or op.frame)
        if inspections:
            self._inspect(inspections, graph, indent)

    def returned(self, word: str, values: Sequence[Value]) -> str:
        """Return the line that ends a body."""
        if not values:
            return word
        names = ", ".join([self.names[value] for value in values])
        return f"{word} {names} : {', '.join([value.aval.type for value in values])}"

    def _named(self, value: Value) -> str:
        name = self.names[value] = self._fresh()
        return name

    def _is_undivided(self, op: Op) -> bool:
        """Return whether an operation divides values over one device.

        The compiler divides no program of one device: it knows no meshes there.
        """
        if self._meshes.num_partitions > 1 or not op.name.startswith("sdy."):
            return False
        mesh = op.regions[0].mesh if op.regions else op.attributes["sharding"].mesh
        return bool(mesh.size == 1)

    def _fresh(self) -> str:
        self._count += 1
        return f"%{self._count - 1}"

    def _host_call(self, op: Op, indent: str) -> None:
        operands = [self.names[value] for value in op.operands]
        results = [self._named(value) for value in op.results]
        for line in printed_call(op, operands, results, self._fresh, self._meshes):
            self._line(indent + line, op.frame)

    def _inspect(self, inspections: Sequence[Op], graph: Graph, indent: str) -> None:
        """Print the barrier that marks a graph's inspected values, and holds a result to them."""
        before = len(self.inspected)
        self.inspected += map(Inspected, inspections)
        if self._meshes.num_partitions == 1:
            return
        values = [*(op.operands[0] for op in inspections), *graph.results[:1]]
        names, made = [self.names[value] for value in values], [self._fresh() for _ in values]
        avals = [value.aval for value in values]
        numbers = range(before, len(self.inspected))
        self._line(indent + printed_barrier(numbers, names, avals, made), inspections[0].frame)
        for result in graph.results[:1]:
            self.names[result] = made[-1]

    def _inlined(self, op: Op, indent: str) -> None:
        if not op.regions:  # a constraint
            self.names[op.results[0]] = self.names[op.operands[0]]
            return
        (graph,) = op.regions
        for inner, operand in zip(graph.parameters, op.operands, strict=True):
            self.names[inner] = self.names[operand]
        self.body(graph, indent)
        for result, inner in zip(op.results, graph.results, strict=True):
            self.names[result] = self.names[inner]

    def _op(self, op: Op, indent: str, frame: Frame) -> None:
        names, results = self.names, op.results
        head, tail = op.form or form_of(op, self._meshes)
        operands = ", ".join([names[value] for value in op.operands])
        if len(results) == 1:  # the common case, first
            named = names[results[0]] = f"%{self._count}"
            self._count += 1
            start = f"{indent}{named} = {head}{operands}"
        else:
            given = ", ".join([self._named(value) for value in results])
            start = f"{indent}{given}{' = ' if results else ''}{head}{operands}"
        if op.regions:
            start = self._regions(op, f"{start})", indent)
        self.lines.append(start + tail)
        self.frames[len(self.lines)] = frame

    def _line(self, text: str, frame: Frame) -> None:
        self.lines.append(text)
        self.frames[len(self.lines)] = frame

    def _regions(self, op: Op, start: str, indent: str) -> str:
        """Print an operation up to its last region, and return how the last line begins."""
        start += " ({"
        for graph in op.regions:
            self._line(start, op.frame)
            self._region(op, graph, indent)
            start = f"{indent}}}, {{"
        return f"{indent}}})"

    def _region(self, op: Op, graph: Graph, indent: str) -> None:
        if graph.parameters:
            takes = [f"{self._named(value)}: {value.aval.type}" for value in graph.parameters]
            self._line(f"{indent}^bb0({', '.join(takes)}):", op.frame)
        self.body(graph, indent + "  ", op.frame if graph.parent is None else None)
        dialect = op.name.partition(".")[0]
        word = f"{dialect}.return"
        self._line(f"{indent}  {self.returned(word, graph.results)}", op.frame)


def live_ops(graph: Graph) -> list[Op]:
    """Return the operations that a result or an effect depends on, in order."""
    needed = set(graph.results)
    live = []
    for op in reversed(graph.ops):
        if needed.isdisjoint(op.results) and not op.has_effect():
            continue
        live.append(op)
        needed.update(op.operands)
        for region in op.regions:
            needed.update(region.captures)
    live.reverse()
    return live
