"""Device lists: an ordered set of devices and what they have in common."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from devrt._support.words import kind_of
from devrt.contract import Device, memory_kind_named
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.sharding.device_ref import find_devices, refer_to_devices

__all__ = ["DeviceList", "check_and_canonicalize_memory_kind", "is_addressable"]


def is_addressable(device: Device) -> bool:
    """Return whether this process can put data on a device.

    A device that was described by a topology, rather than found, has no client to ask and is
    addressable by nobody.
    """
    try:
        return device.process_index == device.client.process_index()
    except UnimplementedError:
        return False


class DeviceList:
    """An immutable, ordered list of devices.

    Parameters
    ----------
    device_assignment
        The devices, in the order in which programs and shardings number them.

    Raises
    ------
    InvalidTypeError
        If it is not iterable, or an entry is no device.

    Notes
    -----
    Two lists are equal when they hold the same devices in the same order. What is derived from
    the devices is worked out when first requested, and kept.
    """

    __slots__ = ("__dict__", "__weakref__", "_devices", "_hash")

    def __init__(self, device_assignment: Iterable[Device]) -> None:
        self._devices = _checked(device_assignment)
        self._hash = hash(self._devices)

    def __len__(self) -> int:
        return len(self._devices)

    def __getitem__(self, index: Any) -> Any:
        """Return one device for an index, a tuple of devices for a slice."""
        return self._devices[index]

    def __iter__(self) -> Iterator[Device]:
        return iter(self._devices)

    def __contains__(self, device: object) -> bool:
        return device in self._devices

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DeviceList):
            return self._devices == other._devices
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (refer_to_devices(self._devices),)

    def __copy__(self) -> DeviceList:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceList:
        return self

    def __repr__(self) -> str:
        return f"DeviceList({self._devices!r})"

    @functools.cached_property
    def _addressable_part(self) -> DeviceList | None:
        # None where it would be the whole list: a list that held itself would live, and keep its
        # devices alive, until the cycle collector runs.
        mine = tuple(device for device in self._devices if is_addressable(device))
        return None if len(mine) == len(self._devices) else DeviceList(mine)

    @property
    def addressable_device_list(self) -> DeviceList:
        """The devices that this process addresses, in the same order; self if it is all."""
        part = self._addressable_part
        return self if part is None else part

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process addresses every device of the list."""
        return self._addressable_part is None

    @functools.cached_property
    def process_indices(self) -> set[int]:
        """The processes that the devices are attached to."""
        return {device.process_index for device in self._devices}

    @functools.cached_property
    def memory_kinds(self) -> tuple[str, ...]:
        """The memory kinds that every addressable device of the list has, the default one first.

        Empty if no device of the list is addressable.
        """
        devices = self.addressable_device_list._devices
        if not devices:
            return ()
        first, *others = (
            tuple(memory.kind for memory in device.addressable_memories()) for device in devices
        )
        shared = set(first).intersection(*others)
        return tuple(dict.fromkeys(kind for kind in first if kind in shared))

    @functools.cached_property
    def default_memory_kind(self) -> str | None:
        """The kind that buffers go to when none is named; None if no device is addressable."""
        devices = self.addressable_device_list._devices
        return devices[0].default_memory().kind if devices else None

    @functools.cached_property
    def device_kind(self) -> str:
        """The hardware model of the devices.

        Raises
        ------
        InvalidArgumentError
            If the list is empty or its devices are of several kinds.
        """
        kinds = tuple(dict.fromkeys(device.device_kind for device in self._devices))
        if len(kinds) == 1:
            return kinds[0]
        found = f"holds devices of several kinds: {', '.join(kinds)}" if kinds else "is empty"
        msg = f"The device list has no device_kind of its own: it {found}. Ask each device instead."
        raise InvalidArgumentError(msg, device_kinds=kinds)


def _checked(given: Any) -> tuple[Device, ...]:
    try:
        devices = tuple(given)
    except TypeError as error:
        msg = f"a DeviceList is made of several devices, not of {given!r}. Put one in a tuple."
        raise InvalidTypeError(msg, devices=given) from error
    for kind in {*map(type, devices)}:  # types, not devices: long lists have few of them
        if not issubclass(kind, Device):
            wrong = next(device for device in devices if type(device) is kind)
            msg = (
                f"a DeviceList holds devices, but got {wrong!r} of type {kind_of(wrong)}. "
                "Choose from devrt.devices()."
            )
            raise InvalidTypeError(msg, device=wrong)
    return devices


def _rebuild(devices: list[Any]) -> DeviceList:
    return DeviceList(find_devices(devices))


def check_and_canonicalize_memory_kind(
    memory_kind: str | None, device_list: DeviceList | Sequence[Device]
) -> str | None:
    """Check a memory kind against the devices that shall have it.

    Parameters
    ----------
    memory_kind
        A kind, or None for the devices' default; ``"default"`` and ``"pinned"`` are names too.
    device_list
        The devices. Where none of them is addressable nothing is known of their memories, and
        the kind is taken on trust.

    Returns
    -------
    str or None
        The kind; for None the default kind of the devices, or None if that is not known.

    Raises
    ------
    InvalidArgumentError
        If the devices have no memory of this kind; the message lists those they have.
    """
    if not isinstance(device_list, DeviceList):
        device_list = DeviceList(device_list)
    if memory_kind is None:
        return device_list.default_memory_kind
    kinds = device_list.memory_kinds
    memory_kind = memory_kind_named(memory_kind, kinds)
    if memory_kind in kinds or not device_list.addressable_device_list:
        return memory_kind
    device = device_list.addressable_device_list[0]
    msg = (
        f"Memory kind {memory_kind!r} is not addressable by device {device} "
        f"({device.device_kind}). Use one of {', '.join(map(repr, kinds))}, "
        f"or None for the default."
    )
    raise InvalidArgumentError(msg, memory_kind=memory_kind, memory_kinds=kinds, device=str(device))
