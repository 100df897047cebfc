"""Every member of clients, devices and memories that the interface documents and jaxlib have."""

import gc
import pickle
from typing import Any

import numpy as np
import pytest

import devrt
from devrt import xla_client
from devrt.errors import (
    ClosedError,
    DevrtError,
    ForkedError,
    InvalidArgumentError,
    InvalidTypeError,
    UnimplementedError,
)
from devrt.topology import DeviceTopology
from devrt_cpu import make_cpu_client
from support import python


def test_what_a_client_says(client):
    assert (client.platform, client.runtime_type) == ("cpu", "native")
    assert "devrt-cpu" in client.platform_version
    assert client.process_index() == client.host_id() == client.task_id() == 0
    assert client.device_count() == client.local_device_count() == 2
    assert client.devices() == client.local_devices() == client._get_all_devices()
    assert client.live_executables() == []
    assert client.device_from_local_hardware_id(1) is client.devices()[1]
    buffer = client.buffer_from_pyval(np.arange(3))
    assert client.live_buffers() == client.live_arrays() == [buffer]
    assert client.defragment() is None
    assert np.asarray(buffer).tolist() == [0, 1, 2]  # and no live data is lost by it


def test_what_a_device_says(client):
    for number, device in enumerate(client.devices()):
        assert (device.id, device.local_hardware_id) == (number, number)
        assert device.process_index == device.host_id == device.task_id == 0
        assert (device.platform, device.device_kind, device.client) == ("cpu", "cpu", client)
        assert device() is device
        assert (repr(device), str(device)) == (f"CpuDevice(id={number})", f"cpu:{number}")
        assert client.device_from_local_hardware_id(number) is device
        assert device.default_memory() is device.memory("device")
        for memory in device.addressable_memories():
            assert memory.addressable_by_devices() == [device]
            assert (memory.platform, memory.process_index) == ("cpu", 0)
        with pytest.raises(UnimplementedError, match="no streams"):
            device.get_stream_for_external_ready_events()


def test_the_topology_is_that_of_all_processes():
    with make_cpu_client(num_devices=2, node_id=1, num_nodes=3) as client:
        topology = client.topology()
        assert (topology.platform, topology.platform_version) == ("cpu", client.platform_version)
        assert topology.get_attributes() == {"num_devices": 6, "num_processes": 3}
        back = DeviceTopology.deserialize(topology.serialize())
        assert back == topology
        assert back.fingerprint() == topology.fingerprint()
        assert pickle.loads(pickle.dumps(topology)) == topology
        local = xla_client.get_topology_for_devices(client.local_devices())
        assert local.fingerprint() != topology.fingerprint()
        assert [d.id for d in back._make_compile_only_devices()] == list(range(6))


def test_compile_only_devices_make_meshes_and_hold_nothing(client):
    described = client.topology()._make_compile_only_devices()
    mesh = devrt.sharding.Mesh(np.array(described), ("x",))
    sharding = devrt.sharding.NamedSharding(mesh, devrt.sharding.PartitionSpec("x"))
    assert sharding.shard_shape((4, 3)) == (2, 3)
    assert not sharding.is_fully_addressable
    assert set(sharding.devices_indices_map((4,))) == set(described)
    single = devrt.sharding.SingleDeviceSharding(described[0])
    for target in (described[0], sharding, single):
        for value in (np.ones(4), devrt.device_put(np.ones(4))):
            with pytest.raises(DevrtError, match="described"):
                devrt.device_put(value, target)
    with pytest.raises(DevrtError, match="described"):
        devrt.make_array_from_callback((4,), sharding, np.ones(4).__getitem__, dtype=np.float32)
    with pytest.raises(DevrtError, match="described"):
        devrt.make_array_from_single_device_arrays((4,), sharding, [], dtype=np.float32)
    with pytest.raises(InvalidTypeError, match="CompileOnlyDevice"):
        client.buffer_from_pyval(np.ones(4), described[0])  # type: ignore[arg-type]


def test_buffers_and_arrays_are_array_impl(client):
    buffer = client.buffer_from_pyval(1.5)
    assert isinstance(buffer, xla_client.ArrayImpl)
    assert isinstance(devrt.device_put(1.5), xla_client.ArrayImpl)
    assert issubclass(devrt.Array, xla_client.ArrayImpl)
    assert not isinstance(np.ones(1), xla_client.ArrayImpl)
    assert not isinstance(1.5, xla_client.ArrayImpl)
    with pytest.raises(TypeError, match="abstract"):
        xla_client.ArrayImpl()  # type: ignore[abstract]


