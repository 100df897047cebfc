"""Arrays over meshes: shards, gathering, moving between shardings, memories and devices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import devrt
from devrt.errors import DeletedError, InvalidArgumentError
from devrt.sharding import NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P

pytest.importorskip("devrt_cpu")

SPECS = [
    P(),
    P("x"),
    P("y"),
    P(None, "x"),
    P("x", "y"),
    P("y", "x"),
    P(("x", "y")),
    P(None, ("y", "x")),
]
KINDS = [None, "device", "pinned_host", "unpinned_host"]


@pytest.fixture
def mesh(cpu):
    return devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_each_device_holds_its_block(mesh, spec):
    x = np.arange(16 * 8, dtype=np.int32).reshape(16, 8)
    sharding = NamedSharding(mesh, spec)
    a = devrt.device_put(x, sharding)
    assert a.shape == x.shape
    assert a.sharding is sharding
    assert len(a.addressable_shards) == 8
    expected = sharding.devices_indices_map(x.shape)
    for shard in a.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x[expected[shard.device]])
        assert shard.data.device is shard.device
        assert shard.index == expected[shard.device]
    np.testing.assert_array_equal(np.asarray(a), x)
    np.testing.assert_array_equal(devrt.device_get(a), x)


def test_replicas_are_numbered_and_share_host_memory(mesh):
    a = devrt.device_put(np.ones((8, 2)), NamedSharding(mesh, P("x")))
    by_block = {}
    for shard in a.addressable_shards:
        by_block.setdefault(shard.index[0].start, []).append(shard.replica_id)
    assert [sorted(ids) for ids in by_block.values()] == [[0, 1]] * 4
    pointers = {s.data.unsafe_buffer_pointer() for s in a.addressable_shards}
    assert len(pointers) == 4


@given(
    rows=st.integers(0, 4),
    columns=st.integers(0, 4),
    first=st.sampled_from(SPECS),
    second=st.sampled_from(SPECS),
    kind=st.sampled_from(KINDS),
    strided=st.booleans(),
)
def test_put_reshard_gather_is_the_identity(rows, columns, first, second, kind, strided):
    mesh = devrt.make_mesh((4, 2), ("x", "y"), devices=devrt.devices("cpu")[:8])
    x = np.arange(rows * columns * 64, dtype=np.float32).reshape(rows * 8, columns * 8)
    if strided:
        x = np.ascontiguousarray(x[::-1].T)[:, ::-1].T
    a = devrt.device_put(x, NamedSharding(mesh, first))
    b = devrt.device_put(a, NamedSharding(mesh, second, memory_kind=kind))
    c = devrt.device_put(b, mesh.devices.flat[3])
    for array in (a, b, c):
        np.testing.assert_array_equal(np.asarray(array), x)
    assert {s.data.sharding.memory_kind for s in b.addressable_shards} <= {kind or "device"}
    assert c.devices() == {mesh.devices.flat[3]}


def test_gathering_happens_once_and_is_read_only(mesh):
    a = devrt.device_put(np.ones((8, 8)), NamedSharding(mesh, P("x", "y")))
    first = devrt.device_get(a)
    assert devrt.device_get(a) is first
    assert not first.flags.writeable
    made = np.array(a)
    assert made.flags.writeable


def test_memory_kinds_move_and_name_themselves(mesh, cpu):
    x = np.arange(32.0).reshape(8, 4)
    a = devrt.device_put(x, NamedSharding(mesh, P("x")))
    for kind in KINDS[1:]:
        moved = devrt.device_put(a, kind)
        assert moved.sharding.memory_kind == kind
        assert moved.sharding.spec == a.sharding.spec
        np.testing.assert_array_equal(np.asarray(moved), x)
    host = devrt.device_put(x, "pinned_host")
    assert host.sharding.memory_kind == "pinned_host"
    memory = cpu[2].memory("unpinned_host")
    placed = devrt.device_put(x, memory)
    assert placed.device is cpu[2]
    assert placed.sharding.memory_kind == "unpinned_host"


def test_single_device_shardings_and_source_check(cpu):
    a = devrt.device_put(np.ones(3), SingleDeviceSharding(cpu[2], memory_kind="pinned_host"))
    assert a.device is cpu[2]
    assert a.sharding.memory_kind == "pinned_host"
    moved = devrt.device_put(a, cpu[0], src=cpu[2])
    assert moved.device is cpu[0]
    with pytest.raises(InvalidArgumentError, match="src"):
        devrt.device_put(a, cpu[0], cpu[1])


def test_donation_deletes_the_source_only(mesh, cpu):
    a = devrt.device_put(np.ones((8, 2)), cpu[0])
    b = devrt.device_put(a, NamedSharding(mesh, P("x")), donate=True)
    assert a.is_deleted()
    assert np.asarray(b).sum() == 16


def test_copies_share_nothing_on_request(cpu):
    a = devrt.device_put(np.ones(64), cpu[0])
    shared = devrt.device_put(a, cpu[1])
    apart = devrt.device_put(a, cpu[1], may_alias=False)
    assert shared.unsafe_buffer_pointer() == a.unsafe_buffer_pointer()
    assert apart.unsafe_buffer_pointer() != a.unsafe_buffer_pointer()
    a.delete()
    assert np.asarray(shared).sum() == 64


def test_a_deleted_shard_is_reported(mesh):
    a = devrt.device_put(np.ones((8, 2)), NamedSharding(mesh, P("x")))
    a.delete()
    with pytest.raises(DeletedError, match="deleted"):
        np.asarray(a)


def test_one_shard_operations_need_one_shard(mesh):
    a = devrt.device_put(np.ones((8, 2)), NamedSharding(mesh, P("x")))
    for use in (lambda: a.unsafe_buffer_pointer(), lambda: a.__dlpack__()):
        with pytest.raises(InvalidArgumentError, match="8 shards"):
            use()
    with pytest.raises(InvalidArgumentError, match="shard 8"):
        a.addressable_data(8)
    assert a.addressable_data(7).shape == (2, 2)


def test_a_shape_that_does_not_divide_is_one_clear_error(mesh):
    with pytest.raises(InvalidArgumentError) as caught:
        devrt.device_put(np.ones((10, 2)), NamedSharding(mesh, P("x")))
    message = str(caught.value)
    assert "10" in message
    assert "'x'" in message
    assert "4" in message


def test_a_mesh_larger_than_the_devices_is_one_clear_error(cpu):
    with pytest.raises(InvalidArgumentError) as caught:
        devrt.make_mesh((64, 2), ("x", "y"))
    assert "128" in str(caught.value)
    assert str(len(cpu)) in str(caught.value)
    assert "num_cpu_devices" in str(caught.value)


def test_scalars_and_lists_over_a_mesh(mesh):
    a = devrt.device_put(3, NamedSharding(mesh, P()))
    assert a.dtype == np.int32
    assert a.is_fully_replicated
    assert int(a) == 3
    placed = devrt.device_put([1.0, np.ones(8)], NamedSharding(mesh, P()))
    assert [p.shape for p in placed] == [(), (8,)]


def test_a_spec_is_over_the_mesh_that_is_entered(mesh):
    x = np.arange(32.0).reshape(8, 4)
    with mesh:
        a = devrt.device_put(x, P("x"))
        tree = devrt.device_put({"a": x, "b": [x]}, {"a": P("y"), "b": P()})
        moved = devrt.device_put(a, P(None, "y"))
    assert a.sharding == NamedSharding(mesh, P("x"))
    assert tree["a"].sharding.spec == P("y")
    assert tree["b"][0].sharding.spec == P()
    assert moved.sharding.spec == P(None, "y")
    np.testing.assert_array_equal(moved, x)
    with pytest.raises(InvalidArgumentError, match=r"no mesh is entered.*devrt\.set_mesh"):
        devrt.device_put(x, P("x"))
