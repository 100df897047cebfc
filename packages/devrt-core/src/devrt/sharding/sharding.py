"""The base of all shardings: what they have in common, and what a subclass must bring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.sharding.abstract_mesh import remember
from devrt.sharding.device_list import DeviceList
from devrt.sharding.index_maps import Index, Placement
from devrt.sharding.partition import Shape
from devrt.sharding.shape import as_shape

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["Sharding"]

_MAX_PLACEMENTS = 64


class Sharding:
    """How an array of any shape lies on devices.

    A subclass implements `_device_assignment`, `devices_indices_map`, `is_fully_replicated`,
    `memory_kind` and `with_memory_kind`; everything else follows from these. Shardings are
    immutable, and equal ones must hash alike: arrays and programs keep them as keys.
    """

    # No ABCMeta: isinstance(x, Sharding) is on the path of every device_put, and costs eight
    # times as much through __instancecheck__.
    __slots__ = ("__weakref__", "_placements")

    _placements: dict[Shape, Placement]

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        self._missing("_device_assignment")

    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Return which part of an array each device holds, in the order of the assignment.

        Parameters
        ----------
        global_shape
            Shape of the whole array.

        Returns
        -------
        dict of Device to tuple of slice
            One slice per dimension: ``slice(None)`` where the dimension is not divided.

        Raises
        ------
        InvalidArgumentError
            If an array of this shape cannot be sharded so.
        """
        self._missing("devices_indices_map")

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        self._missing("is_fully_replicated")

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that arrays lie on; None if the devices' default is not known."""
        self._missing("memory_kind")

    def with_memory_kind(self, kind: str | None) -> Self:
        """Return the same sharding onto another kind of memory; None for the default kind."""
        self._missing("with_memory_kind")

    @property
    def device_list(self) -> DeviceList:
        """The devices in the order of the assignment."""
        return DeviceList(self._device_assignment)

    @property
    def device_set(self) -> set[Device]:
        """The devices that arrays lie on, of all processes."""
        return set(self._device_assignment)

    @property
    def num_devices(self) -> int:
        """The number of devices, of all processes."""
        return len(self._device_assignment)

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices that this process addresses."""
        return set(self.device_list.addressable_device_list)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process addresses every device."""
        return self.device_list.is_fully_addressable

    @property
    def has_addressable_devices(self) -> bool:
        """Whether this process addresses some device."""
        return bool(self.device_list.addressable_device_list)

    def addressable_devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Return `devices_indices_map` for the devices that this process addresses."""
        placement = self.placement(global_shape)
        return dict(zip(placement.devices, placement.indices, strict=True))

    def shard_shape(self, global_shape: Shape) -> Shape:
        """Return the shape of the block that each device holds of an array."""
        return self.placement(global_shape).shard_shape

    def check_compatible_aval(self, shape: Shape) -> None:
        """Raise `InvalidArgumentError` if no array of this rank can be sharded so."""

    def is_equivalent_to(self, other: object, ndim: int) -> bool:
        """Return whether both shardings lay arrays of ``ndim`` dimensions out alike.

        Alike means: the same devices in the same order, the same kind of memory, and the same
        block on each device.
        """
        if self is other:
            return True
        if not isinstance(other, Sharding):
            return False
        if tuple(self._device_assignment) != tuple(other._device_assignment):
            return False
        if self.memory_kind != other.memory_kind:
            return False
        # Every block count divides the number of devices, so this shape divides in every way
        # that shardings over these devices can, and shows any difference.
        probe = (self.num_devices,) * ndim
        return self._blocks(probe) == other._blocks(probe)

    def placement(self, global_shape: Shape) -> Placement:
        """Return what this process has to put where, for an array of shape ``global_shape``.

        The answer is kept: asking again with the same tuple is one look-up.

        Raises
        ------
        InvalidArgumentError
            If it is no shape, or an array of this shape cannot be sharded so.
        """
        try:
            known = self._placements.get(global_shape)
        except (TypeError, AttributeError):
            known = None
        if known is None:
            known = self._find_placement(as_shape(global_shape, type(self).__name__))
        return known

    def _find_placement(self, shape: Shape) -> Placement:
        try:
            placements = self._placements
        except AttributeError:  # a subclass need not call our __init__
            placements = {}
            object.__setattr__(self, "_placements", placements)
        placement = placements.get(shape)
        if placement is None:
            placement = self._make_placement(shape)
            remember(placements, shape, placement, _MAX_PLACEMENTS)
        return placement

    def _make_placement(self, shape: Shape) -> Placement:
        indices = self.devices_indices_map(shape)
        return _placement_from_indices(shape, self.device_list, indices, repr(self))

    def _blocks(self, shape: Shape) -> list[tuple[tuple[int, int], ...]]:
        """Return first and last element of each device's block, in order of the assignment."""
        indices = self.devices_indices_map(shape)
        return [_bounds(indices[device], shape) for device in self._device_assignment]

    def __copy__(self) -> Self:
        return self  # immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def _missing(self, member: str) -> NoReturn:
        msg = (
            f"{type(self).__name__} does not implement {member}, which every subclass of Sharding "
            f"must. Add it to the class."
        )
        raise UnimplementedError(msg, member=member)


def _bounds(index: Index, shape: Shape) -> tuple[tuple[int, int], ...]:
    return tuple(cut.indices(size)[:2] for cut, size in zip(index, shape, strict=True))


def _placement_from_indices(
    shape: Shape, devices: DeviceList, indices: dict[Device, Index], name: str
) -> Placement:
    blocks = [_bounds(indices[device], shape) for device in devices]
    shapes = {tuple(stop - start for start, stop in block) for block in blocks}
    if len(shapes) != 1:
        msg = (
            f"{name} gives blocks of different shapes, {sorted(shapes)}, for an array of shape "
            f"{shape}; every device must hold a block of one shape."
        )
        raise InvalidArgumentError(msg, shape=shape, shard_shapes=tuple(sorted(shapes)))
    offsets = [tuple(start for start, _ in block) for block in blocks]
    replicas = [offsets[:position].count(offset) for position, offset in enumerate(offsets)]
    return select(devices, offsets, shapes.pop(), [indices[d] for d in devices], replicas)


def select(
    devices: DeviceList,
    offsets: Sequence[Shape],
    shard_shape: Shape,
    indices: Sequence[Index],
    replica_ids: Sequence[int],
) -> Placement:
    """Return the entries of the addressable devices as a `Placement`."""
    local = devices.addressable_device_list
    columns: Any = (devices, offsets, indices, replica_ids)
    if local is not devices:
        mine = frozenset(local)
        keep = [device in mine for device in devices]
        columns = [[x for x, k in zip(c, keep, strict=True) if k] for c in columns]
    chosen, offsets, indices, replica_ids = map(tuple, columns)
    return Placement(tuple(chosen), tuple(offsets), shard_shape, tuple(indices), tuple(replica_ids))
