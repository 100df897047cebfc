"""The graph of one device's program: blocks of values, and what makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from devrt.errors import UnimplementedError
from devrt.tracing.attributes import Dense
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.division import Division
from devrt.tracing.ir import Graph, Op, Value
from devrt.tracing.promotion import named
from devrt.tracing.sdy import Meshes

__all__ = ["BlockGraph", "is_spread"]


class BlockGraph:
    """A graph, and which of its values is the block that stands for a value of a function.

    Attributes
    ----------
    graph : Graph
        The one that operations are added to: the program's, or a region's.
    found : dict
        The block that stands for a value, and how the value is divided.
    meshes : Meshes
        Those of the function.
    after : Value
        The end of the collective before, which gives their order.
    place, number : Value
        The device's place, and its number in the program.
    spreads : dict
        The operations that give equal elements: a block of them is made anew.
    frame : Frame
        The user's line of what is added.
    """

    after: Value
    place: Value
    number: Value

    def __init__(self, meshes: Meshes, name: str) -> None:
        self.graph = Graph(None, name)
        self.found: dict[Value, tuple[Value, Division]] = {}
        self.meshes = meshes
        self.spreads: dict[Value, Op] = {}
        self.frame: Any = None

    def parameter(self, aval: ShapedArray) -> Value:
        """Add a parameter."""
        made = Value(aval, self.graph)
        self.graph.parameters.append(made)
        return made

    def begin(self) -> None:
        """Add the parameters of place and order, and the device's number."""
        integer = named("int32")
        self.place = self.parameter(shaped((2,), integer))
        self.after = self.parameter(shaped((), integer))
        first = {"start_indices": (0,), "limit_indices": (1,), "strides": (1,)}
        one = self.emit("stablehlo.slice", [self.place], [shaped((1,), integer)], first)
        self.number = self.emit("stablehlo.reshape", one, [shaped((), integer)])[0]

    def emit(
        self,
        name: str,
        operands: Sequence[Value],
        avals: Sequence[ShapedArray],
        attributes: Any = None,
        regions: tuple[Graph, ...] = (),
        form: Any = None,
    ) -> list[Value]:
        """Add an operation; return its results."""
        made = [Value(aval, self.graph) for aval in avals]
        for value in operands:
            self._use(value)
        op = Op(name, operands, attributes or {}, made, regions, self.frame, form)
        self.graph.ops.append(op)
        return made

    def _use(self, value: Value) -> None:
        """Note that regions up to the value's graph take it from outside."""
        graph: Graph | None = self.graph
        while graph is not None and graph is not value.graph:
            graph.captures[value] = value
            graph = graph.parent

    def at(self, value: Value, division: Division, op: Op | None) -> Value:
        """Return the device's block of a value."""
        made, there = self.found[value]
        if there == division:
            return made
        if not there.is_whole:
            self.refuse(op, f"takes {value.aval}, divided as {there}, as {division}")
        return self._block(made, division)

    def whole(self, value: Value, op: Op | None) -> Value:
        """Return a value that the device must hold whole."""
        return self.at(value, Division.whole(len(value.aval.shape)), op)

    def _block(self, whole: Value, division: Division) -> Value:
        """Return the device's block of a value that it holds whole."""
        aval, spread = division.local(whole.aval), self.spreads.get(whole)
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
            "stablehlo.dynamic_slice", [made, self.number], one, {"slice_sizes": (1,)}
        )
        return self.emit("stablehlo.reshape", found, [shaped((), integer)])[0]

    def refuse(self, op: Op | None, what: str) -> NoReturn:
        """Raise what says that an operation needs blocks of other devices."""
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


def is_spread(op: Op) -> bool:
    """Return whether an operation gives equal elements, and a scalar is all that it takes."""
    if op.name == "stablehlo.broadcast_in_dim":
        return op.operands[0].aval.shape == ()
    if op.name != "stablehlo.constant":
        return False
    array = op.attributes["value"].array
    return bool(array.size) and not any(array.strides)
