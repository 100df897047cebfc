"""`pmap` over processes: each passes and gets the rows of its own devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devrt.arrays import Array, make_array_from_process_local_data
from devrt.errors import InvalidArgumentError
from devrt.sharding import Mesh, NamedSharding, is_addressable
from devrt.tracing import at_user_line

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["global_size", "joined", "own_part", "spans"]


def spans(devices: Sequence[Device]) -> bool:
    """Return whether some devices are other processes'."""
    return not all(map(is_addressable, devices))


def global_size(name: str, path: str, size: int, devices: Sequence[Device]) -> int:
    """Return how long a divided dimension is in all, of which this process has its own rows.

    Raises
    ------
    InvalidArgumentError
        If it has not one for each of its devices.
    """
    local = sum(map(is_addressable, devices))
    if size != local:
        msg = (
            f"pmap: {name} runs on {len(devices)} devices of several processes, of which "
            f"{local} are this one's, and argument {path} has {size} rows{at_user_line()}. Pass "
            "one for each device of this process, or give devices=devrt.local_devices()."
        )
        raise InvalidArgumentError(msg, size=size, devices=local)
    return len(devices)


def joined(leaf: Any, sharding: NamedSharding) -> Array:
    """Return the array over all processes of what this one passes."""
    if isinstance(leaf, Array):
        if not leaf.is_fully_addressable:
            return leaf
        if leaf.sharding.is_equivalent_to(_local(sharding), leaf.ndim):
            return Array(leaf._buffers, sharding, _shape(leaf.shape, sharding, grows=True))
    made: Array = make_array_from_process_local_data(sharding, leaf)
    return made


def own_part(array: Array) -> Array:
    """Return what this process has of a result, as an array over its own devices."""
    sharding = array.sharding
    assert isinstance(sharding, NamedSharding)
    return Array(array._buffers, _local(sharding), _shape(array.shape, sharding, grows=False))


def _local(sharding: NamedSharding) -> NamedSharding:
    return NamedSharding(_mesh(sharding).local_mesh, sharding.spec)


def _mesh(sharding: NamedSharding) -> Mesh:
    assert isinstance(sharding.mesh, Mesh)
    return sharding.mesh


def _shape(shape: tuple[int, ...], sharding: NamedSharding, *, grows: bool) -> tuple[int, ...]:
    """Return the shape of all rows for that of this process's, or the other way round."""
    local, whole = _mesh(sharding).local_mesh.size, sharding.mesh.size
    entries = [*sharding.spec, *(None,) * (len(shape) - len(sharding.spec))]
    pairs = zip(shape, entries, strict=True)
    by, per = (whole, local) if grows else (local, whole)
    return tuple(n if entry is None else n * by // per for n, entry in pairs)
