"""The program of one device: a graph with blocks in place of whole values.

No compiler divides it. What each device computes by itself is the same operation of its blocks,
and the collectives of manual computations become calls of the host, one after the other: each
takes what the one before it gave. Whatever else would need data of other devices is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from devrt.errors import UnimplementedError
from devrt.sharding import PartitionSpec
from devrt.tracing.attributes import Dense, Literal, text_of
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.division import Division
from devrt.tracing.host_calls import HOST_CALL, HOST_TARGET
from devrt.tracing.inspection import INSPECTION
from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.local_rules import is_elementwise, plan_of, result_division
from devrt.tracing.printer import live_ops
from devrt.tracing.promotion import named
from devrt.tracing.sdy import Meshes

__all__ = ["COLLECTIVE_TARGET", "LocalProgram", "local_program"]

COLLECTIVE_TARGET = "devrt_collective"
"""What the custom call of a collective names."""


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
    """

    graph: Graph
    results: list[Division]
    inspected: list[tuple[Callable[[Any], Any], Division]]


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
    divisions = []
    for value, wanted in zip(graph.results, results, strict=True):
        divisions.append(maker.found[value][1] if wanted is None else wanted)
        maker.graph.results.append(maker.at(value, divisions[-1], None))
    maker.graph.results.append(maker.after)
    return LocalProgram(maker.graph, divisions, maker.inspected)


