"""The graph of a traced function: values, operations, and graphs in the place of regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devrt.tracing.aval import ShapedArray
    from devrt.tracing.frames import Frame

__all__ = ["Graph", "Op", "Scope", "Value"]

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
    form : tuple of str, or None
        What `devrt.tracing.forms.form_of` returns of it, where that is known.
    """

    __slots__ = ("attributes", "form", "frame", "name", "operands", "regions", "results")

    def __init__(
        self,
        name: str,
        operands: Sequence[Value],
        attributes: Mapping[str, Any],
        results: Sequence[Value],
        regions: tuple[Graph, ...],
        frame: Frame,
        form: tuple[str, str] | None = None,
    ) -> None:
        self.name = name
        self.operands = operands
        self.attributes = attributes
        self.results = results
        self.regions = regions
        self.frame = frame
        self.form = form

    def inputs(self) -> Iterator[Value]:
        """Yield the operands, then what the regions take from outside."""
        yield from self.operands
        for region in self.regions:
            yield from region.captures

    def has_effect(self) -> bool:
        """Return whether it, or one in its regions, does something besides its results."""
        return self.attributes.get("has_side_effect") is True or any(
            inner.has_effect() for region in self.regions for inner in region.ops
        )

    def __repr__(self) -> str:
        return f"Op({self.name}, {[str(value.aval) for value in self.results]})"


class Scope:
    """The axes that a manual computation binds.

    Attributes
    ----------
    axes : tuple of str
        Their names, in the mesh's order.
    graph : Graph
        The computation's body.
    outer : Scope or None
        That of the computation around it.
    indices : dict of str to Value
        Parameters of the body that hold the position along an axis, where it is used.
    lent : dict of str to str, or None
        Names under which an axis without a name of its own is known; None if it lends itself not.
    """

    __slots__ = ("axes", "graph", "indices", "lent", "outer")

    def __init__(self, graph: Graph, axes: tuple[str, ...], *, is_lent: bool = False) -> None:
        self.graph = graph
        self.axes = axes
        self.outer = graph.scope
        self.indices: dict[str, Value] = {}
        self.lent: dict[str, str] | None = {} if is_lent else None


class Graph:
    """Operations in order, from parameters to results.

    Attributes
    ----------
    parameters, results : list of Value
    ops : list of Op
    parent : Graph or None
        The graph in whose trace it is made; None of an outermost one, and of a region that any
        operations may share.
    captures : dict of Value to Value
        Values of the parent that are used here, and what stands for each here. They are no
        parameters: a region of StableHLO may name values around it.
    constants : dict of tuple to Op
        The operations of constants, by what they hold; one for equal ones.
    uses : list of (int, tuple)
        For each time that a constant was requested, how many operations there were before, and
        which one it was.
    hidden : dict of int to (object, Value)
        Of the outermost graph: arrays that the function closes over, by identity, and the
        parameters that stand for them.
    mesh : object or None
        The mesh whose ``manual_axes`` are bound here, in a manual computation.
    scope : Scope or None
        The innermost manual computation around the operations.
    unchecked : frozenset of str
        The manual axes along which every value here counts as varying: who made the computation
        vouches for what is the same.
    meshes : dict of object to None
        Of the outermost graph: the meshes that its operations name, in order.
    takes_static : bool
        Whether its parameters are arguments of a function that `jit` was given, which may be
        static: not of one that is differentiated, or the body of another operation.
    """

    __slots__ = (
        "captures",
        "constants",
        "hidden",
        "manual_axes",
        "mesh",
        "meshes",
        "name",
        "ops",
        "parameters",
        "parent",
        "results",
        "scope",
        "takes_static",
        "unchecked",
        "uses",
    )

    def __init__(self, parent: Graph | None = None, name: str = "") -> None:
        self.parent = parent
        self.name = name
        self.parameters: list[Value] = []
        self.ops: list[Op] = []
        self.results: list[Value] = []
        self.captures: dict[Value, Value] = {}
        self.constants: dict[Any, Op] = {}
        self.uses: list[tuple[int, Any]] = []
        self.hidden: dict[int, tuple[Any, Value]] = {}
        self.mesh: Any = None if parent is None else parent.mesh
        self.manual_axes: tuple[str, ...] = () if parent is None else parent.manual_axes
        self.scope: Scope | None = None if parent is None else parent.scope
        self.unchecked: frozenset[str] = _NONE if parent is None else parent.unchecked
        self.takes_static = False
        self.meshes: dict[Any, None] = {}

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
