"""Shardings, as compilers tell them, named by meshes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import devrt
from devrt.contract.op_sharding import OpSharding
from devrt.errors import InvalidArgumentError
from devrt.programs import mesh_of, named_sharding
from devrt.sharding import Mesh, NamedSharding, PartitionSpec

DEVICES = devrt.devices("cpu")[:8]
SHAPES = [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (2, 1, 4)]


def op_sharding(sharding, ndim):
    """Return what a compiler would say of a sharding, from where it puts an array's blocks."""
    shape = (64,) * ndim
    blocks = sharding.devices_indices_map(shape)
    counts = [64 // n for n in sharding.shard_shape(shape)]
    starts = {
        device: tuple((s.start or 0) * c // 64 for s, c in zip(index, counts, strict=True))
        for device, index in blocks.items()
    }
    by_tile = {tile: [] for tile in itertools.product(*map(range, counts))}
    for partition, device in enumerate(DEVICES):
        by_tile[starts[device]].append(partition)
    copies = len(DEVICES) // len(by_tile)
    if len(by_tile) == 1:
        return OpSharding()
    devices = tuple(p for tile in by_tile.values() for p in tile)
    return OpSharding(3, (*counts, copies), devices, replicate_on_last_tile_dim=True)


@st.composite
def shardings(draw):
    sizes = draw(st.sampled_from(SHAPES))
    names = tuple("abc"[: len(sizes)])
    order = draw(st.permutations(range(8)))
    grid = np.empty(8, object)
    grid[:] = [DEVICES[i] for i in order]
    mesh = Mesh(grid.reshape(sizes), names)
    ndim = draw(st.integers(1, 3))
    entries = [[] for _ in range(ndim)]
    for name in draw(st.permutations(names)):
        dim = draw(st.integers(0, ndim))
        if dim < ndim:
            entries[dim].append(name)
    return NamedSharding(mesh, PartitionSpec(*map(tuple, entries))), ndim


@given(shardings())
def test_what_a_mesh_can_say_is_named_again(case):
    sharding, ndim = case
    found = named_sharding(op_sharding(sharding, ndim), sharding.mesh, DEVICES)
    assert found.is_equivalent_to(sharding, ndim)
    sizes = sharding.mesh.shape
    named = [
        name for entry in found.spec for name in (entry if isinstance(entry, tuple) else [entry])
    ]
    assert all(sizes[name] > 1 for name in named if name)


@pytest.mark.parametrize(
    "sharding",
    [
        OpSharding(3, (8,), (0, 1, 2, 3, 4, 5, 7, 6)),
        OpSharding(3, (4, 2), (0, 2, 1, 3, 4, 6, 5, 7)),
        OpSharding(1, (), (3,)),
        OpSharding(3, (2, 4), (7, 6, 5, 4, 3, 2, 1, 0)),
    ],
)
def test_what_no_axes_can_say_is_refused(sharding):
    mesh = mesh_of([("a", 4), ("b", 2)], DEVICES)
    with pytest.raises(InvalidArgumentError, match="cannot say"):
        named_sharding(sharding, mesh, DEVICES)


def test_a_mesh_over_other_devices_is_refused():
    mesh = mesh_of([("a", 4)], DEVICES[:4])
    with pytest.raises(InvalidArgumentError, match="not the devices of"):
        named_sharding(OpSharding(), mesh, DEVICES)
    with pytest.raises(InvalidArgumentError, match="runs on 8"):
        mesh_of([("a", 4)], DEVICES)
