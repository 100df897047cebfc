"""The sharding onto a single device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from devrt._support.words import kind_of
from devrt.contract import Device
from devrt.errors import InvalidTypeError
from devrt.sharding.device_list import DeviceList, check_and_canonicalize_memory_kind
from devrt.sharding.device_ref import find_devices, refer_to_devices
from devrt.sharding.index_maps import Index, Placement
from devrt.sharding.partition import Shape
from devrt.sharding.sharding import Sharding, select

if TYPE_CHECKING:
    from typing import Self

__all__ = ["SingleDeviceSharding", "make_single_device_sharding", "single_device_sharding"]


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    Parameters
    ----------
    device
        The device.
    memory_kind
        The kind of memory; None for the device's default.

    Raises
    ------
    InvalidTypeError
        If ``device`` is no device.
    InvalidArgumentError
        If the device has no memory of this kind.
    """

    __slots__ = ("_device", "_device_list", "_hash", "_memory_kind")

    _hash: int | None

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        self._device = _checked(device)
        self._device_list = DeviceList((device,))
        self._memory_kind = check_and_canonicalize_memory_kind(memory_kind, self._device_list)
        self._hash = None
        self._placements = {}

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return (self._device,)

    @property
    def device_list(self) -> DeviceList:
        """The device, as a list of one."""
        return self._device_list

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that arrays lie on."""
        return self._memory_kind

    @property
    def num_devices(self) -> int:
        """One."""
        return 1

    @property
    def is_fully_replicated(self) -> bool:
        """True: the one device holds the whole array."""
        return True

    def with_memory_kind(self, kind: str | None) -> Self:
        """Return the same sharding onto another kind of memory; None for the default kind."""
        return type(self)(self._device, memory_kind=kind)

    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Return the device with the index of the whole array."""
        return {self._device: (slice(None),) * len(global_shape)}

    def shard_shape(self, global_shape: Shape) -> Shape:
        """Return the shape of the array itself."""
        return tuple(global_shape)

    def _make_placement(self, shape: Shape) -> Placement:
        whole = (slice(None),) * len(shape)
        return select(self._device_list, [(0,) * len(shape)], shape, [whole], [0])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, SingleDeviceSharding):
            return self._device == other._device and self._memory_kind == other._memory_kind
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self._device, self._memory_kind))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), refer_to_devices([self._device]), self._memory_kind)

    def __repr__(self) -> str:
        kind = "" if self._memory_kind is None else f", memory_kind={self._memory_kind}"
        return f"{type(self).__name__}(device={self._device!r}{kind})"


def make_single_device_sharding(
    device: Device, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """Return the sharding onto one device, in memory of a kind; None for the default kind."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def _checked(device: object) -> Device:
    if isinstance(device, Device):
        return device
    msg = f"SingleDeviceSharding takes a device, but got {device!r} of type {kind_of(device)}."
    raise InvalidTypeError(msg, device=device)


def _rebuild(
    cls: type[SingleDeviceSharding], devices: list[Any], memory_kind: str | None
) -> SingleDeviceSharding:
    (device,) = find_devices(devices)
    return cls(device, memory_kind=memory_kind)


_known: WeakValueDictionary[tuple[Device, str | None], SingleDeviceSharding]
_known = WeakValueDictionary()


def single_device_sharding(device: Device, memory_kind: str | None = None) -> SingleDeviceSharding:
    """Return the sharding onto a device: one object while it is used, as calls compare objects."""
    known = _known.get((device, memory_kind))
    if known is None:
        made = SingleDeviceSharding(device, memory_kind=memory_kind)
        known = _known.setdefault((device, made.memory_kind), made)
        known = _known.setdefault((device, memory_kind), known)
    return known
