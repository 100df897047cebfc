"""The sharding that a compiler names by numbers of partitions, without a mesh."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from devrt.contract import OpSharding
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.sharding.device_list import DeviceList, check_and_canonicalize_memory_kind
from devrt.sharding.index_maps import Index
from devrt.sharding.partition import Shape
from devrt.sharding.sharding import Sharding

if TYPE_CHECKING:
    from typing import Self

    from devrt.contract import Device

__all__ = ["GSPMDSharding"]

_REPLICATED, _TILED = 0, 3  # of XLA's OpSharding.Type


class GSPMDSharding(Sharding):
    """An array divided over devices as XLA's ``OpSharding`` says.

    Parameters
    ----------
    devices
        The devices, partition 0 first.
    op_sharding
        How arrays are divided: an `devrt.contract.OpSharding`, or the bytes of XLA's message.
    memory_kind
        The kind of memory; None for the devices' default.

    Raises
    ------
    InvalidTypeError
        If ``op_sharding`` is neither.
    InvalidArgumentError
        If it has not one tile for each device, or the devices have no memory of this kind.
    UnimplementedError
        If it is neither replicated nor in tiles.
    """

    __slots__ = ("_device_list", "_hash", "_memory_kind", "_op_sharding")

    def __init__(
        self,
        devices: Iterable[Device],
        op_sharding: OpSharding | bytes,
        *,
        memory_kind: str | None = None,
    ) -> None:
        self._device_list = devices if isinstance(devices, DeviceList) else DeviceList(devices)
        self._op_sharding = _checked(op_sharding, len(self._device_list))
        self._memory_kind = check_and_canonicalize_memory_kind(memory_kind, self._device_list)
        self._hash: int | None = None
        self._placements = {}

    @classmethod
    def get_replicated(
        cls, device_assignment: Iterable[Device], *, memory_kind: str | None = None
    ) -> Self:
        """Return the sharding that gives every device the whole array."""
        return cls(device_assignment, OpSharding(), memory_kind=memory_kind)

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return self._device_list._devices

    @property
    def device_list(self) -> DeviceList:
        """The devices, partition 0 first."""
        return self._device_list

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that arrays lie on; None if the devices' default is not known."""
        return self._memory_kind

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self._op_sharding.is_replicated

    def op_sharding(self, ndim: int | None = None) -> OpSharding:
        """Return how arrays are divided, whatever their number of dimensions."""
        return self._op_sharding

    def with_memory_kind(self, kind: str | None) -> Self:
        """Return the same sharding onto another kind of memory; None for the default kind."""
        return type(self)(self._device_list, self._op_sharding, memory_kind=kind)

    def check_compatible_aval(self, shape: Shape) -> None:
        """Raise `InvalidArgumentError` if arrays of this rank are not what is divided."""
        rank = len(self._op_sharding.partitions)
        if not self.is_fully_replicated and len(shape) != rank:
            msg = (
                f"Sharding {self} is only valid for values of rank {rank}, but was applied to a "
                f"value of rank {len(shape)}."
            )
            raise InvalidArgumentError(msg, rank=len(shape), shape=tuple(shape))

    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Return which part of an array each device holds, partition 0 first."""
        shape = tuple(global_shape)
        self.check_compatible_aval(shape)
        if self.is_fully_replicated:
            whole = (slice(None),) * len(shape)
            return dict.fromkeys(self._device_assignment, whole)
        sharding, devices = self._op_sharding, self._device_assignment
        found: dict[Device, Index] = {}
        for number, device in enumerate(devices):
            cuts = zip(sharding.index_of(shape, number), sharding.partitions, strict=True)
            found[device] = tuple(cut if count > 1 else slice(None) for cut, count in cuts)
        return found

    def _blocks(self, shape: Shape) -> list[tuple[tuple[int, int], ...]]:
        if not self.is_fully_replicated and len(shape) != len(self._op_sharding.partitions):
            return []  # equivalent to none
        return super()._blocks(shape)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, GSPMDSharding):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._key())
        return self._hash

    def _key(self) -> tuple[Any, ...]:
        divided = None if self.is_fully_replicated else self._op_sharding
        return divided, self._memory_kind, self._device_list

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._device_list, self._op_sharding, self._memory_kind)

    def __repr__(self) -> str:
        kind = "" if self._memory_kind is None else f", memory_kind={self._memory_kind}"
        return f"{type(self).__name__}({{{_text(self._op_sharding)}}}{kind})"


def _checked(given: Any, count: int) -> OpSharding:
    sharding = OpSharding.parse(given) if isinstance(given, bytes | memoryview) else given
    if not isinstance(sharding, OpSharding):
        msg = (
            f"GSPMDSharding takes a devrt.contract.OpSharding or the bytes of XLA's message, not "
            f"{given!r} of type {type(given).__name__}. Of jaxlib's, pass SerializeToString()."
        )
        raise InvalidTypeError(msg, op_sharding=given)
    if sharding.kind not in (_REPLICATED, _TILED):
        msg = (
            f"GSPMDSharding divides arrays into tiles or gives them whole to every device, and "
            f"{sharding} does neither. Use execute_sharded for what a program takes so."
        )
        raise UnimplementedError(msg, op_sharding=sharding)
    tiles = math.prod(sharding.tile_dims)
    if sharding.kind == _TILED and (
        tiles != count or sorted(sharding.devices) != list(range(count))
    ):
        msg = (
            f"{sharding} has {tiles} tiles for partitions {sharding.devices}, and {count} devices "
            "were given. Give one tile to each, numbered from 0."
        )
        raise InvalidArgumentError(msg, op_sharding=sharding, num_devices=count)
    return sharding


def _text(sharding: OpSharding) -> str:
    """Return a sharding as XLA prints it."""
    if sharding.kind == _REPLICATED:
        return "replicated"
    dims, devices = (",".join(map(str, n)) for n in (sharding.tile_dims, sharding.devices))
    last = " last_tile_dim_replicate" if sharding.replicate_on_last_tile_dim else ""
    return f"devices=[{dims}]{devices}{last}"


def _rebuild(
    cls: type[GSPMDSharding], devices: DeviceList, sharding: OpSharding, memory_kind: str | None
) -> GSPMDSharding:
    return cls(devices, sharding, memory_kind=memory_kind)
