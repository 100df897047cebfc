"""Shardings by numbers of partitions, specs with unreduced axes, updates, and hybrid meshes."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from devrt.contract import OpSharding
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.experimental import mesh_utils
from devrt.sharding import AbstractMesh, GSPMDSharding, Mesh, NamedSharding, P

SPECS = [P(), P("x"), P("y"), P(None, "y"), P("y", "x"), P(("x", "y")), P(None, ("y", "x"))]


@pytest.fixture
def mesh(devices):
    return Mesh(np.array(devices[:8], dtype=object).reshape(4, 2), ("x", "y"))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_named_sharding_by_its_numbers(mesh, spec):
    named = NamedSharding(mesh, spec)
    numbered = GSPMDSharding(mesh.device_list, named.op_sharding(2))
    assert numbered.devices_indices_map((8, 8)) == named.devices_indices_map((8, 8))
    assert numbered.is_fully_replicated == named.is_fully_replicated
    assert numbered.is_equivalent_to(named, 2)
    assert named.is_equivalent_to(numbered, 2)
    assert numbered.shard_shape((8, 8)) == named.shard_shape((8, 8))
    again = GSPMDSharding(mesh.device_list, named.op_sharding(2))
    assert (again, hash(again)) == (numbered, hash(numbered))
    if not named.is_fully_replicated:
        assert numbered != GSPMDSharding.get_replicated(mesh.device_list)
        with pytest.raises(InvalidArgumentError, match="rank"):
            numbered.check_compatible_aval((8,))


def test_tiles_and_texts(devices):
    op = OpSharding(3, (4, 1, 2), tuple(range(8)), True)
    sharding = GSPMDSharding(devices[:8], op)
    text = "GSPMDSharding({devices=[4,1,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"
    assert repr(sharding).startswith(text)
    replicated = GSPMDSharding.get_replicated(devices[:8])
    assert repr(replicated).startswith("GSPMDSharding({replicated}")
    single = OpSharding(3, (1, 1), (0,))
    assert GSPMDSharding(devices[:1], single) == GSPMDSharding.get_replicated(devices[:1])
    for wrong in (OpSharding(3, (2,), (0, 1)), OpSharding(3, (8,), (0,) * 8)):
        with pytest.raises(InvalidArgumentError, match="tiles"):
            GSPMDSharding(devices[:8], wrong)
    with pytest.raises(UnimplementedError, match="neither"):
        GSPMDSharding(devices[:8], OpSharding(4))
    with pytest.raises(InvalidTypeError, match="OpSharding"):
        GSPMDSharding(devices[:8], P("x"))


def test_updates_keep_the_rest(mesh):
    named = NamedSharding(mesh, P("x"))
    assert named.update(spec=P("y")) == NamedSharding(mesh, P("y"))
    assert named.update(spec=("y", None)).spec == P("y", None)
    other = mesh.update(axis_names=("y", "x"))
    assert other == Mesh(mesh.devices, ("y", "x"))
    assert named.update(mesh=other).mesh is other
    with pytest.raises(InvalidTypeError, match="memory"):
        named.update(memory="pinned_host")
    abstract = AbstractMesh((4, 2), ("x", "y"))
    assert abstract.update(axis_sizes=(2, 2)) == AbstractMesh((2, 2), ("x", "y"))
    assert P("x").update(partitions=("y",)) == P("y")


def test_unreduced_axes(mesh):
    spec = P("x", unreduced={"y"})
    assert spec == P("x", unreduced=frozenset("y"))
    assert spec != P("x")
    assert hash(P("x", unreduced=set())) == hash(P("x"))
    assert repr(spec) == "PartitionSpec('x', unreduced={'y'})"
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec + P("z", reduced={"w"}) == P("x", "z", unreduced={"y"}, reduced={"w"})
    assert spec.update(unreduced=set()) == P("x")
    for add in (lambda: spec + ("w",), lambda: ("w",) + spec):  # noqa: RUF005
        with pytest.raises(InvalidTypeError, match="unreduced"):
            add()
    for wrong in ({"unreduced": {"x"}}, {"reduced": {"x"}}, {"unreduced": {None}}):
        with pytest.raises(InvalidArgumentError, match=r"overlap|cannot contain"):
            P("x", **wrong)
    with pytest.raises(InvalidArgumentError, match="overlap"):
        P(unreduced={"a"}, reduced={"a"})
    with pytest.raises(InvalidTypeError, match="set"):
        P(unreduced="a")
    sharding = NamedSharding(mesh, P(unreduced={"x"}))
    assert not sharding.is_fully_replicated
    assert not sharding.is_equivalent_to(NamedSharding(mesh, P()), 1)
    assert sharding.shard_shape((4,)) == (4,)
    with pytest.raises(UnimplementedError, match="summand"):
        sharding.placement((4,))
    with pytest.raises(InvalidArgumentError, match="not found in mesh"):
        NamedSharding(mesh, P(unreduced={"z"}))


@dataclasses.dataclass(frozen=True)
class Chip:
    id: int
    coords: tuple[int, ...]
    slice_index: int = 0
    process_index: int = 0


def chips(slices):
    return [
        Chip(16 * s + 4 * y + x, (x, y), s, 2 * s + y // 2)
        for s in slices
        for y in range(4)
        for x in range(4)
    ]


def test_hybrid_meshes_keep_each_group_together():
    made = mesh_utils.create_hybrid_device_mesh((4, 4), (2, 1), chips([1, 0]))
    assert made.shape == (8, 4)
    assert {d.slice_index for d in made[:4].flat} == {0}
    inner = mesh_utils.create_device_mesh((4, 4), chips([0]))
    assert [d.id for d in made[:4].flat] == [d.id for d in inner.flat]
    unsorted = mesh_utils.create_hybrid_device_mesh(
        (4, 4), (1, 2), chips([1, 0]), should_sort_granules_by_key=False
    )
    assert {d.slice_index for d in unsorted[:, :4].flat} == {1}
    by_process = mesh_utils.create_hybrid_device_mesh(
        (2, 4), (4, 1), chips([0, 1]), process_is_granule=True
    )
    assert [{d.process_index for d in by_process[2 * n : 2 * n + 2].flat} for n in range(4)] == [
        {0}, {1}, {2}, {3}
    ]  # fmt: skip
    for shapes in (((4, 4), (3, 1)), ((4, 2), (2, 1)), ((4, 4), (2,))):
        with pytest.raises(InvalidArgumentError, match=r"must equal|different lengths"):
            mesh_utils.create_hybrid_device_mesh(*shapes, chips([0, 1]))


def test_devices_without_groups_are_refused(devices):
    with pytest.raises(InvalidArgumentError, match="process_is_granule"):
        mesh_utils.create_hybrid_device_mesh((8,), (1,), devices[:8])
    whole = mesh_utils.create_hybrid_device_mesh((8,), (1,), devices[:8], process_is_granule=True)
    assert list(whole) == list(mesh_utils.create_device_mesh((8,), devices[:8]))
    with pytest.raises(InvalidArgumentError, match="must equal the product"):
        mesh_utils.create_device_mesh((3,), devices[:8])
