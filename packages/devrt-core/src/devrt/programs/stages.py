"""The stages of a traced function: traced, lowered to StableHLO, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devrt._pytree import array_trees
from devrt.arrays import ShapeDtypeStruct
from devrt.compiling.memory_stats import CompiledMemoryStats
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.programs.across import by_calls
from devrt.programs.chosen_shardings import named_sharding, nearest_sharding
from devrt.programs.launch import Launch
from devrt.programs.leaves import Kind, kinds_of
from devrt.programs.lowering import across, compiled, donations, hidden_sharding, printed
from devrt.programs.parameter import formats_of
from devrt.programs.placement import Placement, Requests, placement_of
from devrt.programs.sdy import as_stated
from devrt.sharding import (
    Drawn,
    GSPMDSharding,
    NamedSharding,
    PartitionSpec,
    Sharding,
    shards_html,
    single_device_sharding,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from devrt.contract import Device, LoadedExecutable
    from devrt.programs.traced import Trace
    from devrt.tracing import Printed

__all__ = ["Compiled", "Lowered", "Traced"]


class Stage:
    """What each stage knows of the function.

    Attributes
    ----------
    fun_name : str
        The function's name.
    in_tree, out_tree : PyTreeDef
        The structure of the arguments, as (positional, by name), static ones apart; and that of
        what the function returns.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.fun_name = trace.name
        self.in_tree = trace.in_tree
        self.out_tree = trace.out_tree

    @property
    def in_avals(self) -> Any:
        """Shape and dtype of each argument, in the tree of the arguments."""
        return self.in_tree.unflatten(self._trace.avals)

    @property
    def args_info(self) -> Any:
        """A description of each argument, in the tree of the arguments."""
        return self.in_tree.unflatten([_described(aval) for aval in self._trace.avals])

    @property
    def out_info(self) -> Any:
        """A description of each result, in the tree of what the function returns."""
        return self.out_tree.unflatten([_described(aval) for aval in self._trace.out_avals])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The leaves whose memory is given to the program, counted from 0."""
        return tuple(i for i, is_donated in enumerate(self._trace.donated) if is_donated)


class Traced(Stage):
    """A function that was traced for some arguments; see `Stage` for its attributes."""

    def __init__(
        self,
        trace: Trace,
        kinds: Sequence[Kind],
        requests: Requests,
        default: Device | None,
        options: dict[str, Any],
    ) -> None:
        super().__init__(trace)
        self._options = options
        self._kinds = kinds
        self._requests = requests
        self._default = default

    def lower(self) -> Lowered:
        """Return the function as StableHLO, for where its arguments lie."""
        placement = placement_of(self._trace, self._kinds, self._requests, self._default)
        return Lowered(self._trace, self._kinds, placement, self._options)


class Lowered(Stage):
    """A function as StableHLO; see `Stage` for its attributes."""

    def __init__(
        self,
        trace: Trace,
        kinds: Sequence[Kind],
        placement: Placement,
        options: dict[str, Any],
    ) -> None:
        super().__init__(trace)
        self._options = options
        self._kinds = kinds
        self._placement = placement
        self._donated = donations(trace)
        self._across = None
        if by_calls(placement.devices):
            self._across = across(trace, placement, self._donated)
            self._text = self._across.text
        else:
            self._text = printed(trace, placement, self._donated)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the program's text.

        Parameters
        ----------
        dialect
            ``"stablehlo"``, which is the default, or ``"hlo"``, which the compiler makes of it.
        debug_info
            Whether each line ends with the user's line that it is traced from, as a comment.
        """
        if dialect == "hlo":
            return self.compile().as_text()
        if dialect not in (None, "stablehlo"):
            msg = f"programs are printed as 'stablehlo' or 'hlo', not as {dialect!r}."
            raise InvalidArgumentError(msg, operation="as_text")
        if not debug_info:
            return self._text.text
        lines = self._text.text.split("\n")
        for number, frame in self._text.frames.items():
            lines[number - 1] += f"  // {frame}" if frame.line else ""
        return "\n".join(lines)

    def compiler_ir(self, dialect: str | None = None) -> str:
        """Return the program's text: devrt holds no other form of it."""
        return self.as_text(dialect)

    def cost_analysis(self) -> Any:
        """Return what running the program costs, as its compiler counts."""
        return self.compile().cost_analysis()

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Return the program, compiled and loaded on its devices.

        Parameters
        ----------
        compiler_options
            Compile options, as `Client.compile_and_load` takes them; other names are flags of the
            compiler.
        """
        options = {**self._options, **(compiler_options or {})}
        return Compiled(self, self.launch(lambda text: self.compiled(text, options)))

    def compiled(self, text: Printed, options: dict[str, Any] | None = None) -> LoadedExecutable:
        """Return what a text compiles to where the program runs."""
        options = self._options if options is None else options
        return compiled(text, self._placement, self.fun_name, options)

    def launch(self, compile_text: Callable[[Printed], LoadedExecutable]) -> Launch:
        """Return the program as calls use it.

        Results that the compiler divides as the axes of no mesh can name are pinned to what comes
        nearest, and the program is compiled again.
        """
        trace, placement = self._trace, self._placement
        executable = compile_text(self._text)
        if self._across is not None:
            traced = trace._replace(donated=self._donated)
            return self._across.launch(executable, traced, self._kinds, placement)
        chosen = _chosen(executable.get_output_shardings(), placement, len(trace.out_avals))
        results = _results(placement, chosen)
        if any(sharding is None for sharding in results):
            pinned = [
                near if found is None else wanted
                for found, wanted, near in zip(
                    results, placement.results, _nearest(chosen, placement), strict=True
                )
            ]
            self._placement = placement = placement._replace(results=tuple(pinned))
            self._text = printed(trace, placement, self._donated)
            executable = compile_text(self._text)
            chosen = _chosen(executable.get_output_shardings(), placement, len(pinned))
            results = _results(placement, chosen)
        results = _as_arguments_name_it(results, placement, trace)
        count = len(trace.hidden)
        self._tell_how_values_lie()
        takes = _chosen(
            executable.get_parameter_shardings(), placement, count + len(self._trace.avals)
        )
        hidden = [hidden_sharding(array, placement) for array in trace.hidden]
        given = [*hidden, *placement.arguments]
        arguments = [
            wanted if wanted is not None else found or _as_chosen(take, placement)
            for wanted, found, take in zip(given, _named(takes, placement), takes, strict=True)
        ]
        return Launch(
            executable,
            trace._replace(donated=self._donated),
            self._kinds,
            placement,
            arguments[:count],
            arguments[count:],
            [
                each or placement_default(placement)
                for each in as_stated(results, trace.graph, placement.results)
            ],
        )

    def _tell_how_values_lie(self) -> None:
        """Tell how inspected values lie, where they were compiled just now."""
        placement = self._placement
        for each in sorted(self._text.inspected, key=lambda each: each.order):
            if each.chosen is None:
                continue
            if len(placement.devices) == 1:
                each.callback(placement_default(placement))
                continue
            named = _by_a_mesh(each.chosen, placement)
            each.callback(named or GSPMDSharding(placement.devices, each.chosen))


class Compiled(Stage):
    """A compiled program as a function; see `Stage` for its attributes."""

    def __init__(self, lowered: Lowered, launch: Launch) -> None:
        super().__init__(lowered._trace)
        self._launch = launch
        self._kinds = lowered._kinds

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program. Arguments that are static are left out, as they are in it already.

        Raises
        ------
        InvalidArgumentError
            If the tree, or shape, dtype or placement of an argument does not fit.
        """
        leaves, tree = array_trees.tree_flatten((args, kwargs))
        if tree != self.in_tree:
            msg = (
                f"{self.fun_name} was compiled for arguments of the structure {self.in_tree}, and "
                f"these have {tree}. Static arguments are left out."
            )
            raise InvalidArgumentError(msg, operation="call")
        kinds = kinds_of(leaves, lambda: self._trace.paths)
        is_same = all(a is b for a, b in zip(kinds, self._kinds, strict=True))
        made = self._launch(leaves) if is_same else self._launch.checked(leaves)
        return self.out_tree.unflatten(made)

    def as_text(self) -> str:
        """Return the compiler's own program as text."""
        return self._launch.executable.get_hlo_text()

    def cost_analysis(self) -> Any:
        """Return what running the program costs, as its compiler counts."""
        return self._launch.executable.cost_analysis()

    def memory_analysis(self) -> CompiledMemoryStats | None:
        """Return what the program takes of a device's memory, in bytes; None if nobody knows."""
        try:
            figures = self._launch.executable.get_compiled_memory_stats()
            return CompiledMemoryStats.of(figures)
        except UnimplementedError:
            return None

    def runtime_executable(self) -> LoadedExecutable:
        """Return the executable of the client."""
        return self._launch.executable

    @property
    def input_shardings(self) -> Any:
        """How each argument is taken, in the tree of the arguments."""
        return self.in_tree.unflatten(self._launch.arguments)

    @property
    def output_shardings(self) -> Any:
        """How each result is given, in the tree of the results."""
        return self.out_tree.unflatten(self._launch.results)

    @property
    def input_formats(self) -> Any:
        """The layout and sharding of each argument, in the tree of the arguments."""
        layouts = self._launch.executable.get_parameter_layouts()
        layouts = layouts[len(layouts) - len(self._launch.arguments) :]
        return self.in_tree.unflatten(formats_of(layouts, self._launch.arguments))

    @property
    def out_info(self) -> Any:
        """A description of each result and where it lies, in the tree of the results."""
        pairs = zip(self._trace.out_avals, self._launch.results, strict=True)
        return self.out_tree.unflatten([_described(*each) for each in pairs])

    @property
    def output_formats(self) -> Any:
        """The layout and sharding of each result, in the tree of the results."""
        layouts = self._launch.executable.get_output_layouts()
        return self.out_tree.unflatten(formats_of(layouts, self._launch.results))

    def _repr_html_(self) -> str:
        """Draw, in a notebook, where each shard of the arguments and results lies."""
        pairs, _ = array_trees.tree_flatten_with_path(self.output_shardings)
        results = [f"result{array_trees.keystr(path)}" for path, _ in pairs]
        names = [*self._trace.paths, *results]
        avals = [*self._trace.avals, *self._trace.out_avals]
        shardings = [*self._launch.arguments, *self._launch.results]
        rows = zip(names, avals, shardings, strict=True)
        return shards_html(Drawn(name, str(a.dtype), a.shape, s) for name, a, s in rows)


