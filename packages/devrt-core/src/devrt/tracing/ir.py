"""The graph of a traced function: values, operations, and graphs in the place of regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devrt.tracing.aval import ShapedArray
    from devrt.tracing.frames import Frame

__all__ = ["Graph", "Op", "Value"]

_NONE: frozenset[str] = frozenset()


class Value:
    """A parameter of a graph, or a result of one of its operations.

    Attributes
    ----------
    aval : ShapedArray
        Its shape and dtype. In a manual computation, those of one device's shard.
    graph : Graph
        The graph that it belongs to.
    varying : frozenset of str
        The manual mesh axes along which devices may hold different values of it.
    """

    __slots__ = ("aval", "graph", "varying")

    def __init__(self, aval: ShapedArray, graph: Graph, varying: frozenset[str] = _NONE) -> None:
        self.aval = aval
        self.graph = graph
        self.varying = varying


class Op:
    """An operation.

    Attributes
    ----------
    name : str
        With its dialect: ``stablehlo.add``. One of ``devrt.`` is composite: its only region is
        printed in its place, with the region's parameters as its operands.
    operands, results : sequence of Value
    attributes : mapping
        Values that `devrt.tracing.attributes.text_of` takes; of composite operations any.
    regions : tuple of Graph
        Each may use values of the graphs around it: they are in `Graph.captures`.
    frame : Frame
        The line of the user that it was traced from.
    """

    __slots__ = ("attributes", "frame", "name", "operands", "regions", "results")

    def __init__(
        self,
        name: str,
        operands: Sequence[Value],
        attributes: Mapping[str, Any],
        results: Sequence[Value],
        regions: tuple[Graph, ...],
        frame: Frame,
    ) -> None:
        self.name = name
        self.operands = operands
        self.attributes = attributes
        self.results = results
        self.regions = regions
        self.frame = frame

    def inputs(self) -> Iterator[Value]:
        """Yield the operands, then what the regions take from outside."""
        yield from self.operands
        for region in self.regions:
            yield from region.captures

    def __repr__(self) -> str:
        return f"Op({self.name}, {[str(value.aval) for value in self.results]})"


class Graph:
    """Operations in order, from parameters to results.

    Attributes
    ----------
    parameters, results : list of Value
    ops : list of Op
    parent : Graph or None
        The graph in whose trace it is made.
    captures : dict of Value to Value
        Values of the parent that are used here, and what stands for each here. They are no
        parameters: a region of StableHLO may name values around it.
    constants : dict
        The values of constants, by what they hold; one for equal ones.
    hidden : dict of int to (object, Value)
        Of the outermost graph: arrays that the function closes over, by identity, and the
        parameters that stand for them.
    mesh : object or None
        The mesh whose ``manual_axes`` are bound here, in a manual computation.
    """

    __slots__ = (
        "captures",
        "constants",
        "hidden",
        "manual_axes",
        "mesh",
        "name",
        "ops",
        "parameters",
        "parent",
        "results",
    )

    def __init__(self, parent: Graph | None = None, name: str = "") -> None:
        self.parent = parent
        self.name = name
        self.parameters: list[Value] = []
        self.ops: list[Op] = []
        self.results: list[Value] = []
        self.captures: dict[Value, Value] = {}
        self.constants: dict[Any, Value] = {}
        self.hidden: dict[int, tuple[Any, Value]] = {}
        self.mesh: Any = None if parent is None else parent.mesh
        self.manual_axes: tuple[str, ...] = () if parent is None else parent.manual_axes

    @property
    def root(self) -> Graph:
        """The outermost graph that it is traced in."""
        graph = self
        while graph.parent is not None:
            graph = graph.parent
        return graph

    def is_within(self, other: Graph) -> bool:
        """Return whether ``other`` is this graph or one around it."""
        graph: Graph | None = self
        while graph is not None and graph is not other:
            graph = graph.parent
        return graph is not None
