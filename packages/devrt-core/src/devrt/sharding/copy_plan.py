"""Copy plans: which bytes go where when an array changes its sharding. No data is moved here."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias

from devrt.contract import Assembly, Piece
from devrt.errors import InvalidArgumentError
from devrt.sharding.partition import Shape

__all__ = ["Blocks", "CopyPlan", "plan_copies"]

Key: TypeAlias = tuple[Hashable, Shape]


@dataclasses.dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of an array, and where each lies.

    ``offsets`` are the indices, in the array, of the blocks' first elements; blocks may coincide.
    Blocks in one of ``spaces`` may share memory.
    """

    shape: Shape
    offsets: tuple[Shape, ...]
    spaces: tuple[Hashable, ...]

    @property
    def volume(self) -> int:
        """The number of elements of a block."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True, slots=True)
class CopyPlan:
    """How the blocks of a target are made from those of a source, both by number.

    ``whole`` are target and source blocks that are the same: a copy of all of it, or nothing but
    another name where both lie in one address space. ``shared`` are targets whose block is copied
    whole to another target in the same address space: no copy. ``assembled`` are the other targets,
    in the order of ``assembly``, which takes pieces from the sources in ``used``.
    """

    whole: tuple[tuple[int, int], ...]
    shared: tuple[tuple[int, int], ...]
    assembled: tuple[int, ...]
    used: tuple[int, ...]
    assembly: Assembly | None


def plan_copies(source: Blocks, target: Blocks) -> CopyPlan:
    """Plan how to make the target's blocks from the source's.

    A pure function. Every block is made at most once for each address space, from whole blocks
    where there are equal ones and from disjoint pieces else; equal source blocks alternate. Raises
    `InvalidArgumentError` if the source does not hold each element of a target block once.
    """
    whole, shared, rest = _match(source, target)
    used, assembly = _assemble(source, target, rest)
    return CopyPlan(tuple(whole), tuple(shared), tuple(rest), used, assembly)


Pairs: TypeAlias = list[tuple[int, int]]


def _match(source: Blocks, target: Blocks) -> tuple[Pairs, Pairs, list[int]]:
    """Return targets that equal a source, those that can share a target's memory, and the rest."""
    here: dict[Key, int] = {}
    anywhere: dict[Shape, list[int]] = {}
    if source.shape == target.shape:
        for number, key in enumerate(zip(source.spaces, source.offsets, strict=True)):
            here.setdefault(key, number)
            anywhere.setdefault(key[1], []).append(number)
    rotations = {offset: itertools.cycle(numbers) for offset, numbers in anywhere.items()}
    made: dict[Key, int] = {}
    assembled: set[Key] = set()
    whole, shared, rest = [], [], []
    for number, key in enumerate(zip(target.spaces, target.offsets, strict=True)):
        if key in here:
            whole.append((number, here[key]))
        elif key in assembled:  # the client makes equal blocks once for each address space
            rest.append(number)
        elif key in made:
            shared.append((number, made[key]))
        elif key[1] in rotations:
            made[key] = number
            whole.append((number, next(rotations[key[1]])))
        else:
            assembled.add(key)
            rest.append(number)
    return whole, shared, rest


def _assemble(
    source: Blocks, target: Blocks, rest: Sequence[int]
) -> tuple[tuple[int, ...], Assembly | None]:
    """Return the sources that the blocks of some targets are made of, and how."""
    if not rest:
        return (), None
    cover = _Cover(source)
    wanted: dict[Shape, Hashable] = {}
    for i in rest:
        wanted.setdefault(target.offsets[i], target.spaces[i])
    blocks = [cover.pieces(target, offset, space) for offset, space in wanted.items()]
    used = sorted({piece.source for pieces in blocks for piece in pieces})
    index = {number: position for position, number in enumerate(used)}
    renumbered = tuple(
        tuple(dataclasses.replace(piece, source=index[piece.source]) for piece in pieces)
        for pieces in blocks
    )
    block_of = {offset: position for position, offset in enumerate(wanted)}
    of_targets = tuple(block_of[target.offsets[i]] for i in rest)
    return tuple(used), Assembly(target.shape, len(used), renumbered, of_targets)


class _Cover:
    """Finds the pieces of source blocks that make up a box."""

    def __init__(self, source: Blocks) -> None:
        self._shape = source.shape
        self._spaces = source.spaces
        holders: dict[Shape, list[int]] = {}
        for number, offset in enumerate(source.offsets):
            holders.setdefault(offset, []).append(number)
        self._holders = holders
        self._rotations = {offset: itertools.cycle(numbers) for offset, numbers in holders.items()}
        self._is_grid = all(
            start % size == 0 if size else start == 0
            for offset in holders
            for start, size in zip(offset, source.shape, strict=True)
        )

    def pieces(self, target: Blocks, offset: Shape, space: Hashable) -> tuple[Piece, ...]:
        """Return the pieces of the target's block at ``offset``, in the order of the elements.

        Of equal source blocks one in ``space`` is taken, else they alternate.
        """
        if not target.volume:
            nothing = (0,) * len(offset)
            return (Piece(0, nothing, nothing, nothing),)
        made = []
        for start in self._candidates(offset, target.shape):
            piece = self._overlap(start, offset, target.shape, space)
            if piece is not None:
                made.append(piece)
        covered = sum(math.prod(piece.extent) for piece in made)
        if covered != target.volume:
            msg = (
                f"the source's blocks hold {covered} elements of a block of {target.volume} at "
                f"{offset}: its parts overlap, leave some out, or are held by other processes. "
                "Correct its devices_indices_map, or place the array from a sharding whose parts "
                "this process holds."
            )
            raise InvalidArgumentError(msg, offset=offset, covered=covered)
        return tuple(made)

    def _holder(self, start: Shape, space: Hashable) -> int:
        near = (number for number in self._holders[start] if self._spaces[number] == space)
        found = next(near, None)
        return next(self._rotations[start]) if found is None else found

    def _candidates(self, offset: Shape, extent: Shape) -> Iterable[Shape]:
        if not self._is_grid:
            return sorted(self._holders)
        return (start for start in self._grid(offset, extent) if start in self._holders)

    def _grid(self, offset: Shape, extent: Shape) -> Iterator[Shape]:
        steps = [
            range(start // size * size, start + count, size) if size else range(0)
            for start, count, size in zip(offset, extent, self._shape, strict=True)
        ]
        return itertools.product(*steps)

    def _overlap(self, start: Shape, offset: Shape, extent: Shape, space: Hashable) -> Piece | None:
        first = tuple(map(max, start, offset))
        size = tuple(
            min(s + n, o + e) - f
            for s, n, o, e, f in zip(start, self._shape, offset, extent, first, strict=True)
        )
        if any(count <= 0 for count in size):
            return None
        return Piece(self._holder(start, space), _minus(first, start), _minus(first, offset), size)


def _minus(a: Shape, b: Shape) -> Shape:
    return tuple(x - y for x, y in zip(a, b, strict=True))