def _described(aval: Any, sharding: Any = None) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)


def placement_default(placement: Placement) -> Sharding:
    """Return how what nobody placed lies: on the one device, or whole on each."""
    if placement.meshes:
        return NamedSharding(placement.meshes[0], PartitionSpec())
    return single_device_sharding(placement.devices[0])


def _chosen(shardings: Sequence[Any], placement: Placement, count: int) -> list[Any]:
    """Return the compiler's sharding of each tensor; None of all on one device."""
    # A program without results names the sharding of none of them.
    return list(shardings)[:count] if len(placement.devices) > 1 else [None] * count


def _named(chosen: Sequence[Any], placement: Placement) -> list[Sharding | None]:
    """Return the compiler's shardings by the axes of a mesh; None where there is none."""
    return [None if each is None else _by_a_mesh(each, placement) for each in chosen]


def _by_a_mesh(chosen: Any, placement: Placement) -> Sharding | None:
    if not placement.meshes:
        return GSPMDSharding(placement.devices, chosen)
    for mesh in placement.meshes:
        try:
            return named_sharding(chosen, mesh, placement.devices)
        except InvalidArgumentError:
            continue
    return None


def _as_chosen(chosen: Any, placement: Placement) -> Sharding:
    """Return the compiler's sharding of an argument as it is, where no mesh names it."""
    if chosen is None:
        return placement_default(placement)
    return GSPMDSharding(placement.devices, chosen)


