"""`shard_map`: a function that runs on each device of a mesh, with its part of the arguments."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from devrt._pytree import array_trees
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.arguments import check_callable, name_of
from devrt.programs.jit import JitFunction
from devrt.programs.specs import check_axes, check_shape, named_leaves, spread
from devrt.programs.tracebacks import shorten
from devrt.programs.traced import values_of
from devrt.sharding import AbstractMesh, Mesh, PartitionSpec, current_mesh
from devrt.tracing import (
    Value,
    as_value,
    at_user_line,
    axes_in,
    current_graph,
    is_tracing,
    manual_computation,
)

__all__ = ["shard_map", "smap"]

_MISSING: Any = object()


def shard_map(
    f: Any = None,
    mesh: Mesh | AbstractMesh | None = None,
    in_specs: Any = _MISSING,
    out_specs: Any = _MISSING,
    check_rep: bool | None = None,
    *,
    check_vma: bool | None = None,
    axis_names: Iterable[str] = frozenset(),
    auto: Iterable[str] = frozenset(),
) -> Any:
    """Return a function that runs on each device of a mesh, with its part of the arguments.

    Parameters
    ----------
    f
        The function. It takes positional arguments: trees of arrays, of which it sees the device's
        part. The collectives of `devrt.lax` know the mesh's axes in it.
    mesh
        The mesh; by default the one that is entered (`devrt.set_mesh`, ``with mesh:``), or of the
        ``shard_map`` around it.
    in_specs
        How the arguments are divided: a tree of `PartitionSpec` that is a beginning of theirs. What
        no entry names is whole on each device. None passes an argument as it is.
    out_specs
        How the parts that ``f`` returns make up the results, likewise. An axis that is not named is
        a promise that its devices return the same.
    check_rep, check_vma
        Two names for one: whether that promise is checked, which is the default.
    axis_names
        The axes that ``f`` sees, if not all: others are left to the compiler, which divides values
        over them as it does outside.
    auto
        The axes that ``f`` does not see, in place of ``axis_names``.

    Returns
    -------
    callable
        The function of whole arguments; without ``f``, what takes it, for a decorator. It works in
        traced functions and outside of them, where it runs as a program.

    Raises
    ------
    InvalidTypeError
        If ``f`` cannot be called, or specs are missing. Calls raise it for a spec that is none.
    InvalidArgumentError
        Calls raise it for specs that do not fit the mesh or the arguments, and for results that are
        not known to be equal on devices that ``out_specs`` does not tell apart.
    """
    if f is None:
        return functools.partial(
            shard_map,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            check_rep=check_rep,
            check_vma=check_vma,
            axis_names=axis_names,
            auto=auto,
        )
    check_callable("shard_map", f)
    if in_specs is _MISSING or out_specs is _MISSING:
        missing = "in_specs" if in_specs is _MISSING else "out_specs"
        msg = f"shard_map needs {missing}: a tree of devrt.P(...), devrt.P() for a whole value."
        raise InvalidTypeError(msg, operation="shard_map")
    if None not in (check_rep, check_vma) and check_rep != check_vma:
        msg = "shard_map got check_rep and check_vma, two names for one, with different values."
        raise InvalidArgumentError(msg, operation="shard_map")
    is_checked = check_vma is not False and check_rep is not False
    names = frozenset((axis_names,) if isinstance(axis_names, str) else axis_names)
    mapping = _Mapping(f, mesh, in_specs, out_specs, is_checked, names, frozenset(auto))
    return _known(mapping)


smap = shard_map


class _Mapping(NamedTuple):
    """What `shard_map` was given."""

    function: Callable[..., Any]
    mesh: Any
    in_specs: Any
    out_specs: Any
    is_checked: bool
    axis_names: frozenset[str]
    auto: frozenset[str]

    @property
    def name(self) -> str:
        return name_of(self.function)

    def __call__(self, *args: Any) -> Any:
        """Trace the function for some arguments, in the current trace."""
        mesh, axes = _bound(self)
        specs = spread(self.in_specs, args, "shard_map in_specs", f"arguments of {self.name}")
        leaves = named_leaves(self.function, args)
        for spec, (path, leaf) in zip(specs, leaves, strict=True):
            if spec is not None:
                check_axes(spec, mesh, axes, f"shard_map: the spec of argument {path}")
                what = f"shard_map: argument {path} of {self.name}"
                check_shape(as_value(leaf).aval, spec, mesh, what)
        divided = [i for i, spec in enumerate(specs) if spec is not None]
        out_tree: Any = None

        def body(*parts: Any) -> tuple[list[Any], list[PartitionSpec]]:
            nonlocal out_tree
            inner = [leaf for _, leaf in leaves]
            for i, part in zip(divided, parts, strict=True):
                inner[i] = part
            structure = array_trees.tree_structure(args)
            returned = self.function(*array_trees.tree_unflatten(structure, inner))
            results, out_tree = values_of(returned, self.name)
            what = f"result of {self.name}"
            out_specs = spread(self.out_specs, returned, "shard_map out_specs", what)
            self._check_results(returned, results, out_specs, mesh, axes)
            return results, out_specs

        operands = [leaves[i][1] for i in divided]
        taken = [specs[i] for i in divided]
        found = manual_computation(mesh, axes, operands, taken, body, is_checked=self.is_checked)
        return array_trees.tree_unflatten(out_tree, found)

    def _check_results(
        self,
        returned: Any,
        results: Sequence[Value],
        specs: Sequence[Any],
        mesh: Any,
        axes: Sequence[str],
    ) -> None:
        paths = [
            array_trees.keystr(path) for path, _ in array_trees.tree_flatten_with_path(returned)[0]
        ]
        wrong = []
        for path, value, spec in zip(paths, results, specs, strict=True):
            what = f"the result{path and f' at {path}'} of {self.name}"
            check_axes(spec, mesh, axes, f"shard_map: the spec of {what}")
            if len(spec) > value.aval.ndim:
                raise _too_long(what, value, spec)
            different = sorted((value.varying & set(axes)) - set(axes_in(spec)))
            if different:
                names = ", ".join(map(repr, different))
                wrong.append(f"{what}, {value.aval}, may differ along {names}, and its spec {spec}")
        if wrong and self.is_checked:
            raise _not_replicated(wrong)


def _known(mapping: _Mapping) -> Callable[..., Any]:
    """Return the function; the same one where a function was mapped so before.

    Programs belong to functions: they are kept at the one that was given, as long as that lives.
    """
    function = mapping.function
    if not isinstance(function, types.FunctionType):
        return _outside(mapping)
    trees = [array_trees.tree_flatten(specs) for specs in (mapping.in_specs, mapping.out_specs)]
    key = (
        *(each for leaves, tree in trees for each in (*leaves, tree)),
        mapping.mesh,
        *mapping[4:],
    )
    try:
        known = function.__dict__.setdefault("__devrt_shard_maps__", {})
        found: Callable[..., Any] = known.get(key) or known.setdefault(key, _outside(mapping))
    except TypeError:  # what is no spec may have no hash; calls refuse it
        return _outside(mapping)
    return found


def _outside(mapping: _Mapping) -> Callable[..., Any]:
    """Return the function for traces and for arrays: outside of a trace it is a program."""
    function = mapping.function

    # Without the function's attributes: its programs are one of them.
    wraps = functools.partial(functools.wraps, updated=())

    @wraps(function)
    def traced(*args: Any) -> Any:
        return mapping(*args)

    program, has_objects = JitFunction(traced), _is_none_in(mapping.in_specs)

    @wraps(function)
    def mapped(*args: Any) -> Any:
        if is_tracing():
            return mapping(*args)
        try:
            return _with_objects(mapping, args) if has_objects else program(*args)
        except Exception as error:
            shorten(error)
            raise

    return mapped


def _is_none_in(specs: Any) -> bool:
    return any(spec is None for spec in array_trees.tree_leaves(specs, is_leaf=lambda x: x is None))


def _with_objects(mapping: _Mapping, args: tuple[Any, ...]) -> Any:
    """Run a function of which some arguments are passed as they are: they are closed over."""
    what = f"arguments of {mapping.name}"
    specs = spread(mapping.in_specs, args, "shard_map in_specs", what)
    leaves, structure = array_trees.tree_flatten(args)
    divided = [leaf for leaf, spec in zip(leaves, specs, strict=True) if spec is not None]

    @functools.wraps(mapping.function)
    def closed(*given: Any) -> Any:
        rest = iter(given)
        pairs = zip(leaves, specs, strict=True)
        inner = [leaf if spec is None else next(rest) for leaf, spec in pairs]
        return mapping(*array_trees.tree_unflatten(structure, inner))

    return JitFunction(closed)(*divided)


def _bound(mapping: _Mapping) -> tuple[Any, tuple[str, ...]]:
    """Return the mesh, and the axes of it that the function sees, in the mesh's order."""
    graph = current_graph()
    mesh = mapping.mesh or graph.mesh or current_mesh()
    if mesh is None:
        msg = (
            f"shard_map of {mapping.name} has no mesh{at_user_line()}. Give one with mesh=, or "
            "enter one with devrt.set_mesh(mesh)."
        )
        raise InvalidArgumentError(msg, operation="shard_map")
    if not isinstance(mesh, Mesh | AbstractMesh):
        msg = f"shard_map takes a devrt.Mesh, not {mesh!r:.80} of type {type(mesh).__name__}."
        raise InvalidTypeError(msg, operation="shard_map")
    if graph.mesh is not None and _abstract(graph.mesh) != _abstract(mesh):
        msg = (
            f"shard_map of {mapping.name} is over {mesh}, within one over "
            f"{graph.mesh}{at_user_line()}: they must be over one mesh. Give both its axes."
        )
        raise InvalidArgumentError(msg, operation="shard_map")
    return graph.mesh or mesh, _axes(mapping, mesh, graph.manual_axes)


