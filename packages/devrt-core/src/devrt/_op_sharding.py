"""How a compiler divided the parameters and outputs of a program."""

from __future__ import annotations

import dataclasses

__all__ = ["OpSharding"]

_REPLICATED = 0
_MAXIMAL = 1
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
            position, place = divmod(position, count)
            index.append(place)
        index.reverse()
        return tuple(index[: len(self.partitions)])