def _results(placement: Placement, chosen: Sequence[Any]) -> list[Sharding | None]:
    """Return how each result is given; None where no mesh names it."""
    if len(placement.devices) == 1:
        there = placement_default(placement)
        return [wanted or there for wanted in placement.results]
    return [
        wanted if wanted is not None and not _is_open(wanted) else found
        for wanted, found in zip(placement.results, _named(chosen, placement), strict=True)
    ]


def _as_arguments_name_it(
    results: Sequence[Sharding | None], placement: Placement, trace: Trace
) -> list[Sharding | None]:
    """Return results' shardings, written as an argument's where that is the same division.

    An axis of one device may stand in a spec or not: a compiler's sharding does not tell.
    """
    named = zip(trace.avals, placement.arguments, strict=True)
    given = [(aval.shape, s) for aval, s in named if isinstance(s, NamedSharding)]
    found = []
    for aval, wanted, result in zip(trace.out_avals, placement.results, results, strict=True):
        like = (s for shape, s in given if shape == aval.shape and wanted is None and result)
        same = (s for s in like if s.is_equivalent_to(result, len(aval.shape)))
        found.append(next(same, result))
    return found


def _nearest(chosen: Sequence[Any], placement: Placement) -> list[Sharding]:
    mesh = placement.meshes[0]
    return [nearest_sharding(each, mesh, placement.devices) for each in chosen]


def _is_open(sharding: Sharding) -> bool:
    return isinstance(sharding, NamedSharding) and PartitionSpec.UNCONSTRAINED in sharding.spec
