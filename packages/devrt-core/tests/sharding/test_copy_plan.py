"""Copy plans, checked by carrying them out on NumPy arrays: what arrives, and what it costs."""

import dataclasses
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.contract import Assembly, Piece
from devrt.errors import InvalidArgumentError
from devrt.sharding import Blocks, P, cost_of, index_map, plan_copies

MESH = (("a", 4), ("b", 2))
ENTRIES = [None, "a", "b", ("a", "b"), ("b", "a")]
SPECS = [
    P(*entries)
    for entries in [(), *((x,) for x in ENTRIES), *((x, y) for x in ENTRIES for y in ENTRIES)]
    if len(used := [n for e in entries for n in ((e,) if isinstance(e, str) else e or ())])
    == len(set(used))
]


def blocks(shape, spec, spaces):
    made = index_map(shape, spec, MESH)
    return Blocks(made.shard_shape, made.offsets, spaces)


def part(array, start, extent):
    return array[tuple(slice(s, s + n) for s, n in zip(start, extent, strict=True))]


def carry_out(plan, held, target):
    """Do what a plan says with NumPy; return the targets, and how many elements were written."""
    made, written = {}, set()
    for t, s in plan.whole:
        made[t] = held.parts[s]
        if held.blocks.spaces[s] != target.spaces[t]:
            written.add((target.spaces[t], target.offsets[t]))
    for t, number in zip(
        plan.assembled, plan.assembly.block_of if plan.assembly else (), strict=True
    ):
        block = np.full(target.shape, -1)
        times = np.zeros(target.shape, int)
        for piece in plan.assembly.blocks[number]:
            source = held.parts[plan.used[piece.source]]
            part(block, piece.block_start, piece.extent)[...] = part(
                source, piece.source_start, piece.extent
            )
            part(times, piece.block_start, piece.extent)[...] += 1
        assert (times == 1).all()
        made[t] = block
        written.add((target.spaces[t], target.offsets[t]))
    for t, other in plan.shared:
        assert target.spaces[t] == target.spaces[other]
        made[t] = made[other]
    return made, len(written) * math.prod(target.shape)


@dataclasses.dataclass
class Held:
    blocks: Blocks
    parts: list


def hold(array, given):
    return Held(given, [part(array, offset, given.shape) for offset in given.offsets])


def spaces():
    """Eight devices of one memory, of two, of one each, or of any."""
    return st.one_of(
        st.sampled_from([(0,) * 8, (0, 0, 0, 0, 1, 1, 1, 1), tuple(range(8)), (1,) * 8]),
        st.tuples(*[st.integers(0, 3)] * 8),
    )


@given(
    rows=st.integers(0, 3),
    columns=st.integers(0, 3),
    specs=st.tuples(st.sampled_from(SPECS), st.sampled_from(SPECS)),
    source_spaces=spaces(),
    target_spaces=spaces(),
)
def test_a_plan_brings_every_block_and_moves_no_byte_twice(
    rows, columns, specs, source_spaces, target_spaces
):
    shape = (rows * 8, columns * 8)
    array = np.arange(math.prod(shape)).reshape(shape)
    source = blocks(shape, specs[0], source_spaces)
    target = blocks(shape, specs[1], target_spaces)
    plan = plan_copies(source, target)
    made, written = carry_out(plan, hold(array, source), target)
    assert sorted(made) == list(range(8))
    for number, offset in enumerate(target.offsets):
        np.testing.assert_array_equal(made[number], part(array, offset, target.shape))
    cost = cost_of(plan, source, target)
    assert cost.elements_moved == written
    assert cost.elements_moved == cost.least_elements  # blocks of one mesh never overlap in part


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_same_sharding_moves_nothing(spec):
    same = blocks((16, 16), spec, (0, 1, 2, 3) * 2)
    plan = plan_copies(same, same)
    cost = cost_of(plan, same, same)
    assert cost.elements_moved == cost.least_elements == 0
    assert plan.assembly is None


def moved(source, target):
    return cost_of(plan_copies(source, target), source, target).elements_moved


def part_starts(source, target):
    return cost_of(plan_copies(source, target), source, target).part_starts


def test_figures_of_known_cases():
    sharded = blocks((64,), P(("a", "b")), tuple(range(8)))
    whole = blocks((64,), P(), tuple(range(8)))
    assert moved(sharded, whole) == 8 * 64
    assert moved(whole, sharded) == 64
    one_memory = dataclasses.replace(whole, spaces=(0,) * 8)
    assert moved(sharded, one_memory) == 64
    elsewhere = dataclasses.replace(sharded, spaces=(9,) * 8)
    assert moved(sharded, elsewhere) == 64


def test_replicas_alternate_as_sources():
    source = blocks((8,), P("b"), tuple(range(8)))
    target = blocks((8,), P(), tuple(range(10, 18)))
    twice = dataclasses.replace(source, shape=(4,), offsets=((0,), (0,), (4,), (4,)) * 2)
    plan = plan_copies(dataclasses.replace(target, spaces=tuple(range(8))), twice)
    sources = [piece.source for pieces in plan.assembly.blocks for piece in pieces]
    assert len(set(sources)) == len(sources) == 2
    apart = plan_copies(Blocks((8,), ((0,), (0,)), (0, 1)), Blocks((8,), ((0,), (0,)), (2, 3)))
    assert apart.whole == ((0, 0), (1, 1))


def test_a_block_is_taken_from_its_own_address_space():
    source = blocks((64, 2), P(), tuple(range(8)))
    rows = blocks((64, 2), P(("a", "b")), tuple(range(7, -1, -1)))
    plan = plan_copies(source, rows)
    takes = [plan.used[pieces[0].source] for pieces in plan.assembly.blocks]
    assert takes == list(range(7, -1, -1))
    assert part_starts(source, rows) == tuple(range(0, 128, 16))
    assert part_starts(source, blocks((64, 2), P(None, "b"), tuple(range(8)))) == ()
    assert part_starts(source, blocks((64, 2), P("a"), tuple(range(10, 18)))) == ()


def test_blocks_off_the_grid_are_found():
    source = Blocks((3,), ((0,), (3,), (5,)), (0, 0, 0))
    with pytest.raises(InvalidArgumentError, match="overlap"):
        plan_copies(source, Blocks((8,), ((0,),), (0,)))
    shifted = Blocks((2,), ((1,), (3,)), (0, 0))
    plan = plan_copies(shifted, Blocks((4,), ((1,),), (0,)))
    held = hold(np.arange(8), shifted)
    np.testing.assert_array_equal(
        carry_out(plan, held, Blocks((4,), ((1,),), (0,)))[0][0], [1, 2, 3, 4]
    )


def test_missing_parts_are_an_error():
    with pytest.raises(InvalidArgumentError, match="4 elements of a block of 8"):
        plan_copies(Blocks((4,), ((0,),), (0,)), Blocks((8,), ((0,),), (0,)))


def test_least_counts_overlapping_targets_once():
    source = Blocks((8,), ((0,),), (0,))
    target = Blocks((4,), ((0,), (2,), (4,)), (1, 1, 1))
    cost = cost_of(plan_copies(source, target), source, target)
    assert (cost.elements_moved, cost.least_elements) == (12, 8)


def test_an_assembly_packs_all_its_numbers():
    assembly = Assembly((2, 3), 1, ((Piece(0, (1, 2), (0, 0), (2, 3)),),), (0, 0))
    numbers = struct.unpack(f"={len(assembly.packed) // 8}q", assembly.packed)
    assert numbers == (2, 1, 1, 2, 2, 3, 0, 0, 1, 0, 1, 2, 0, 0, 2, 3)