class _Maker:
    """The graph so far, and the block that stands for each value."""

    after: Value
    _place: Value
    _number: Value

    def __init__(self, meshes: Meshes, name: str) -> None:
        self.graph = Graph(None, name)
        self.found: dict[Value, tuple[Value, Division]] = {}
        self.inspected: list[tuple[Callable[[Any], Any], Division]] = []
        self._meshes = meshes
        self._spreads: dict[Value, Op] = {}  # equal elements: a block of them is made anew
        self._frame: Any = None

    # -- the new graph ----------------------------------------------------------------------------

    def parameter(self, aval: ShapedArray) -> Value:
        made = Value(aval, self.graph)
        self.graph.parameters.append(made)
        return made

    def begin(self) -> None:
        """Add the parameters of place and order, and the device's number."""
        integer = named("int32")
        self._place = self.parameter(shaped((2,), integer))
        self.after = self.parameter(shaped((), integer))
        first = {"start_indices": (0,), "limit_indices": (1,), "strides": (1,)}
        one = self.emit("stablehlo.slice", [self._place], [shaped((1,), integer)], first)
        self._number = self.emit("stablehlo.reshape", one, [shaped((), integer)])[0]

    def emit(
        self,
        name: str,
        operands: Sequence[Value],
        avals: Sequence[ShapedArray],
        attributes: Any = None,
        regions: tuple[Graph, ...] = (),
        form: Any = None,
    ) -> list[Value]:
        made = [Value(aval, self.graph) for aval in avals]
        for value in operands:
            self._use(value)
        op = Op(name, operands, attributes or {}, made, regions, self._frame, form)
        self.graph.ops.append(op)
        return made

    def _use(self, value: Value) -> None:
        """Note that regions up to the value's graph take it from outside."""
        graph: Graph | None = self.graph
        while graph is not None and graph is not value.graph:
            graph.captures[value] = value
            graph = graph.parent

    # -- values -----------------------------------------------------------------------------------

    def at(self, value: Value, division: Division, op: Op | None) -> Value:
        """Return the device's block of a value."""
        made, there = self.found[value]
        if there == division:
            return made
        if not there.is_whole:
            self._refuse(op, f"takes {value.aval}, divided as {there}, as {division}")
        return self._block(made, division)

    def _whole(self, value: Value, op: Op | None) -> Value:
        return self.at(value, Division.whole(len(value.aval.shape)), op)

    def _block(self, whole: Value, division: Division) -> Value:
        """Return the device's block of a value that it holds whole."""
        aval, spread = division.local(whole.aval), self._spreads.get(whole)
        if spread is not None:
            attributes = dict(spread.attributes)
            if "value" in attributes:
                one = attributes["value"].array.flat[0]
                attributes["value"] = Dense(np.broadcast_to(one, aval.shape))
            return self.emit(spread.name, spread.operands, [aval], attributes)[0]
        starts = [
            self._start(blocks, size)
            for blocks, size in zip(division.blocks, aval.shape, strict=True)
        ]
        sizes = {"slice_sizes": aval.shape}
        return self.emit("stablehlo.dynamic_slice", [whole, *starts], [aval], sizes)[0]

    def _start(self, blocks: Sequence[int] | None, size: int) -> Value:
        """Return where the device's block begins along a dimension."""
        integer = named("int32")
        table = np.array(blocks or (0,), np.int32) * np.int32(size)
        aval = shaped(table.shape if blocks else (), integer)
        value = Dense(table if blocks else table[0])
        (made,) = self.emit("stablehlo.constant", [], [aval], {"value": value})
        if not blocks:
            return made
        one = [shaped((1,), integer)]
        found = self.emit(
            "stablehlo.dynamic_slice", [made, self._number], one, {"slice_sizes": (1,)}
        )
        return self.emit("stablehlo.reshape", found, [shaped((), integer)])[0]

    # -- operations -------------------------------------------------------------------------------

    def ops(self, graph: Graph) -> None:
        for op in live_ops(graph):
            self._frame = op.frame
            self._op(op)

    def _op(self, op: Op) -> None:
        if op.name in _OWN:
            _OWN[op.name](self, op)
        elif op.name.startswith("devrt."):
            self._inline(op)
        elif (plan := plan_of(op, self._meshes)) is not None:
            self._collective(op, plan)
        else:
            self._plain(op)

    def _inline(self, op: Op) -> None:
        (graph,) = op.regions
        for inner, operand in zip(graph.parameters, op.operands, strict=True):
            self.found[inner] = self.found[operand]
        self._enter(graph)
        self.ops(graph)
        for result, inner in zip(op.results, graph.results, strict=True):
            self.found[result] = self.found[inner]

    def _enter(self, graph: Graph) -> None:
        for outer, inner in graph.captures.items():
            self.found[inner] = self.found[outer]

    def _plain(self, op: Op) -> None:
        divisions = {self.found[value][1] for value in op.inputs()}
        divided = [each for each in divisions if not each.is_whole]
        if not divided:
            self._alike(op)
            return
        found = result_division(op, divided, [self.found[value][1] for value in op.operands])
        if found is None:
            self._refuse(op, f"takes values divided as {', '.join(map(repr, divided))}")
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
        operands = [self._whole(value, op) for value in op.operands]
        avals = [value.aval for value in op.results]
        if any(map(_has_collective, op.regions)):
            made = self._in_order(op, operands, avals)
        else:
            regions = tuple([self._region(graph) for graph in op.regions])
            made = self.emit(op.name, operands, avals, op.attributes, regions, op.form)
        for value, new in zip(op.results, made, strict=True):
            self.found[value] = new, Division.whole(len(value.aval.shape))
        if _is_spread(op):
            self._spreads[made[0]] = self.graph.ops[-1]

    def _in_order(self, op: Op, operands: list[Value], avals: list[ShapedArray]) -> list[Value]:
        """Add a loop or a choice whose regions have collectives: their order goes through it."""
        is_loop = op.name == "stablehlo.while"
        if not is_loop and op.name != "stablehlo.case":
            self._refuse(op, "has a collective in its region")
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
        self._enter(graph)
        for value in graph.parameters:
            division = Division.whole(len(value.aval.shape))
            self.found[value] = self.parameter(value.aval), division
        if takes_order:
            self.after = self.parameter(self.after.aval)
        self.ops(graph)
        made = self.graph
        made.results = [self._whole(value, None) for value in graph.results]
        if gives_order:
            made.results.append(self.after)
        for value in made.results:
            self._use(value)
        self.graph = outer
        return made

    def _collective(self, op: Op, plan: str) -> None:
        operands = [self._place, self.after, self._whole(op.operands[0], op)]
        (result,) = op.results
        attributes = _call(COLLECTIVE_TARGET, plan, has_effect=True)
        self.after, made = self.emit(
            "stablehlo.custom_call", operands, [self.after.aval, result.aval], attributes
        )
        self.found[result] = made, Division.whole(len(result.aval.shape))

    def _manual(self, op: Op) -> None:
        (body,) = op.regions
        takes, gives = (op.attributes[f"{name}_shardings"].shardings for name in ("in", "out"))
        for value, inner, sharding in zip(op.operands, body.parameters, takes, strict=True):
            block = self.at(value, self._division(sharding), op)
            self.found[inner] = block, Division.whole(len(inner.aval.shape))
        self._enter(body)
        self.ops(body)
        for value, inner, sharding in zip(op.results, body.results, gives, strict=True):
            self.found[value] = self._whole(inner, op), self._division(sharding)

    def _constraint(self, op: Op) -> None:
        (value,), (result,), sharding = op.operands, op.results, op.attributes["sharding"]
        if PartitionSpec.UNCONSTRAINED in sharding.spec:
            self._refuse(op, f"leaves a part of {sharding.spec} to the compiler")
        division = self._division(sharding)
        self.found[result] = self.at(value, division, op), division

    def _division(self, sharding: Any) -> Division:
        return Division.of(sharding.mesh, sharding.spec, sharding.ndim, self._meshes)

    def _host_call(self, op: Op) -> None:
        """Add a call of a function of Python, which gets the device's number."""
        (device,) = self.emit("stablehlo.convert", [self._number], [shaped((), named("uint32"))])
        given = op.attributes
        config = f"{{number = {given['number']} : i64, once = {text_of(given['once'])}}}"
        attributes = _call(HOST_TARGET, config, has_effect=given["has_side_effect"])
        operands = [device, *(self._whole(value, op) for value in op.operands)]
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

    def _refuse(self, op: Op | None, what: str) -> NoReturn:
        frame = None if op is None else op.frame
        line = f" ({frame})" if frame is not None and frame.line else ""
        subject = "a result" if op is None else op.name.partition(".")[2]
        msg = (
            f"{self.graph.root.name} is to run on the devices of several processes, where only the "
            f"collectives of shard_map and pmap exchange data: {subject}{line} {what}. Compute it "
            "in a devrt.shard_map, with psum, all_gather and their like, or place its operands so "
            "that each device has what it needs."
        )
        raise UnimplementedError(msg, operation="jit")


_OWN: dict[str, Callable[[_Maker, Op], None]] = {
    HOST_CALL: _Maker._host_call,
    INSPECTION: _Maker._inspection,
    "sdy.manual_computation": _Maker._manual,
    "sdy.sharding_constraint": _Maker._constraint,
}


def _call(target: str, config: str, *, has_effect: bool) -> dict[str, Any]:
    return {
        "api_version": Literal("4 : i32"),
        "backend_config": Literal(config),
        "call_target_name": target,
        **({"has_side_effect": True} if has_effect else {}),
    }


def _has_collective(graph: Graph) -> bool:
    return any(
        plan_of(op, None) is not None or any(map(_has_collective, op.regions)) for op in graph.ops
    )


def _is_spread(op: Op) -> bool:
    """Return whether an operation gives equal elements, and a scalar is all that it takes."""
    if op.name == "stablehlo.broadcast_in_dim":
        return op.operands[0].aval.shape == ()
    if op.name != "stablehlo.constant":
        return False
    array = op.attributes["value"].array
    return bool(array.size) and not any(array.strides)
