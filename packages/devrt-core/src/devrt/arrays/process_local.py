"""Which block of a global array one process holds, and where its shards lie in that block."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from devrt.errors import InvalidArgumentError
from devrt.sharding import Sharding, as_shape

__all__ = ["LocalBlock"]

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LocalBlock:
    """The block of an array that a process's data is.

    ``starts`` tells for each dimension where the process's shards begin, in order; the data holds
    as many stretches of a shard's length one after the other.
    """

    global_shape: Shape
    starts: tuple[Shape, ...]
    shard_shape: Shape

    @classmethod
    def of(
        cls, sharding: Sharding, local_shape: Shape, global_shape: Sequence[int | None] | None
    ) -> LocalBlock:
        """Return the block of this process.

        Raises `InvalidArgumentError` if none has the shape of the data.
        """
        given = (None,) * len(local_shape) if global_shape is None else _checked(global_shape)
        if len(given) != len(local_shape):
            msg = (
                f"process-local data of shape {local_shape} has {len(local_shape)} dimensions, "
                f"and global_shape {given} has {len(given)}."
            )
            raise InvalidArgumentError(msg, shape=local_shape, global_shape=given)
        _check_has_devices(sharding)
        shape = tuple(
            size if size is not None else _infer(sharding, local_shape, dimension)
            for dimension, size in enumerate(given)
        )
        placement = sharding.placement(shape)
        starts = tuple(
            tuple(sorted({offset[d] for offset in placement.offsets})) for d in range(len(shape))
        )
        block = cls(shape, starts, placement.shard_shape)
        block._check_is_box(placement.offsets, sharding)
        return block._fitted(local_shape, sharding)

    @property
    def shape(self) -> Shape:
        """The shape that the process's data has."""
        return tuple(
            len(starts) * size for starts, size in zip(self.starts, self.shard_shape, strict=True)
        )

    def local_offset(self, offset: Shape) -> Shape:
        """Return where the shard at ``offset`` of the array begins in the process's data."""
        return tuple(
            starts.index(start) * size
            for starts, start, size in zip(self.starts, offset, self.shard_shape, strict=True)
        )

    def _check_is_box(self, offsets: Sequence[Shape], sharding: Sharding) -> None:
        count = 1
        for starts in self.starts:
            count *= len(starts)
        if len(set(offsets)) != count:
            msg = (
                f"the parts of {sharding} that this process holds do not form a block, so one "
                "array cannot hold them. Use make_array_from_callback."
            )
            raise InvalidArgumentError(msg, sharding=sharding)

    def _fitted(self, local_shape: Shape, sharding: Sharding) -> LocalBlock:
        """Return the block, with every stretch of the dimensions that the data holds whole."""
        starts = []
        for d, size in enumerate(local_shape):
            if size == self.shape[d]:
                starts.append(self.starts[d])
            elif size == self.global_shape[d] and self.shard_shape[d]:
                starts.append(tuple(range(0, size, self.shard_shape[d])))
            else:
                msg = (
                    f"this process holds a block of shape {self.shape} of an array of global shape "
                    f"{self.global_shape} under {sharding}, so its data cannot have shape "
                    f"{local_shape}: dimension {d} must be {self.shape[d]}."
                )
                raise InvalidArgumentError(
                    msg, shape=local_shape, global_shape=self.global_shape, dimension=d
                )
        return dataclasses.replace(self, starts=tuple(starts))


def _checked(given: Any) -> tuple[int | None, ...]:
    """Return a global shape in which None stands for what is to be worked out."""
    name = "make_array_from_process_local_data"
    if not isinstance(given, Sequence) or isinstance(given, str):
        return as_shape(given, name)
    sizes = iter(as_shape([size for size in given if size is not None], name))
    return tuple(None if size is None else next(sizes) for size in given)


def _infer(sharding: Sharding, local_shape: Shape, dimension: int) -> int:
    """Return a dimension's global size: the local one for each process that divides it."""
    count = sharding.num_devices  # a multiple of every number of blocks
    probe = sharding.placement((count,) * len(local_shape))
    held = len({offset[dimension] for offset in probe.offsets}) * probe.shard_shape[dimension]
    return local_shape[dimension] * count // held


def _check_has_devices(sharding: Sharding) -> None:
    if not sharding.addressable_devices:
        msg = f"no device of {sharding} belongs to this process, so it can hold no data of it."
        raise InvalidArgumentError(msg, sharding=sharding)
