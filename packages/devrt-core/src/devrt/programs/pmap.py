"""`pmap`: a function that runs on several devices, each with its part of a dimension."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from devrt._pytree import array_trees
from devrt.arrays import Array
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.programs.arguments import check_callable, name_of
from devrt.programs.jit import JitFunction
from devrt.programs.parameter import moved_for
from devrt.programs.pmap_processes import global_size, joined, own_part, spans
from devrt.programs.specs import named_leaves, spread
from devrt.programs.tracebacks import shortened
from devrt.programs.traced import values_of
from devrt.runtime import devices, local_devices
from devrt.sharding import Mesh, NamedSharding, PartitionSpec
from devrt.tracing import (
    at_user_line,
    current_graph,
    expand_dims,
    is_tracing,
    manual_computation,
    squeeze,
)

__all__ = ["pmap"]

_AXIS = "devices"  # the axis of a pmap that names none


def pmap(
    fun: Any = None,
    axis_name: str | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Return a function that runs on several devices, each with its part of a dimension.

    Parameters
    ----------
    fun
        The function. It sees arguments without the dimension that is divided, and returns results
        without it.
    axis_name
        What the collectives of `devrt.lax` call the devices. Where it is left out, they may call
        them by any one name.
    in_axes
        The dimension of each argument that is divided: a tree that is a beginning of the positional
        arguments, or one for all. None gives all devices the whole argument. Arguments by name are
        divided along dimension 0.
    out_axes
        Where that dimension stands in the results, likewise. None gives the result of the first
        device.
    static_broadcasted_argnums
        Positional arguments that are passed as they are: they must be hashable.
    devices
        The devices; by default the first ones of the default platform, as many as are needed. In a
        job of several processes the devices of all: each process passes, and gets, as many rows as
        it has devices, and the collectives span them all.
    backend
        The platform whose devices are taken.
    axis_size
        How many devices there are; by default as the arguments' dimension is long.
    donate_argnums
        Arguments whose memory the program may take over.

    Returns
    -------
    callable
        The function. Its results are divided over the devices along ``out_axes``.

    Raises
    ------
    InvalidArgumentError
        Calls raise it if there are too few devices, or the sizes of the dimensions differ.
    """
    options: dict[str, Any] = {
        "in_axes": in_axes,
        "out_axes": out_axes,
        "static_broadcasted_argnums": static_broadcasted_argnums,
        "devices": devices,
        "backend": backend,
        "axis_size": axis_size,
        "donate_argnums": donate_argnums,
    }
    if fun is None:
        return functools.partial(pmap, axis_name=axis_name, **options)
    check_callable("pmap", fun)
    return PmapFunction(fun, axis_name, **options)


class _Call(NamedTuple):
    """What calls have in common that are divided alike."""

    mesh: Mesh
    axes: tuple[int | None, ...]
    structure: Any
    statics: tuple[tuple[int, Any], ...]