def _abstract(mesh: Any) -> AbstractMesh:
    found: AbstractMesh = mesh.abstract_mesh if isinstance(mesh, Mesh) else mesh
    return found


def _axes(mapping: _Mapping, mesh: Any, outer: Sequence[str]) -> tuple[str, ...]:
    free = [axis for axis in mesh.axis_names if axis not in outer]
    given = mapping.axis_names or frozenset(free) - mapping.auto
    unknown = sorted(map(repr, (mapping.axis_names | mapping.auto) - set(mesh.axis_names)))
    taken = sorted(map(repr, given & set(outer)))
    if unknown or taken or not given:
        what = (
            f"names {', '.join(unknown)}"
            if unknown
            else f"binds {', '.join(taken)}, which one around it binds"
            if taken
            else "has no axis left to bind"
        )
        msg = (
            f"shard_map of {mapping.name} {what}{at_user_line()}; the axes of the mesh are "
            f"{', '.join(map(repr, mesh.axis_names))}."
        )
        raise InvalidArgumentError(msg, axis_names=mesh.axis_names)
    return tuple(axis for axis in free if axis in given)


def _too_long(what: str, value: Value, spec: PartitionSpec) -> InvalidArgumentError:
    msg = (
        f"shard_map: {what} is {value.aval}, of {value.aval.ndim} dimensions, and its spec {spec} "
        f"has {len(spec)} entries{at_user_line()}. Give at most one entry per dimension; a scalar "
        "becomes a vector of one with x[None]."
    )
    return InvalidArgumentError(msg, shape=value.aval.shape, spec=spec)


def _not_replicated(wrong: Sequence[str]) -> InvalidArgumentError:
    msg = (
        f"shard_map: {'; '.join(wrong)} says that all devices along it have the "
        f"same{at_user_line()}. Reduce it with devrt.lax.psum or pmean, name the axis in "
        "out_specs, or, if you know that it is the same, give check_vma=False."
    )
    return InvalidArgumentError(msg, results=tuple(wrong))
