"""Laws that hold for every mesh, spec and shape."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from devrt.errors import InvalidArgumentError
from devrt.sharding import Mesh, NamedSharding, P, PartitionSpec, index_map

law = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@st.composite
def cases(draw, empty=True):
    """Draw axis sizes, a spec over them, and a shape that the spec divides."""
    sizes = draw(
        st.lists(st.integers(1, 4), max_size=4).filter(lambda sizes: math.prod(sizes) <= 16)
    )
    mesh_shape = tuple(zip("abcd", sizes, strict=False))
    names = draw(st.permutations([name for name, _ in mesh_shape]))
    names = names[: draw(st.integers(0, len(names)))]
    ndim = draw(st.integers(0, 4))
    entries = [[] for _ in range(draw(st.integers(0, ndim)))]
    for name in names:
        if entries:
            draw(st.sampled_from(entries)).append(name)
    spec = PartitionSpec(*map(tuple, entries))
    by_name = dict(mesh_shape)
    counts = [math.prod(by_name[name] for name in entry) for entry in entries]
    counts += [1] * (ndim - len(counts))
    shape = tuple(count * draw(st.integers(0 if empty else 1, 3)) for count in counts)
    return mesh_shape, spec, shape


def cut(array, made):
    return [array[index] for index in made.indices]


@law
@given(cases())
def test_blocks_tile_the_array_and_replicas_are_alike(case):
    mesh_shape, spec, shape = case
    made = index_map(shape, spec, mesh_shape)
    owners = np.zeros(shape, dtype=int)
    for index, replica in zip(made.indices, made.replica_ids, strict=True):
        if replica == 0:
            owners[index] += 1
    assert (owners == 1).all()
    copies = {}
    for offset, index, replica in zip(made.offsets, made.indices, made.replica_ids, strict=True):
        copies.setdefault(offset, []).append((replica, index))
    for held in copies.values():
        assert [replica for replica, _ in held] == list(range(len(held)))
        assert all(index == held[0][1] for _, index in held)
    assert len({len(held) for held in copies.values()}) == 1


@law
@given(cases())
def test_shapes_offsets_and_indices_agree(case):
    mesh_shape, spec, shape = case
    made = index_map(shape, spec, mesh_shape)
    array = np.arange(math.prod(shape)).reshape(shape)
    assert len(made.offsets) == math.prod(size for _, size in mesh_shape)
    for offset, block in zip(made.offsets, cut(array, made), strict=True):
        assert block.shape == made.shard_shape
        again = array[tuple(slice(o, o + n) for o, n in zip(offset, made.shard_shape, strict=True))]
        assert np.array_equal(block, again)


@law
@given(cases())
def test_the_pure_map_and_the_sharding_agree(devices, case):
    mesh_shape, spec, shape = case
    sizes = tuple(size for _, size in mesh_shape)
    used = devices[: math.prod(sizes)]
    grid = np.array(used, dtype=object).reshape(sizes)
    sharding = NamedSharding(Mesh(grid, tuple(name for name, _ in mesh_shape)), spec)
    made = index_map(shape, spec, dict(mesh_shape))
    plan = sharding.placement(shape)
    assert plan.devices == tuple(used)
    assert (plan.offsets, plan.shard_shape) == (made.offsets, made.shard_shape)
    assert (plan.indices, plan.replica_ids) == (made.indices, made.replica_ids)
    assert sharding.devices_indices_map(shape) == dict(zip(used, made.indices, strict=True))
    assert sharding.shard_shape(shape) == made.shard_shape
    assert sharding.is_fully_replicated == all(
        count == 1 for count in sharding._layout.partition.counts
    )


@law
@given(cases(empty=False), st.randoms(use_true_random=False))
def test_permuting_dimensions_permutes_the_map(case, random):
    mesh_shape, spec, shape = case
    order = list(range(len(shape)))
    random.shuffle(order)
    entries = [*spec, *[None] * (len(shape) - len(spec))]
    made = index_map(shape, spec, mesh_shape)
    turned = index_map(tuple(shape[d] for d in order), P(*(entries[d] for d in order)), mesh_shape)
    assert turned.indices == tuple(tuple(index[d] for d in order) for index in made.indices)
    assert turned.replica_ids == made.replica_ids


@law
@given(cases(empty=False), st.randoms(use_true_random=False))
def test_permuting_mesh_axes_permutes_the_positions(case, random):
    mesh_shape, spec, shape = case
    order = list(range(len(mesh_shape)))
    random.shuffle(order)
    sizes = tuple(size for _, size in mesh_shape)
    positions = np.arange(math.prod(sizes)).reshape(sizes).transpose(order).ravel()
    made = index_map(shape, spec, mesh_shape)
    turned = index_map(shape, spec, tuple(mesh_shape[d] for d in order))
    assert turned.offsets == tuple(made.offsets[p] for p in positions)


@law
@given(cases(empty=False))
def test_permuting_devices_moves_each_block_with_its_position(devices, case):
    mesh_shape, spec, shape = case
    sizes, names = tuple(s for _, s in mesh_shape), tuple(n for n, _ in mesh_shape)
    used = devices[: math.prod(sizes)]
    there = NamedSharding(Mesh(np.array(used, dtype=object).reshape(sizes), names), spec)
    back = NamedSharding(Mesh(np.array(used[::-1], dtype=object).reshape(sizes), names), spec)
    indices = list(there.devices_indices_map(shape).values())
    assert back.devices_indices_map(shape) == dict(zip(used[::-1], indices, strict=True))
    assert there.is_equivalent_to(back, len(shape)) == (len(used) == 1)


@law
@given(cases(empty=False), cases(empty=False))
def test_equivalent_shardings_place_alike_and_only_they_do(devices, one, other):
    """On any two meshes of the same devices in the same order."""
    made = []
    for mesh_shape, spec, _ in (one, other):
        sizes = tuple(size for _, size in mesh_shape)
        grid = np.array(devices[: math.prod(sizes)], dtype=object).reshape(sizes)
        made.append(NamedSharding(Mesh(grid, tuple(name for name, _ in mesh_shape)), spec))
    # The numbers of blocks that occur, 1 2 3 4 6 8 9 12 16, all divide this size.
    shape = (144,) * max(len(one[1]), len(other[1]))
    maps = [sharding.devices_indices_map(shape) for sharding in made]
    alike = list(maps[0].items()) == list(maps[1].items())
    assert made[0].is_equivalent_to(made[1], len(shape)) == alike
    assert made[1].is_equivalent_to(made[0], len(shape)) == alike


@law
@given(cases(), st.data())
def test_a_remainder_in_any_divided_dimension_is_an_error(case, data):
    mesh_shape, spec, shape = case
    sizes = dict(mesh_shape)
    divided = [
        d
        for d, entry in enumerate(spec)
        if math.prod(sizes[n] for n in ((entry,) if isinstance(entry, str) else entry or ())) > 1
    ]
    assume(divided)
    dimension = data.draw(st.sampled_from(divided))
    wrong = tuple(size + (d == dimension) for d, size in enumerate(shape))
    with pytest.raises(InvalidArgumentError, match=f"Dimension {dimension} ") as caught:
        index_map(wrong, spec, mesh_shape)
    assert caught.value.padded_size == shape[dimension] + caught.value.partitions


@law
@given(cases())
def test_a_shape_with_too_few_dimensions_is_an_error(case):
    mesh_shape, spec, shape = case
    assume(len(spec))
    with pytest.raises(InvalidArgumentError, match="cannot divide an array"):
        index_map(shape[: len(spec) - 1], spec, mesh_shape)


def test_answers_are_kept():
    mesh_shape = (("x", 2),)
    assert index_map((4,), P("x"), mesh_shape) is index_map([4], P("x"), mesh_shape)
