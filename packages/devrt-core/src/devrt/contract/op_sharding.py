"""How a compiler divided the parameters and outputs of a program."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import Message

__all__ = ["OpSharding"]

_REPLICATED = 0
_TILED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class OpSharding:
    """The sharding of one tensor over the partitions of a program.

    Attributes
    ----------
    kind
        As XLA's ``OpSharding.Type`` numbers it: 0 replicated, 1 on one partition, 3 in tiles, 4
        chosen by hand inside the program.
    tile_dims
        Number of tiles along each dimension; one more, the number of copies of each tile, where
        ``replicate_on_last_tile_dim``.
    devices
        Logical partitions in the row-major order of the tiles.
    replicate_on_last_tile_dim
        Whether the last of ``tile_dims`` counts copies.
    """

    kind: int = _REPLICATED
    tile_dims: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    replicate_on_last_tile_dim: bool = False

    @classmethod
    def parse(cls, data: bytes | memoryview) -> OpSharding:
        """Read a serialised ``OpSharding``.

        Fields: 1 type, 3 tile dimensions, 4 devices, 6 replicate_on_last_tile_dim, 9 and 10 the
        dimensions and the permutation of an iota that stands for the devices.

        Raises
        ------
        InvalidArgumentError
            If the bytes are no such message.
        """
        message = Message(data)
        devices = message.ints(4)
        if 9 in message:
            devices = _transposed(message.ints(9), message.ints(10))
        tile_dims, is_copied = tuple(message.ints(3)), bool(message.number(6))
        return cls(message.number(1), tile_dims, tuple(devices), is_copied)

    @property
    def is_replicated(self) -> bool:
        """Whether every partition has the whole tensor."""
        return self.kind == _REPLICATED or (
            self.kind == _TILED and all(count == 1 for count in self.partitions)
        )

    @property
    def partitions(self) -> tuple[int, ...]:
        """Number of tiles along each dimension of the tensor; empty unless in tiles."""
        return self.tile_dims[:-1] if self.replicate_on_last_tile_dim else self.tile_dims

    def tile_of(self, partition: int) -> tuple[int, ...]:
        """Return which tile along each dimension a partition has; empty unless in tiles.

        Raises
        ------
        ValueError
            If the partition has none.
        """
        position = self.devices.index(partition) if self.tile_dims else 0
        index = []
        for count in reversed(self.tile_dims):
            position, remainder = divmod(position, count)
            index.append(remainder)
        index.reverse()
        return tuple(index[: len(self.partitions)])

    def global_shape(self, shard: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the whole tensor, of which each partition has a shard."""
        counts = self.partitions or (1,) * len(shard)
        return tuple(n * count for n, count in zip(shard, counts, strict=True))

    def index_of(self, shape: Sequence[int], partition: int) -> tuple[slice, ...]:
        """Return where in a tensor of a shape a partition's shard lies.

        Raises
        ------
        InvalidArgumentError
            If the shape does not divide into tiles of one size.
        """
        if not self.partitions:
            return tuple(slice(0, size) for size in shape)
        if any(size % count for size, count in zip(shape, self.partitions, strict=True)):
            msg = f"shape {tuple(shape)} does not divide into {self.partitions} equal parts."
            raise InvalidArgumentError(msg, shape=tuple(shape))
        shard = [size // count for size, count in zip(shape, self.partitions, strict=True)]
        tile = self.tile_of(partition)
        return tuple(slice(at * n, (at + 1) * n) for at, n in zip(tile, shard, strict=True))


def _transposed(dims: list[int], order: list[int]) -> list[int]:
    """Return ``arange(prod(dims)).reshape(dims).transpose(order)``, flat."""
    strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    found = [0]
    for axis in order if len(order) == len(dims) else range(len(dims)):
        found = [start + step * strides[axis] for start in found for step in range(dims[axis])]
    return found
