"""From one sharding to another: what arrives, how many bytes move, and through which calls."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import devrt
from devrt.arrays import transfer_cost
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import Mesh, NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P
from devrt_acme.client import AcmeBuffer, AcmeClient

pytest.importorskip("devrt_cpu")

SPECS = [
    P(), P("x"), P("y"), P(None, "x"), P("x", "y"), P("y", "x"), P(("x", "y")), P(None, ("y", "x"))
]  # fmt: skip


def mesh_of(devices):
    grid = np.empty(len(devices), dtype=object)
    grid[:] = devices
    return Mesh(grid.reshape(4, 2), ("x", "y"))


class CountingClient(AcmeClient):
    """A platform whose devices share nothing, and which notes every transfer that it is given."""

    def __init__(self, count=8):
        super().__init__(count)
        self.from_host = []
        self.between = []

    def buffer_from_pyval(self, argument, device=None, *rest):
        buffer = super().buffer_from_pyval(argument, device, *rest)
        self.from_host.append((buffer.device, buffer.shape))
        buffer.__class__ = CountedBuffer
        return buffer


class CountedBuffer(AcmeBuffer):
    def copy_to_memory(self, memory, *, may_alias=True):
        copied = super().copy_to_memory(memory, may_alias=may_alias)
        copied.__class__ = CountedBuffer
        if copied.device is not self.device:
            self.device.client.between.append((copied.device, copied.shape))
        return copied


@given(
    rows=st.integers(0, 2),
    columns=st.integers(0, 2),
    first=st.sampled_from(SPECS),
    second=st.sampled_from(SPECS),
    order=st.permutations(range(8)),
)
def test_without_shared_memory_each_device_gets_its_bytes_once(rows, columns, first, second, order):
    client = CountingClient()
    devices = client.devices()
    x = np.arange(rows * columns * 64, dtype=np.int16).reshape(rows * 8, columns * 8)
    a = devrt.device_put(x, NamedSharding(mesh_of(devices), first))
    target = NamedSharding(mesh_of([devices[i] for i in order]), second)
    cost = transfer_cost(a, target)
    client.from_host.clear()
    client.between.clear()
    b = devrt.device_put(a, target)
    moved = client.from_host + client.between
    assert sum(np.prod(shape, dtype=int) for _, shape in moved) * 2 == cost.bytes_moved
    assert cost.bytes_moved == cost.least_bytes
    assert len({device for device, _ in moved}) == len(moved)  # at most one block a device
    assert all(shape == target.shard_shape(x.shape) for _, shape in moved)
    np.testing.assert_array_equal(np.asarray(b), x)
    for shard in b.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
        assert shard.data.device is shard.device


@given(
    first=st.sampled_from(SPECS),
    second=st.sampled_from(SPECS),
    order=st.permutations(range(8)),
    kind=st.sampled_from(["device", "pinned_host"]),
)
def test_where_devices_share_memory_what_is_allocated_is_what_is_planned(
    first, second, order, kind
):
    devices = devrt.devices("cpu")
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    a = devrt.device_put(x, NamedSharding(mesh_of(devices), first))
    target = NamedSharding(mesh_of([devices[i] for i in order]), second, memory_kind=kind)
    cost = transfer_cost(a, target)
    before = sum(d.memory_stats()["bytes_in_use"] for d in devices)
    b = devrt.device_put(a, target).block_until_ready()
    after = sum(d.memory_stats()["bytes_in_use"] for d in devices)
    assert after - before == cost.bytes_moved == cost.least_bytes
    for shard in b.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
    a.delete()
    np.testing.assert_array_equal(np.asarray(b), x)


def test_replicated_to_sharded_and_back_across_platforms(cpu):
    client = CountingClient()
    x = np.arange(128, dtype=np.float64).reshape(16, 8)
    there = NamedSharding(mesh_of(client.devices()), P("y", "x"))
    a = devrt.device_put(x, NamedSharding(mesh_of(cpu), P("x")))
    b = devrt.device_put(a, there)
    assert b.devices() == set(client.devices())
    assert all(shape == (8, 2) for _, shape in client.from_host)
    assert len(client.from_host) == 8
    c = devrt.device_put(b, a.sharding)
    assert c.devices() == set(cpu)
    for array in (b, c):
        np.testing.assert_array_equal(np.asarray(array), x)
    one = devrt.device_put(b, cpu[3])
    assert one.device is cpu[3]
    np.testing.assert_array_equal(np.asarray(one), x)
    np.testing.assert_array_equal(np.asarray(devrt.device_put(one, client.devices()[1])), x)


def test_replicas_are_spread_by_direct_copies():
    client = CountingClient()
    devices = client.devices()
    a = devrt.device_put(np.arange(64.0), NamedSharding(mesh_of(devices), P(("x", "y"))))
    client.from_host.clear()
    devrt.device_put(a, NamedSharding(mesh_of(devices), P()))
    assert len(client.from_host) == 1
    assert len(client.between) == 7


def test_a_block_that_a_device_has_is_copied_directly():
    client = CountingClient()
    devices = client.devices()
    a = devrt.device_put(np.arange(64.0), NamedSharding(mesh_of(devices), P(("x", "y"))))
    client.from_host.clear()
    reversed_mesh = NamedSharding(mesh_of(devices[::-1]), P(("x", "y")))
    b = devrt.device_put(a, reversed_mesh)
    assert client.from_host == []
    assert len(client.between) == 8
    np.testing.assert_array_equal(np.asarray(b), np.arange(64.0))


def test_the_whole_array_is_on_one_device_only_where_that_is_requested(cpu):
    client = CountingClient()
    a = devrt.device_put(np.zeros((16, 8)), NamedSharding(mesh_of(client.devices()), P("x")))
    client.from_host.clear()
    one = devrt.device_put(a, client.devices()[5])
    assert client.from_host == [(client.devices()[5], (16, 8))]
    assert one.devices() == {client.devices()[5]}


def test_no_share_means_memory_of_its_own(cpu):
    a = devrt.device_put(np.arange(64.0), NamedSharding(mesh_of(cpu), P("x")))
    for target in (a.sharding, NamedSharding(mesh_of(cpu[::-1]), P("x"))):
        b = devrt.device_put(a, target, may_alias=False)
        ours = {s.data.unsafe_buffer_pointer() for s in a.addressable_shards}
        theirs = {s.data.unsafe_buffer_pointer() for s in b.addressable_shards}
        assert ours.isdisjoint(theirs)
        shared = devrt.device_put(a, target)
        assert {s.data.unsafe_buffer_pointer() for s in shared.addressable_shards} == ours


def test_donation_frees_the_source_and_keeps_the_result(cpu):
    a = devrt.device_put(np.arange(4096.0), NamedSharding(mesh_of(cpu), P("x")))
    b = devrt.device_put(a, NamedSharding(mesh_of(cpu), P("y")), donate=True)
    assert a.is_deleted()
    np.testing.assert_array_equal(np.asarray(b), np.arange(4096.0))


def test_plans_keep_no_sharding_alive():
    client = AcmeClient(8)
    a = devrt.device_put(np.zeros(8), NamedSharding(mesh_of(client.devices()), P("x")))
    b = devrt.device_put(a, NamedSharding(mesh_of(client.devices()), P("y")))
    c = devrt.device_put(b, a.sharding)
    kept = weakref.ref(client)
    del a, b, c, client
    gc.collect()
    assert kept() is None


def test_an_error_on_the_way_reaches_every_block_that_needs_it(cpu):
    a = devrt.device_put(np.arange(64.0), NamedSharding(mesh_of(cpu), P("x")))
    a._buffers[0].delete()
    with pytest.raises(devrt.errors.DeletedError, match="deleted"):
        devrt.device_put(a, NamedSharding(mesh_of(cpu), P()))


def test_a_shape_that_does_not_fit_the_new_sharding_names_the_axis(cpu):
    a = devrt.device_put(np.zeros(6), NamedSharding(mesh_of(cpu), P("y")))
    with pytest.raises(InvalidArgumentError, match="'x'"):
        devrt.device_put(a, NamedSharding(mesh_of(cpu), P("x")))


def test_single_device_shardings_are_targets_of_sharded_arrays(cpu):
    a = devrt.device_put(np.arange(64.0), NamedSharding(mesh_of(cpu), P("x")))
    target = SingleDeviceSharding(cpu[2], memory_kind="pinned_host")
    b = devrt.device_put(a, target)
    assert b.sharding is target
    assert b._buffers[0].memory.kind == "pinned_host"
    np.testing.assert_array_equal(np.asarray(b), np.arange(64.0))


def test_parts_that_are_shown_keep_the_whole_alive(cpu):
    x = np.arange(4096, dtype=np.float32)
    whole = devrt.device_put(x, NamedSharding(mesh_of(cpu), P()))
    target = NamedSharding(mesh_of(cpu), P(("x", "y")))
    assert transfer_cost(whole, target).bytes_moved == 0
    parts = devrt.device_put(whole, target, donate=True)
    assert whole.is_deleted()
    np.testing.assert_array_equal(np.asarray(parts), x)
    uneven = devrt.device_put(np.arange(24, dtype=np.float32), NamedSharding(mesh_of(cpu), P()))
    assert (
        transfer_cost(uneven, target).bytes_moved == 21 * 4
    )  # all but the first part, which is aligned


def test_caches_can_be_dropped_at_any_time(cpu):
    a = devrt.device_put(np.arange(64.0), NamedSharding(mesh_of(cpu), P("x")))
    for _ in range(2):
        b = devrt.device_put(a, NamedSharding(mesh_of(cpu), P("y")))
        np.testing.assert_array_equal(np.asarray(b), np.arange(64.0))
        devrt.clear_caches()


def test_the_cost_of_every_target_that_device_put_takes(cpu):
    x = devrt.device_put(np.zeros(256, np.float32), cpu[0])
    rows = NamedSharding(mesh_of(cpu), P("x"))
    sharded = devrt.device_put(x, rows)
    (far,) = AcmeClient(1).devices()
    for target in (None, cpu[0], cpu[0].default_memory(), cpu[0].default_memory().kind):
        assert transfer_cost(x, target).bytes_moved == 0
    assert transfer_cost(x, far) == transfer_cost(x, SingleDeviceSharding(far))
    assert transfer_cost(x, far).bytes_moved == x.nbytes
    assert transfer_cost(sharded, far.default_memory()).bytes_moved == x.nbytes
    other = next(m for m in cpu[0].addressable_memories() if m is not cpu[0].default_memory())
    assert transfer_cost(sharded, other.kind) == transfer_cost(
        sharded, rows.with_memory_kind(other.kind)
    )


@pytest.mark.parametrize(
    ("value", "target", "error", "says"),
    [
        (1, "nowhere", InvalidArgumentError, "transfer_cost takes the name of a memory kind"),
        (1, 3, InvalidTypeError, "transfer_cost cannot place on 3"),
        (np.ones(2), None, InvalidTypeError, "on devices, not one of type ndarray"),
        ([1], None, InvalidTypeError, "of type list"),
    ],
)
def test_what_has_no_cost_is_one_clear_error(cpu, value, target, error, says):
    x = devrt.device_put(1.0, cpu[0]) if type(value) is int else value
    with pytest.raises(error, match=says):
        transfer_cost(x, target)
