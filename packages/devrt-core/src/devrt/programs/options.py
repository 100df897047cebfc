"""What a traced function's options ask for, for each leaf of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt._pytree import array_trees
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError
from devrt.layout import Format, Layout
from devrt.programs.placement import Requests, check_fits
from devrt.programs.sdy import over_mesh
from devrt.programs.specs import spread
from devrt.sharding import NamedSharding, PartitionSpec, Sharding, current_mesh
from devrt.tracing import sharding_constraint

if TYPE_CHECKING:
    from devrt.contract import Device
    from devrt.programs.traced import Trace

__all__ = ["Options"]


class Options:
    """The shardings and the place that a function's options ask for.

    Raises
    ------
    InvalidTypeError
        If one of the shardings is none.
    InvalidArgumentError
        If a device is given along with shardings or a backend.
    """

    def __init__(self, in_shardings: Any, out_shardings: Any, device: Any, backend: Any) -> None:
        _check("in_shardings", in_shardings)
        _check("out_shardings", out_shardings)
        is_placed = device is not None or backend is not None
        if is_placed and (in_shardings is not None or out_shardings is not None):
            msg = (
                "jit takes device or backend, or shardings, not both: a sharding names its "
                "devices. Leave one of them out."
            )
            raise InvalidArgumentError(msg, operation="jit")
        if device is not None and backend is not None:
            msg = "jit takes device or backend, not both: a device names its backend."
            raise InvalidArgumentError(msg, operation="jit")
        self._in, self._out = in_shardings, out_shardings
        self._device, self._backend = device, backend
        self.is_free = not is_placed and in_shardings is None and out_shardings is None

    def key(self) -> Any:
        """Return what is equal for options that ask for the same."""
        trees = array_trees.tree_flatten((self._in, self._out), _is_leaf)
        return tuple(trees[0]), trees[1], self._device, self._backend

    def device(self) -> Device | None:
        """Return where everything is to run; None where arguments decide.

        Raises
        ------
        InvalidTypeError
            If what was given is no device.
        """
        from devrt.contract import Device
        from devrt.runtime import default_runtime

        if self._backend is not None:
            return default_runtime().get_backend(self._backend).local_devices()[0]
        if self._device is None or isinstance(self._device, Device):
            return self._device
        msg = f"jit's device is a device of devrt.devices(), not {self._device!r}."
        raise InvalidTypeError(msg, operation="jit")

    def requests(self, trace: Trace) -> Requests:
        """Return what is requested for each leaf of a trace's arguments and results."""
        none = [None] * len(trace.out_avals)
        if self.is_free:
            return Requests([None] * len(trace.avals), none)
        args, kwargs = trace.in_tree.unflatten(range(len(trace.avals)))
        if self._in is not None and array_trees.tree_leaves(kwargs):
            msg = (
                f"{trace.name} has in_shardings, which are for positional arguments, and "
                f"{', '.join(map(repr, kwargs))} was given by name. Pass it by position."
            )
            raise InvalidArgumentError(msg, operation="jit")
        given = _broadcast("in_shardings", self._in, args, trace.name)
        arguments = [_sharding("in_shardings", each) for each in given]
        arguments += [None] * (len(trace.avals) - len(arguments))
        returned = trace.out_tree.unflatten(range(len(none)))
        given = _broadcast("out_shardings", self._out, returned, trace.name)
        results = [_sharding("out_shardings", each) for each in given]
        laid_out = [isinstance(getattr(each, "layout", None), Layout) for each in given]
        formats = [each if is_so else None for each, is_so in zip(given, laid_out, strict=True)]
        return Requests(arguments, results, self.device(), formats if any(laid_out) else ())

    def constrained_arguments(self, leaves: list[Any], tree: Any, function: str) -> list[Any]:
        """Return the arguments of a call in a trace, which the options' shardings constrain."""
        if self._in is None:
            return leaves
        args, kwargs = tree.unflatten(leaves)
        args = _constrained("in_shardings", self._in, args, function)
        constrained: list[Any] = array_trees.tree_leaves((args, kwargs))
        return constrained

    def constrained_results(self, results: Any, function: str) -> Any:
        """Return the results of a call in a trace, which the options' shardings constrain."""
        if self._out is None:
            return results
        return _constrained("out_shardings", self._out, results, function)


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def _constrained(name: str, prefix: Any, tree: Any, function: str) -> Any:
    """Return a tree of traced values that the compiler divides as is requested."""
    values, structure = array_trees.tree_flatten(tree)
    given = [_sharding(name, each) for each in _broadcast(name, prefix, tree, function)]
    made = [
        value if sharding is None else _constraint(name, value, over_mesh(sharding))
        for value, sharding in zip(values, given, strict=True)
    ]
    return structure.unflatten(made)


def _constraint(name: str, value: Any, sharding: NamedSharding) -> Any:
    check_fits(name, value.aval, sharding)
    return sharding_constraint(value, sharding.mesh, sharding.spec)


def _broadcast(name: str, prefix: Any, tree: Any, function: str) -> list[Any]:
    """Return what is given for each leaf of a tree by a tree that is a beginning of it."""
    what = "arguments" if name == "in_shardings" else "result"
    return spread(prefix, tree, f"jit {name}", f"{what} of {function}", _is_leaf)


def _sharding(name: str, given: Any) -> Sharding | None:
    if given is None or isinstance(given, Sharding):
        return given
    if isinstance(given, PartitionSpec):
        mesh = current_mesh()
        if mesh is None:
            msg = (
                f"{name} has the spec {given} without a mesh. Call the function within "
                "devrt.set_mesh(mesh) or `with mesh:`, or give NamedSharding(mesh, spec)."
            )
            raise InvalidArgumentError(msg, operation="jit")
        try:
            return NamedSharding(mesh, given)
        except DevrtError as error:
            msg = f"{name}: {error.message}"
            raise InvalidArgumentError(msg, operation="jit") from error
    sharding: Sharding | None = given.sharding  # a Format
    return sharding


def _check(name: str, given: Any) -> None:
    for path, leaf in array_trees.tree_flatten_with_path(given, _is_leaf)[0]:
        if not (leaf is None or isinstance(leaf, Sharding | PartitionSpec | Format)):
            msg = (
                f"{name}{array_trees.keystr(path)} is {leaf!r:.80} of type {type(leaf).__name__}. "
                "Give shardings, or None where the argument or the compiler decides."
            )
            raise InvalidTypeError(msg, operation="jit")
