"""Copies from one platform to another, by way of page-locked memory of the host."""

import numpy as np
import pytest

import devrt
from devrt import xla_client
from devrt.arrays import ArrayCopySemantics
from devrt.errors import OutOfMemoryError
from devrt.sharding import Mesh, NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P
from devrt_acme.client import AcmeBuffer, AcmeClient, AcmeMemory

pytest.importorskip("devrt_cpu")

X = np.arange(64, dtype=np.float32).reshape(8, 8)
ROWS = P("x")


class Pinned(AcmeMemory):
    kind = "pinned_host"
    is_host_visible = True


class StagedBuffer(AcmeBuffer):
    """A buffer that lies on one of two memories and notes where it goes."""

    in_memory = None

    @property
    def memory(self):
        return self.in_memory or self.device.default_memory()

    def copy_to_memory(self, memory, *, may_alias=True):
        client = self.device.client
        if memory.kind in client.full:
            raise OutOfMemoryError(f"out of memory in {memory.kind}")
        client.steps.append(f"{self.memory.kind} to {memory.kind}")
        return client.on(memory, super().copy_to_memory(memory, may_alias=False))

    def __array__(self, dtype=None, copy=None):
        self.device.client.steps.append(f"read {self.memory.kind}")
        return super().__array__(dtype, copy)


class StagedClient(AcmeClient):
    """A platform with page-locked memory beside that of its devices, which the host cannot see."""

    def __init__(self, count=4):
        super().__init__(count)
        self.steps, self.full = [], ()
        for device in self._devices:
            device.pinned = Pinned(device)
            device.addressable_memories = lambda d=device: [d.default_memory(), d.pinned]
            device.memory = lambda kind, d=device: {m.kind: m for m in d.addressable_memories()}[
                kind
            ]

    def buffer_from_pyval(self, argument, device=None, *rest):
        memory = device if isinstance(device, AcmeMemory) else device.default_memory()
        if memory.kind in self.full:
            raise OutOfMemoryError(f"out of memory in {memory.kind}")
        self.steps.append(f"host to {memory.kind}")
        return self.on(memory, super().buffer_from_pyval(argument, device, *rest))

    def on(self, memory, buffer):
        buffer.__class__ = StagedBuffer
        buffer.in_memory = memory
        return buffer


@pytest.fixture
def clients():
    first, second = StagedClient(), StagedClient()
    yield first, second
    first.close()
    second.close()


def sharded(client, spec=ROWS):
    return NamedSharding(Mesh(np.array(client.devices(), dtype=object), ("x",)), spec)


def taken(client):
    steps, client.steps = client.steps, []
    return steps


OUT = ["device to pinned_host", "read pinned_host"]
IN = ["host to pinned_host", "pinned_host to device"]


def test_both_sides_stage_where_both_have_the_memory(clients):
    first, second = clients
    a = devrt.device_put(X, first.devices()[0])
    taken(first)
    b = devrt.device_put(a, second.devices()[1])
    assert (taken(first), taken(second)) == (OUT, IN)
    np.testing.assert_array_equal(np.asarray(b), X)
    assert b.device is second.devices()[1]
    assert b._buffers[0].memory.kind == "device"


def test_memory_that_the_host_sees_needs_no_stage(clients, cpu):
    first, _ = clients
    a = devrt.device_put(X, cpu[0])
    b = devrt.device_put(a, first.devices()[0])
    assert taken(first) == IN
    c = devrt.device_put(b, cpu[1])
    assert taken(first) == OUT
    np.testing.assert_array_equal(np.asarray(c), X)
    pinned = devrt.device_put(a, first.devices()[0].pinned)
    assert taken(first) == ["host to pinned_host"]
    devrt.device_put(pinned, cpu[0])
    assert taken(first) == ["read pinned_host"]


def test_all_shards_set_out_before_the_first_is_waited_for(clients):
    first, second = clients
    a = devrt.device_put(X, sharded(first))
    taken(first)
    b = devrt.device_put(a, sharded(second))
    assert taken(first) == [OUT[0]] * 4 + [OUT[1]] * 4
    assert taken(second) == IN * 4
    np.testing.assert_array_equal(np.asarray(b), X)


def test_blocks_put_together_on_the_host_are_staged_too(clients):
    first, second = clients
    a = devrt.device_put(X, sharded(first))
    taken(first)
    b = devrt.device_put(a, sharded(second, P(None, "x")))
    assert taken(first)[:4] == [OUT[0]] * 4
    assert taken(second) == IN * 4
    np.testing.assert_array_equal(np.asarray(b), X)
    taken(second)
    c = devrt.device_put(a, SingleDeviceSharding(second.devices()[2]))
    assert taken(second) == IN
    np.testing.assert_array_equal(np.asarray(c), X)


def test_batched_copies_are_staged_too(clients):
    first, second = clients
    a = devrt.device_put(X, sharded(first))
    taken(first)
    (b,) = xla_client.batched_copy_array_to_devices_with_sharding(
        [a], [second.devices()], [sharded(second)], [ArrayCopySemantics.ALWAYS_COPY]
    )
    assert taken(first) == [OUT[0]] * 4 + [OUT[1]] * 4
    assert taken(second) == IN * 4
    np.testing.assert_array_equal(np.asarray(b), X)


def test_without_memory_to_stage_the_copy_is_made_all_the_same(clients):
    first, second = clients
    a = devrt.device_put(X, sharded(first))
    taken(first)
    first.full = second.full = ("pinned_host",)
    b = devrt.device_put(a, sharded(second))
    assert taken(first) == ["read device"] * 4
    assert taken(second) == ["host to device"] * 4
    np.testing.assert_array_equal(np.asarray(b), X)


def test_no_memory_at_the_target_is_the_callers_error(clients):
    first, second = clients
    a = devrt.device_put(X, first.devices()[0])
    second.full = ("pinned_host", "device")
    with pytest.raises(OutOfMemoryError, match="out of memory in device"):
        devrt.device_put(a, second.devices()[0])


def test_two_cpu_clients_need_no_stage_and_share_nothing(cpu):
    devrt_cpu = pytest.importorskip("devrt_cpu")
    with devrt_cpu.make_cpu_client(num_devices=4) as other:
        a = devrt.device_put(X, cpu[0])
        b = devrt.device_put(a, sharded(other))
        pinned = [d.memory("pinned_host").memory_stats()["num_allocs"] for d in other.devices()]
        assert pinned == [0] * 4
        a.delete()
        np.testing.assert_array_equal(np.asarray(b), X)
        assert b.addressable_data(0).unsafe_buffer_pointer() % 64 == 0
