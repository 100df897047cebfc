"""`with_sharding_constraint`: values of a traced function that lie as is requested."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt._pytree import array_trees
from devrt.arrays import device_put
from devrt.arrays.constrain import check_fits, constrained
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.programs.jit import JitFunction
from devrt.programs.specs import spread
from devrt.programs.tracebacks import shortened
from devrt.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    current_mesh,
)
from devrt.tracing import at_user_line, current_graph, is_tracing

__all__ = ["with_sharding_constraint"]

_NAME = "with_sharding_constraint"
_MISSING: Any = object()


@shortened
def with_sharding_constraint(x: Any, shardings: Any = _MISSING, *, sharding: Any = _MISSING) -> Any:
    """Return values that lie as shardings say.

    Parameters
    ----------
    x
        A tree of values. In a traced function the compiler divides them so; outside of one it is a
        `devrt.device_put`.
    shardings, sharding
        Two names for one: a sharding for all, or a tree of shardings that is a beginning of ``x``.
        A `PartitionSpec` is over the mesh that is entered; its ``UNCONSTRAINED`` dimensions are
        left to the compiler. None constrains nothing.

    Raises
    ------
    InvalidTypeError
        If it is given no sharding, or by both names.
    InvalidArgumentError
        If there is no mesh for a spec, or a sharding does not divide its value.
    """
    if (shardings is _MISSING) == (sharding is _MISSING):
        msg = f"{_NAME} takes a value and its sharding{at_user_line()}, once."
        raise InvalidTypeError(msg, operation=_NAME)
    shardings = sharding if shardings is _MISSING else shardings
    leaves, structure = array_trees.tree_flatten(x)
    given = spread(shardings, x, "with_sharding_constraint shardings", "value")
    paths = [array_trees.keystr(path) for path, _ in array_trees.tree_flatten_with_path(x)[0]]
    pairs = zip(paths, leaves, given, strict=True)
    return array_trees.tree_unflatten(structure, [_constrained(*each) for each in pairs])


def _constrained(path: str, leaf: Any, given: Any) -> Any:
    if given is None:
        return leaf
    sharding = _named(given)
    if not is_tracing():
        check_fits(path, np.shape(leaf), sharding, _NAME)
        if PartitionSpec.UNCONSTRAINED in sharding.spec:
            return JitFunction(lambda value: _constrained(path, value, sharding))(leaf)
        return device_put(leaf, sharding)
    return constrained(leaf, sharding, _NAME, path)


def _named(given: Any) -> NamedSharding:
    """Return a constraint as a sharding over a mesh."""
    if isinstance(given, PartitionSpec):
        return NamedSharding(_current_mesh(given), given)
    if isinstance(given, SingleDeviceSharding):
        (device,) = given.device_set
        return NamedSharding(Mesh([device], ("device",)), PartitionSpec())
    if not isinstance(given, Sharding):
        msg = (
            "with_sharding_constraint takes a sharding or a PartitionSpec, not "
            f"{given!r:.80} of type {type(given).__name__}."
        )
        raise InvalidTypeError(msg, sharding=given)
    if not isinstance(given, NamedSharding):
        msg = (
            f"with_sharding_constraint takes shardings over meshes, not {given}: a program names "
            "how values lie by a mesh's axes. Write a devrt.NamedSharding."
        )
        raise UnimplementedError(msg, operation="with_sharding_constraint")
    return given


def _current_mesh(spec: PartitionSpec) -> Mesh | AbstractMesh:
    mesh = (current_graph().mesh if is_tracing() else None) or current_mesh()
    if mesh is None:
        msg = (
            f"with_sharding_constraint got {spec} and no mesh is entered{at_user_line()}. Enter "
            "one with devrt.set_mesh(mesh), or give devrt.NamedSharding(mesh, spec)."
        )
        raise InvalidArgumentError(msg, spec=spec)
    found: Mesh | AbstractMesh = mesh
    return found
