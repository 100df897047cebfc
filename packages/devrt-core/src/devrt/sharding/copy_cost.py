"""What a copy plan moves, and the least that any plan could. No data is moved here."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from devrt.contract import Assembly, Piece
from devrt.sharding.copy_plan import Blocks, CopyPlan, Key
from devrt.sharding.partition import Shape

__all__ = ["CopyCost", "cost_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class CopyCost:
    """What a copy plan moves.

    ``elements_moved`` counts every block once for each address space that it is made in, and
    ``least_elements`` what each space lacks of what its targets need. ``part_starts`` tells of each
    block of these that is one run of elements of a source block in its own address space where the
    run begins there: what need not be copied where parts are shared.
    """

    elements_moved: int
    least_elements: int
    part_starts: tuple[int, ...]


def cost_of(plan: CopyPlan, source: Blocks, target: Blocks) -> CopyCost:
    """Return what a plan moves between the blocks that it was made for."""
    moved = {(target.spaces[i], target.offsets[i]) for i in plan.assembled}
    moved |= {
        (target.spaces[t], target.offsets[t])
        for t, s in plan.whole
        if source.spaces[s] != target.spaces[t]
    }
    parts = () if plan.assembly is None else _part_starts(plan, plan.assembly, source, target)
    return CopyCost(len(moved) * target.volume, _least_elements(source, target), parts)


def _part_starts(
    plan: CopyPlan, assembly: Assembly, source: Blocks, target: Blocks
) -> tuple[int, ...]:
    first: dict[Key, int] = {}
    for number, block in zip(plan.assembled, assembly.block_of, strict=True):
        first.setdefault((target.spaces[number], target.offsets[number]), block)
    starts = []
    for (space, _), block in first.items():
        piece, *others = assembly.blocks[block]
        if not others and source.spaces[plan.used[piece.source]] == space:
            start = _run_start(piece, source.shape)
            starts += [] if start is None else [start]
    return tuple(starts)


def _run_start(piece: Piece, shape: Shape) -> int | None:
    """Return the first element of a piece in its source if it is one run there, else None."""
    start, step, is_joined = 0, 1, True
    for first, count, size in zip(
        reversed(piece.source_start), reversed(piece.extent), reversed(shape), strict=True
    ):
        if not is_joined and count != 1:
            return None
        is_joined = is_joined and count == size
        start += first * step
        step *= size
    return start


def _least_elements(source: Blocks, target: Blocks) -> int:
    """Count, by address space, the elements in blocks that the space does not hold."""
    held: set[Key] = set()
    if source.shape == target.shape:
        held = set(zip(source.spaces, source.offsets, strict=True))
    needed = set(zip(target.spaces, target.offsets, strict=True)) - held
    return sum(
        _union_volume([offset for s, offset in needed if s == space], target.shape)
        for space in {space for space, _ in needed}
    )


def _union_volume(offsets: Sequence[Shape], shape: Shape) -> int:
    """Count the elements of boxes of one shape, those in several boxes once."""
    if not offsets or not math.prod(shape):
        return 0
    aligned = all(o % n == 0 for offset in offsets for o, n in zip(offset, shape, strict=True))
    if aligned:  # boxes of one grid are equal or apart
        return len(set(offsets)) * math.prod(shape)
    edges = [
        sorted({edge for offset in offsets for edge in (offset[d], offset[d] + shape[d])})
        for d in range(len(shape))
    ]
    total = 0
    for cell in itertools.product(*(itertools.pairwise(edge) for edge in edges)):
        inside = any(
            all(
                o <= low and high <= o + n
                for o, n, (low, high) in zip(offset, shape, cell, strict=True)
            )
            for offset in offsets
        )
        total += inside * math.prod(high - low for low, high in cell)
    return total
