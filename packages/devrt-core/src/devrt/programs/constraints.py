"""`with_sharding_constraint`: values of a traced function that lie as is requested."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt import tree_util
from devrt.arrays import device_put
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.programs.jit import JitFunction
from devrt.programs.specs import spread
from devrt.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    current_mesh,
)
from devrt.tracing import (
    as_value,
    at_user_line,
    axes_in,
    current_graph,
    is_tracing,
    sharding_constraint,
)

__all__ = ["with_sharding_constraint"]


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Return values that lie as shardings say.

    Parameters
    ----------
    x
        A tree of values. In a traced function the compiler divides them so; outside of one it is a
        `devrt.device_put`.
    shardings
        A sharding for all, or a tree of shardings that is a beginning of ``x``. A `PartitionSpec`
        is over the mesh that is entered; its ``UNCONSTRAINED`` dimensions are left to the compiler.
        None constrains nothing.

    Raises
    ------
    InvalidArgumentError
        If there is no mesh for a spec, or a sharding does not divide its value.
    """
    leaves, structure = tree_util.tree_flatten(x)
    given = spread(shardings, x, "with_sharding_constraint shardings")
    paths = [tree_util.keystr(path) for path, _ in tree_util.tree_leaves_with_path(x)]
    pairs = zip(paths, leaves, given, strict=True)
    return tree_util.tree_unflatten(structure, [_constrained(*each) for each in pairs])


def _constrained(path: str, leaf: Any, given: Any) -> Any:
    if given is None:
        return leaf
    sharding = _named(given)
    if not is_tracing():
        _check(path, np.shape(leaf), sharding)
        if PartitionSpec.UNCONSTRAINED in sharding.spec:
            return JitFunction(lambda value: _constrained(path, value, sharding))(leaf)
        return device_put(leaf, sharding)
    manual = current_graph().manual_axes
    bound = [axis for axis in axes_in(sharding.spec) if axis in manual]
    if bound:
        msg = (
            f"with_sharding_constraint: {sharding.spec} names {', '.join(map(repr, bound))}, which "
            f"the shard_map around it binds{at_user_line()}: each device has its own part along it "
            "already. Name other axes."
        )
        raise InvalidArgumentError(msg, spec=sharding.spec)
    if sharding.memory_kind != sharding.with_memory_kind(None).memory_kind:
        msg = (
            f"with_sharding_constraint got {sharding}{at_user_line()}: within a program all values "
            "are in the devices' default memory. Name the kind in jit's out_shardings, or move the "
            "result with devrt.device_put."
        )
        raise UnimplementedError(msg, operation="with_sharding_constraint")
    value = as_value(leaf)
    _check(path, value.aval.shape, sharding)
    return sharding_constraint(value, sharding.mesh, sharding.spec)


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


def _check(path: str, shape: tuple[int, ...], sharding: NamedSharding) -> None:
    try:
        sharding.check_compatible_aval(shape)
        sharding.shard_shape(shape)
    except DevrtError as error:
        what = f"with_sharding_constraint: the value{path and f' at {path}'}"
        msg = f"{what} does not fit its sharding{at_user_line()}: {error.message}"
        raise InvalidArgumentError(msg, shape=shape, sharding=str(sharding)) from error