def test_a_deleted_buffer_still_says_its_layout(client):
    buffer = client.buffer_from_pyval(np.ones((2, 3)))
    buffer.delete()
    assert str(buffer.layout) == "{1,0}"


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("semantics", range(4))
def test_a_synchronous_client_returns_ready_buffers(asynchronous, size, semantics):
    with make_cpu_client(asynchronous=asynchronous, num_devices=2) as client:
        source = np.ones(size, np.float32)
        other = client.devices()[1].memory("unpinned_host")
        buffer = client.buffer_from_pyval(source, None, False, semantics)
        copied = buffer.copy_to_memory(other, may_alias=False)
        blocks = client.batched_buffer_from_pyval(
            source, client.devices(), [(0,), (0,)], (size,), semantics
        )
        ready = [b.is_ready() for b in (buffer, copied, *blocks)]
        assert asynchronous or all(ready)
        for made in (buffer, copied, *blocks):
            assert np.array_equal(np.asarray(made), source)


class Named(np.ndarray[Any, Any]):
    """A subclass with a mask of its own kind, as a record's field may be called."""

    mask = None


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (np.ma.array([1, 2], mask=[0, 1]), False),
        (np.ma.array([[1.0, 2.0]], mask=True), False),
        (np.ma.array([1, 2]), True),
        (np.ma.array([1, 2], mask=[0, 0]), True),
        (np.arange(2).view(Named), True),
    ],
    ids=repr,
)
def test_subclasses_of_ndarray(client, value, accepted):
    if accepted:
        assert np.array_equal(np.asarray(client.buffer_from_pyval(value)), np.asarray(value))
        return
    with pytest.raises(InvalidTypeError, match="mask"):
        client.buffer_from_pyval(value)


def test_a_matrix_is_an_array(client):
    with pytest.warns(PendingDeprecationWarning, match="matrix"):
        matrix = np.matrix([[1, 2]])
    assert np.asarray(client.buffer_from_pyval(matrix)).tolist() == [[1, 2]]


@pytest.mark.parametrize("value", [int, np.float32, np.ndarray, type(None)], ids=repr)
def test_classes_are_no_values(client, value):
    with pytest.raises(InvalidTypeError, match="no array"):
        client.buffer_from_pyval(value)


def test_shapes_that_cannot_be(client):
    device, host = client.devices()[0], np.ones(4, np.float32)
    for shape in ((-1,), (2**62,), (5,), (1, 1)):
        with pytest.raises(InvalidArgumentError):
            client.batched_buffer_from_pyval(host, [device], [(0,) * len(shape)], shape)
    with pytest.raises(DevrtError):  # a stride of zero makes a size that no memory has
        client.buffer_from_pyval(np.broadcast_to(np.float32(1), (2**45,)))


def test_a_closed_client_gives_no_layout_and_takes_no_buffer():
    client = make_cpu_client()
    client.close()
    with pytest.raises(ClosedError):
        client.buffer_from_pyval(1, layout="{}")
    assert client.device_count() == 1


def test_a_source_that_goes_while_it_is_copied_is_kept(client):
    import mmap

    size = 1 << 20
    memory = mmap.mmap(-1, size)
    memory.write(b"\x07" * size)
    host = np.frombuffer(memory, np.uint8)
    buffer = client.buffer_from_pyval(host, None, False, 2)
    del host
    gc.collect()
    with pytest.raises(BufferError):
        memory.close()  # the buffer shows these pages: they cannot go before it
    assert np.asarray(buffer)[-1] == 7
    buffer.delete()
    del buffer
    gc.collect()
    client.buffer_from_pyval(0)  # tidies up
    memory.close()


POISONED = """
import ctypes, gc, mmap
import numpy as np
from devrt_cpu import make_cpu_client

size = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
client = make_cpu_client()
for semantics, wait in ((0, False), (1, True)):
    memory = mmap.mmap(-1, size)
    host = np.frombuffer(memory, np.uint8)
    memory.write(bytes([semantics + 1]) * size)
    buffer = client.buffer_from_pyval(host, None, False, semantics)
    if wait:
        buffer.block_until_ready()
    # From here on a read of the source would end the process.
    assert libc.mprotect(host.ctypes.data, size, 0) == 0
    assert np.asarray(buffer)[-1] == semantics + 1
    assert int(np.asarray(buffer).sum(dtype=np.int64)) == size * (semantics + 1)
    copied = buffer.copy_to_memory(client.devices()[0].memory("pinned_host"))
    assert np.asarray(copied)[0] == semantics + 1
    assert libc.mprotect(host.ctypes.data, size, 3) == 0
print("untouched")
"""


def test_a_copied_source_is_never_read_again():
    assert python(POISONED).stdout == "untouched\n"


def test_a_forked_child_is_refused_streams_and_layouts(client):
    program = """
import os, sys, warnings
import numpy as np
from devrt_cpu import make_cpu_client
from devrt.errors import ForkedError
from devrt.xla_client import execution_stream_id

client = make_cpu_client()
host = np.ones(1 << 20, np.uint8)
with execution_stream_id(3):
    client.buffer_from_pyval(host, None, False, 1).block_until_ready()
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    try:
        with execution_stream_id(3):
            client.buffer_from_pyval(host, None, False, 1)
    except ForkedError:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert python(program, options=()).stdout == "7\n"
    assert issubclass(ForkedError, DevrtError)
