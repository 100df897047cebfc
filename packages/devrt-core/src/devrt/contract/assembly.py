"""Assemblies: how blocks of one array are put together from buffers that hold others of it."""

from __future__ import annotations

import dataclasses
import struct
from typing import TypeAlias

__all__ = ["Assembly", "Piece"]

Shape: TypeAlias = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A box of elements that is copied from a buffer into a block.

    ``source`` is the buffer, by its index in the list of sources; ``source_start`` and
    ``block_start`` are the box's first element in the buffer and in the block, ``extent`` is its
    shape.
    """

    source: int
    source_start: Shape
    block_start: Shape
    extent: Shape


@dataclasses.dataclass(frozen=True)
class Assembly:
    """Blocks of one shape, the pieces that fill each without a gap, and who gets which.

    Attributes
    ----------
    shape : tuple of int
        Shape of every block.
    num_sources : int
        How many buffers the pieces are taken from.
    blocks : tuple of tuple of Piece
        For each block its pieces, which do not overlap.
    block_of : tuple of int
        For each target the block that it gets, by its index in ``blocks``.
    packed : bytes
        All of this as 64-bit integers of the machine's byte order, for a native client to read at
        once: the number of dimensions, sources, blocks and targets, the shape, ``block_of``, and
        for each block the number of its pieces and for each piece the source, source_start,
        block_start and extent.
    """

    shape: Shape
    num_sources: int
    blocks: tuple[tuple[Piece, ...], ...]
    block_of: tuple[int, ...]
    packed: bytes = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "packed", _pack(self))


def _pack(assembly: Assembly) -> bytes:
    numbers = [
        len(assembly.shape),
        assembly.num_sources,
        len(assembly.blocks),
        len(assembly.block_of),
        *assembly.shape,
        *assembly.block_of,
    ]
    for pieces in assembly.blocks:
        numbers.append(len(pieces))
        for piece in pieces:
            numbers += (piece.source, *piece.source_start, *piece.block_start, *piece.extent)
    return struct.pack(f"={len(numbers)}q", *numbers)