class PmapFunction:
    """A function that runs on several devices; see `pmap`."""

    def __init__(self, function: Callable[..., Any], axis_name: str | None, **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._axis_name = axis_name
        self._in_axes, self._out_axes = options["in_axes"], options["out_axes"]
        self._statics = _numbers(options["static_broadcasted_argnums"])
        self._donated = _numbers(options["donate_argnums"])
        self._devices, self._backend = options["devices"], options["backend"]
        if self._devices is not None and not len(self._devices):
            msg = f"pmap: devices of {self._name} is empty. Name some, or None for the backend's."
            raise InvalidArgumentError(msg, devices=self._devices)
        self._axis_size = options["axis_size"]
        self._ready: dict[Any, tuple[JitFunction, list[NamedSharding]]] = {}
        self._programs: dict[Any, JitFunction] = {}
        self._meshes: dict[tuple[Any, ...], Mesh] = {}

    @property
    def _name(self) -> str:
        return name_of(self.__wrapped__)

    @shortened
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on the devices; in a trace, add its operations. Does not wait."""
        leaves, structure, statics = self._taken_apart(args, kwargs)
        if is_tracing():
            return self._traced(self._divided(leaves, structure, statics), leaves)
        there = self._there()
        key = structure, tuple(map(np.shape, leaves)), statics, there
        try:
            found = self._ready.get(key)
        except TypeError:
            raise _unhashable(self._name, statics) from None
        if found is None:
            call = self._divided(leaves, structure, statics)
            shardings = [_sharding(call.mesh, axis) for axis in call.axes]
            found = self._ready[key] = self._program(call), shardings
        program, shardings = found
        is_over_processes = spans(there)
        put = joined if is_over_processes else _placed
        placed = [put(x, s) for x, s in zip(leaves, shardings, strict=True)]
        made = program(*placed)
        if is_over_processes:
            made = array_trees.tree_map(own_part, made)
        if self._donated:
            _delete_sources(leaves, placed)
        return made

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function as StableHLO for some arguments."""
        leaves, structure, statics = self._taken_apart(args, kwargs)
        call = self._divided(leaves, structure, statics)
        if spans(self._there()):
            shardings = [_sharding(call.mesh, axis) for axis in call.axes]
            leaves = [joined(x, s) for x, s in zip(leaves, shardings, strict=True)]
        return self._program(call).lower(*leaves)

    def _program(self, call: _Call) -> JitFunction:
        """Return the program of a call; one for all that are divided alike."""
        found = self._programs.get(call)
        if found is None:
            found = self._programs[call] = self._made(call)
        return found

    def _made(self, call: _Call) -> JitFunction:
        @functools.wraps(self.__wrapped__, assigned=("__name__", "__qualname__", "__module__"))
        def traced(*leaves: Any) -> Any:
            return self._traced(call, leaves)

        del traced.__wrapped__
        args, _ = call.structure.unflatten(range(len(call.axes)))
        rows = zip(_places(len(args), call.statics), args, strict=True)
        donated = [i for place, arg in rows if place in self._donated for i in _leaves(arg)]
        return JitFunction(traced, donate_argnums=donated or None)

    def _taken_apart(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Any, tuple[tuple[int, Any], ...]]:
        """Return the leaves of a call, their structure, and the static arguments."""
        numbers = {n % len(args) if n < 0 and args else n for n in self._statics}
        statics = tuple((i, arg) for i, arg in enumerate(args) if i in numbers)
        dynamic = tuple(arg for i, arg in enumerate(args) if i not in numbers)
        return *array_trees.tree_flatten((dynamic, kwargs)), statics

    def _divided(self, leaves: list[Any], structure: Any, statics: Any) -> _Call:
        """Return the call with the dimension of each leaf that is divided, and over what."""
        dynamic, kwargs = structure.unflatten(leaves)
        in_axes = self._in_axes
        if isinstance(in_axes, list | tuple):
            kept = _places(len(in_axes) - len(statics), statics)
            in_axes = tuple(in_axes if len(in_axes) == len(dynamic) else [in_axes[i] for i in kept])
        axes = spread(in_axes, dynamic, "pmap in_axes", f"arguments of {self._name}")
        axes += [0] * (len(leaves) - len(axes))
        named = named_leaves(self.__wrapped__, dynamic)
        named += [(f"of {sorted(kwargs)}", leaf) for leaf in leaves[len(named) :]]
        found = tuple(self._checked(*each) for each in zip(named, axes, strict=True))
        size = self._size([(path, leaf, a) for (path, leaf), a in zip(named, found, strict=True)])
        return _Call(self._mesh(size), found, structure, statics)

    def _checked(self, named: tuple[str, Any], axis: Any) -> int | None:
        path, leaf = named
        if axis is None:
            return None
        ndim = np.ndim(leaf)
        if isinstance(axis, bool) or not isinstance(axis, int) or not -ndim <= axis < ndim:
            msg = (
                f"pmap: argument {path} of {self._name} has the shape {np.shape(leaf)}, of which "
                f"in_axes divides dimension {axis!r}{at_user_line()}. Name a dimension of it, or "
                "None to give it to all devices whole."
            )
            raise InvalidArgumentError(msg, axis=axis)
        return axis % ndim

    def _size(self, leaves: Sequence[tuple[str, Any, int | None]]) -> int:
        """Return how many devices the arguments, or the options, ask for."""
        sizes = {path: np.shape(leaf)[axis] for path, leaf, axis in leaves if axis is not None}
        there = self._there()
        if spans(there) and not is_tracing():
            sizes = {p: global_size(self._name, p, n, there) for p, n in sizes.items()}
        given = self._axis_size
        if given is None and self._devices is not None and not sizes:
            given = len(self._devices)
        different = set(sizes.values()) | ({given} if given is not None else set())
        if len(different) > 1:
            shown = ", ".join(f"{path} has {size}" for path, size in sizes.items())
            shown += f", axis_size is {given}" if given is not None else ""
            msg = (
                f"pmap: the dimensions of the arguments of {self._name} that are divided are of "
                f"different sizes{at_user_line()}: {shown}."
            )
            raise InvalidArgumentError(msg, sizes=tuple(sizes.values()))
        if not different:
            msg = (
                f"pmap: no argument of {self._name} is divided{at_user_line()}, so that the number "
                "of devices is not known. Give axis_size."
            )
            raise InvalidArgumentError(msg, operation="pmap")
        return int(different.pop())

    def _there(self) -> tuple[Any, ...]:
        """Return the devices that may be taken: in a trace, by default, this process's."""
        if self._devices is not None:
            return tuple(self._devices)
        find = local_devices if is_tracing() else devices
        return tuple(find(backend=self._backend))

    def _mesh(self, size: int) -> Mesh:
        there = self._there()
        if len(there) < size or (self._devices is not None and len(there) != size):
            msg = (
                f"pmap: {self._name} is to run on {size} devices, and there are "
                f"{len(there)}{at_user_line()}. Divide the dimension into parts, one for each "
                "device, or use devrt.shard_map."
            )
            raise InvalidArgumentError(msg, size=size, devices=len(there))
        key = there[:size]
        if key not in self._meshes:
            self._meshes[key] = Mesh(list(key), (self._axis_name or _AXIS,))
        return self._meshes[key]

    def _traced(self, call: _Call, leaves: Sequence[Any]) -> Any:
        """Add the operations of a call to the current trace."""
        if current_graph().manual_axes:
            msg = (
                f"pmap of {self._name} is called in a function that runs on each device by "
                f"itself{at_user_line()}. Use one devrt.shard_map over a mesh of more axes."
            )
            raise UnimplementedError(msg, operation="pmap")
        mesh = call.mesh
        specs = [_spec(mesh, axis) for axis in call.axes]
        out_tree: Any = None

        def body(*parts: Any) -> tuple[list[Any], list[PartitionSpec]]:
            nonlocal out_tree
            inner = [_without(x, a) for x, a in zip(parts, call.axes, strict=True)]
            args, kwargs = call.structure.unflatten(inner)
            rest = list(args)
            for place, value in call.statics:
                rest.insert(place, value)
            returned = self.__wrapped__(*rest, **kwargs)
            given, out_tree = values_of(returned, self._name)
            axes = spread(self._out_axes, returned, "pmap out_axes", f"result of {self._name}")
            pairs = list(zip(given, axes, strict=True))
            found = [a if a is None else _end(self._name, x, a) for x, a in pairs]
            results = [_with(x, a) for (x, _), a in zip(pairs, found, strict=True)]
            return results, [_spec(mesh, axis) for axis in found]

        found = manual_computation(
            mesh,
            mesh.axis_names,
            leaves,
            specs,
            body,
            is_checked=False,
            is_lent=self._axis_name is None,
        )
        return array_trees.tree_unflatten(out_tree, found)


def _numbers(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


def _places(count: int, statics: Sequence[tuple[int, Any]]) -> list[int]:
    """Return the positions of the arguments that are not static."""
    fixed = {place for place, _ in statics}
    return [i for i in range(count + len(fixed)) if i not in fixed]


def _leaves(tree: Any) -> list[Any]:
    return array_trees.tree_leaves(tree)


def _spec(mesh: Mesh, axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, mesh.axis_names[0])


def _sharding(mesh: Mesh, axis: int | None) -> NamedSharding:
    return NamedSharding(mesh, _spec(mesh, axis))


def _placed(leaf: Any, sharding: NamedSharding) -> Any:
    """Return an argument on the devices: it moves there from wherever it is, as in JAX."""
    if (
        type(leaf) is Array
        and leaf.committed
        and leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
    ):
        return leaf
    return moved_for("calling a pmapped function", leaf, sharding)


def _delete_sources(leaves: Sequence[Any], placed: Sequence[Any]) -> None:
    """Delete arrays whose copies, placed for a call, were donated to it."""
    for leaf, array in zip(leaves, placed, strict=True):
        if array is not leaf and type(leaf) is Array and array.is_deleted():
            leaf.delete()


def _without(x: Any, axis: int | None) -> Any:
    return x if axis is None else squeeze(x, axis)


def _with(x: Any, axis: int | None) -> Any:
    return x if axis is None else expand_dims(x, axis)


def _end(name: str, x: Any, axis: Any) -> int:
    ndim: int = x.aval.ndim + 1
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        msg = (
            f"pmap: a result of {name} is {x.aval} on each device, and out_axes is "
            f"{axis!r}{at_user_line()}: the new dimension is one of {ndim}, or None."
        )
        raise InvalidArgumentError(msg, axis=axis)
    return axis % ndim


def _unhashable(name: str, statics: Sequence[tuple[int, Any]]) -> InvalidTypeError:
    shown = ", ".join(f"{i}: {type(value).__name__}" for i, value in statics)
    msg = (
        f"pmap: static_broadcasted_argnums of {name} are of types without a hash ({shown}): static "
        "values decide which program runs. Pass tuples in place of lists."
    )
    return InvalidTypeError(msg, operation="pmap")
