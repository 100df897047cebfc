"""The program of one device: a graph with blocks in place of whole values.

No compiler divides it. What each device computes by itself is the same operation of its blocks,
and the collectives of manual computations become calls of the host, which begin one after the
other: each takes what the one before it gave. Those that do not need each other's results are under
way at once (`devrt.tracing.in_flight`). Whatever else would need data of other devices is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from devrt.sharding import PartitionSpec
from devrt.tracing.attributes import text_of
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.division import Division
from devrt.tracing.host_calls import HOST_CALL, HOST_TARGET
from devrt.tracing.in_flight import Begun, InFlight
from devrt.tracing.inspection import INSPECTION
from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.local_blocks import BlockGraph, is_spread
from devrt.tracing.local_calls import (
    COLLECTIVE_BEGIN,
    COLLECTIVE_END,
    COLLECTIVE_TARGET,
    call,
    exchange,
    has_collective,
    may_wait,
)
from devrt.tracing.local_rules import is_elementwise, plan_of, result_division
from devrt.tracing.printer import live_ops
from devrt.tracing.promotion import named
from devrt.tracing.sdy import Meshes

__all__ = ["LocalProgram", "local_program"]


class LocalProgram(NamedTuple):
    """The program of one device.

    Attributes
    ----------
    graph : Graph
        Its last two parameters are the device's place (its number in the program, and a number of
        the caller's) and the end of the program before it; its last result is its own end.
    results : list of Division
        How the results, that one apart, are divided.
    inspected : list of (callable, Division)
        Functions that take the sharding of an inspected value.
    plans : tuple of str
        What its calls exchange, each plan once, in their order.
    """

    graph: Graph
    results: list[Division]
    inspected: list[tuple[Callable[[Any], Any], Division]]
    plans: tuple[str, ...]


def local_program(
    graph: Graph,
    meshes: Meshes,
    parameters: Sequence[Division],
    results: Sequence[Division | None],
) -> LocalProgram:
    """Return the program of one device of a graph of whole values.

    Parameters
    ----------
    graph
        The graph. What it closes over comes first.
    meshes
        Those that it names, and the numbers of the program's devices.
    parameters
        How each parameter is divided, those that it closes over first.
    results
        How each result is to be divided; None as it comes.

    Raises
    ------
    UnimplementedError
        If an operation outside of manual computations needs blocks of other devices; names its
        line and `shard_map`.
    """
    maker = _Maker(meshes, graph.name)
    given = [value for _, value in graph.hidden.values()] + graph.parameters
    for value, division in zip(given, parameters, strict=True):
        maker.found[value] = maker.parameter(division.local(value.aval)), division
    maker.begin()
    maker.ops(graph)
    maker.land()
    divisions = []
    for value, wanted in zip(graph.results, results, strict=True):
        divisions.append(maker.found[value][1] if wanted is None else wanted)
        maker.graph.results.append(maker.at(value, divisions[-1], None))
    maker.graph.results.append(maker.after)
    return LocalProgram(maker.graph, divisions, maker.inspected, tuple(maker.plans))


class _Maker(BlockGraph):
    """The graph so far, and what of the function it still waits for."""

    def __init__(self, meshes: Meshes, name: str) -> None:
        super().__init__(meshes, name)
        self.inspected: list[tuple[Callable[[Any], Any], Division]] = []
        self.plans: dict[str, None] = {}
        self._flight = InFlight()

    def ops(self, graph: Graph) -> None:
        for op in live_ops(graph):
            self.frame = op.frame
            if op.name.startswith("devrt.") and op.name not in _OWN:
                self._inline(op)
            elif not self._flight.is_waiting(op.inputs()):
                self._op(op)
            elif op.name not in _OWN and may_wait(op):
                self._later(op.results, functools.partial(self._op, op))
            else:
                self.land()
                self.frame = op.frame
                self._op(op)

    def _op(self, op: Op) -> None:
        if op.name in _OWN:
            _OWN[op.name](self, op)
        elif (plan := plan_of(op, self.meshes)) is not None:
            self._collective(op, plan)
        else:
            self._plain(op)

    def _inline(self, op: Op) -> None:
        (graph,) = op.regions
        for inner, operand in zip(graph.parameters, op.operands, strict=True):
            self._bind(inner, operand)
        self._enter(graph)
        self.ops(graph)
        for result, inner in zip(op.results, graph.results, strict=True):
            self._bind(result, inner)

    def _enter(self, graph: Graph) -> None:
        for outer, inner in graph.captures.items():
            self._bind(inner, outer)

    def _bind(self, new: Value, old: Value) -> None:
        """Let a value stand for another, once that is there."""

        def bind() -> None:
            self.found[new] = self.found[old]

        if self._flight.is_waiting([old]):
            self._later([new], bind)
        else:
            bind()

    def _later(self, results: Sequence[Value], make: Callable[[], None]) -> None:
        """Make some values when the collectives under way have ended."""
        self._flight.later(results, self.frame, make)

    def _plain(self, op: Op) -> None:
        divisions = {self.found[value][1] for value in op.inputs()}
        divided = [each for each in divisions if not each.is_whole]
        if not divided:
            self._alike(op)
            return
        found = result_division(op, divided, [self.found[value][1] for value in op.operands])
        if found is None:
            self.refuse(op, f"takes values divided as {', '.join(map(repr, divided))}")
        operands = [
            self.at(value, found, op)
            if is_elementwise(op) and value.aval.shape
            else self.found[value][0]
            for value in op.operands
        ]
        avals = [found.local(value.aval) for value in op.results]
        made = self.emit(op.name, operands, avals, op.attributes)
        self._set(op, made, found)

    def _alike(self, op: Op) -> None:
        """Add an operation of whole values, which every device computes by itself."""
        operands = [self.whole(value, op) for value in op.operands]
        avals = [value.aval for value in op.results]
        if any(map(has_collective, op.regions)):
            made = self._in_order(op, operands, avals)
        else:
            regions = tuple([self._region(graph) for graph in op.regions])
            made = self.emit(op.name, operands, avals, op.attributes, regions, op.form)
        for value, new in zip(op.results, made, strict=True):
            self.found[value] = new, Division.whole(len(value.aval.shape))
        if is_spread(op):
            self.spreads[made[0]] = self.graph.ops[-1]

    def _in_order(self, op: Op, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
        """Add a loop or a choice whose regions have collectives: their order goes through it."""
        is_loop = op.name == "stablehlo.while"
        if not is_loop and op.name != "stablehlo.case":
            self.refuse(op, "has a collective in its region")
        self.land()
        before = self.after
        regions = []
        for graph in op.regions:
            regions.append(self._region(graph, takes_order=is_loop, gives_order=True))
            self.after = before
        if is_loop:
            regions[0].results.pop()  # a condition gives its answer alone
            operands = [*operands, before]
        made = self.emit(op.name, operands, [*avals, before.aval], op.attributes, tuple(regions))
        self.after = made[-1]
        return made[:-1]

    def _region(
        self, graph: Graph, *, takes_order: bool = False, gives_order: bool = False
    ) -> Graph:
        if graph.parent is None:  # operations share it, and it takes nothing from outside
            return graph
        outer, self.graph = self.graph, Graph(self.graph, graph.name)
        flight, self._flight = self._flight, InFlight()
        self._enter(graph)
        for value in graph.parameters:
            division = Division.whole(len(value.aval.shape))
            self.found[value] = self.parameter(value.aval), division
        if takes_order:
            self.after = self.parameter(self.after.aval)
        self.ops(graph)
        self.land()
        self._flight = flight
        made = self.graph
        made.results = [self.whole(value, None) for value in graph.results]
        if gives_order:
            made.results.append(self.after)
        for value in made.results:
            self._use(value)
        self.graph = outer
        return made

    def _collective(self, op: Op, plan: str) -> None:
        """Begin a collective; whatever takes its result waits until others have begun as well."""
        (result,) = op.results
        if self._flight.is_full(result.aval):
            self.land()
        operands = [self.place, self.after, self.whole(op.operands[0], op)]
        plan = f"{self._flight.lane} {plan}"
        self.plans[plan] = None
        attributes = exchange(COLLECTIVE_BEGIN, plan)
        (self.after,) = self.emit("stablehlo.custom_call", operands, [self.after.aval], attributes)
        self._flight.begin(Begun(self.graph.ops[-1], result, plan))

    def land(self) -> None:
        """End the collectives under way, and make what waits for them."""
        begun, later = self._flight.take()
        if len(begun) == 1 and begun[0].op.results[0] is self.after:
            self._join(begun[0])
        else:
            for each in begun:
                self._end(each)
        frame = self.frame
        for self.frame, make in later:
            make()
        self.frame = frame

    def _join(self, begun: Begun) -> None:
        """Let one call do what two would: nothing else begins between them."""
        op, aval = begun.op, begun.result.aval
        made = Value(aval, self.graph)
        op.results = [*op.results, made]
        op.attributes = exchange(COLLECTIVE_TARGET, begun.plan)
        self.found[begun.result] = made, Division.whole(len(aval.shape))

    def _end(self, begun: Begun) -> None:
        aval = begun.result.aval
        operands = [self.place, self.after, begun.op.results[0]]
        attributes = exchange(COLLECTIVE_END, begun.plan)
        self.after, made = self.emit(
            "stablehlo.custom_call", operands, [self.after.aval, aval], attributes
        )
        self.found[begun.result] = made, Division.whole(len(aval.shape))

    def _manual(self, op: Op) -> None:
        (body,) = op.regions
        takes, gives = (op.attributes[f"{name}_shardings"].shardings for name in ("in", "out"))
        for value, inner, sharding in zip(op.operands, body.parameters, takes, strict=True):
            block = self.at(value, self._division(sharding), op)
            self.found[inner] = block, Division.whole(len(inner.aval.shape))
        self._enter(body)
        self.ops(body)
        for value, inner, sharding in zip(op.results, body.results, gives, strict=True):
            give = functools.partial(self._give, op, value, inner, self._division(sharding))
            if self._flight.is_waiting([inner]):
                self._later([value], give)
            else:
                give()

    def _give(self, op: Op, value: Value, inner: Value, division: Division) -> None:
        self.found[value] = self.whole(inner, op), division

    def _constraint(self, op: Op) -> None:
        (value,), (result,), sharding = op.operands, op.results, op.attributes["sharding"]
        if PartitionSpec.UNCONSTRAINED in sharding.spec:
            self.refuse(op, f"leaves a part of {sharding.spec} to the compiler")
        division = self._division(sharding)
        self.found[result] = self.at(value, division, op), division

    def _division(self, sharding: Any) -> Division:
        return Division.of(sharding.mesh, sharding.spec, sharding.ndim, self.meshes)

    def _host_call(self, op: Op) -> None:
        """Add a call of a function of Python, which gets the device's number."""
        (device,) = self.emit("stablehlo.convert", [self.number], [shaped((), named("uint32"))])
        given = op.attributes
        config = f"{{number = {given['number']} : i64, once = {text_of(given['once'])}}}"
        attributes = call(HOST_TARGET, config, has_effect=given["has_side_effect"])
        operands = [device, *(self.whole(value, op) for value in op.operands)]
        avals = [value.aval for value in op.results]
        made = self.emit("stablehlo.custom_call", operands, avals, attributes)
        for value, new in zip(op.results, made, strict=True):
            self.found[value] = new, Division.whole(len(value.aval.shape))

    def _inspection(self, op: Op) -> None:
        division = self.found[op.operands[0]][1]
        self.inspected.append((op.attributes["callback"], division))

    def _set(self, op: Op, made: Sequence[Value], division: Division) -> None:
        for value, new in zip(op.results, made, strict=True):
            self.found[value] = new, division


_OWN: dict[str, Callable[[_Maker, Op], None]] = {
    HOST_CALL: _Maker._host_call,
    INSPECTION: _Maker._inspection,
    "sdy.manual_computation": _Maker._manual,
    "sdy.sharding_constraint": _Maker._constraint,
}
