"""Devices, memories, copies between them, and what they count."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

from devrt import errors
from devrt.records import MemoryKind
from devrt_cpu import make_cpu_client, plugin

KINDS = ["device", "pinned_host", "unpinned_host"]
KEYS = {
    "num_allocs",
    "bytes_in_use",
    "peak_bytes_in_use",
    "largest_alloc_size",
    "bytes_limit",
    "bytes_reserved",
    "peak_bytes_reserved",
    "bytes_reservable_limit",
    "largest_free_block_bytes",
}


def test_handles_are_the_same_object(client):
    device = client.devices()[1]
    memory = device.memory("pinned_host")
    assert client.local_devices()[1] is device
    assert device.memory("pinned_host") is memory
    assert memory.addressable_by_devices() == [device]
    assert device.default_memory() is device.addressable_memories()[0]
    assert [m.kind for m in device.addressable_memories()] == KINDS
    buffer = client.buffer_from_pyval(1, memory)
    assert buffer.memory is memory
    assert buffer.device is device
    assert buffer.devices() == {device}
    assert len({device, client.devices()[0]}) == 2


def test_processes():
    with make_cpu_client(num_devices=2, node_id=1, num_nodes=3) as client:
        assert client.process_index() == client.host_id() == 1
        assert [d.id for d in client.devices()] == list(range(6))
        assert [d.id for d in client.local_devices()] == [2, 3]
        assert [d.process_index for d in client.devices()] == [0, 0, 1, 1, 2, 2]
        assert client.buffer_from_pyval(1).device.id == 2
        far = client.devices()[5]
        assert far.addressable_memories() == []
        for call in (far.default_memory, far.memory_stats, lambda: far.memory("device")):
            with pytest.raises(errors.DevrtError, match="process 2"):
                call()
        with pytest.raises(errors.DevrtError, match="process 2"):
            client.buffer_from_pyval(1, far)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_counts_and_gives_back(client, kind):
    device = client.devices()[1]
    memory = device.memory(kind)
    host = np.arange(1000, dtype=np.float64)
    buffer = client.buffer_from_pyval(host, memory)
    for stats in (memory.memory_stats(), device.memory_stats()):
        assert stats.keys() >= KEYS
        assert all(isinstance(v, int) for v in stats.values())
        assert stats["num_allocs"] == 1
        assert stats["bytes_in_use"] == stats["peak_bytes_in_use"] == 8000
        assert stats["largest_alloc_size"] == 8000
        assert 0 < stats["largest_free_block_bytes"] <= stats["bytes_limit"]
    assert buffer.unsafe_buffer_pointer() % 64 == 0
    assert buffer.on_device_size_in_bytes() == 8000
    view = np.asarray(buffer)
    buffer.delete()
    assert memory.memory_stats()["bytes_in_use"] == 8000  # the view still shows it
    assert np.array_equal(view, host)
    del view
    assert device.memory_stats()["bytes_in_use"] == memory.memory_stats()["bytes_in_use"] == 0
    assert device.memory_stats()["peak_bytes_in_use"] == 8000


def test_pinned_memory_says_what_is_locked(client):
    memory = client.devices()[0].memory("pinned_host")
    buffer = client.buffer_from_pyval(np.zeros(5000, np.uint8), memory)
    stats = memory.memory_stats()
    page = 4096
    assert stats["bytes_page_locked"] + stats["bytes_not_page_locked"] == 2 * page
    del buffer
    client.defragment()  # until then the pages are kept for the next buffer
    stats = memory.memory_stats()
    assert stats["bytes_page_locked"] == stats["bytes_not_page_locked"] == 0


@pytest.mark.parametrize("size", [4, 1 << 16])
def test_copies_share_within_a_kind_only(client, size):
    first, second = client.devices()
    host = np.arange(size, dtype=np.float32)
    source = client.buffer_from_pyval(host)
    shared = source.copy_to_memory(second.default_memory())
    apart = source.copy_to_memory(second.default_memory(), may_alias=False)
    other = source.copy_to_memory(first.memory("unpinned_host"))
    assert shared.unsafe_buffer_pointer() == source.unsafe_buffer_pointer()
    assert shared != source
    assert (
        len({source.unsafe_buffer_pointer(), *(b.unsafe_buffer_pointer() for b in (apart, other))})
        == 3
    )
    assert (shared.device, other.memory.kind) == (second, "unpinned_host")
    source.delete()
    for buffer in (shared, apart, other):
        assert np.array_equal(np.asarray(buffer), host)


def test_clone_lives_by_itself(client):
    source = client.buffer_from_pyval(np.arange(4))
    clone = source.clone()
    assert clone != source
    assert clone.unsafe_buffer_pointer() == source.unsafe_buffer_pointer()
    source.delete()
    assert np.array_equal(np.asarray(clone), np.arange(4))


def test_too_large_is_out_of_memory(client):
    limit = client.devices()[0].memory_stats()["bytes_limit"]
    host = np.broadcast_to(np.uint8(1), (limit + 1,))
    with pytest.raises(errors.OutOfMemoryError, match="bytes_in_use=0") as caught:
        client.buffer_from_pyval(host)
    assert isinstance(caught.value, MemoryError)
    assert client.live_buffers() == []


class HostAllocator(ctypes.Structure):
    """Mirror of ``devrt_host_allocator``."""

    Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    Deallocate = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("ctx", ctypes.c_void_p),
        ("allocate", Allocate),
        ("deallocate", Deallocate),
    )


class Arena:
    """An allocator that a plugin could bring; remembers what is out, and may be off by bytes."""

    def __init__(self, off_by=0):
        self.out, self.off_by = {}, off_by
        self.table = HostAllocator(
            ctypes.sizeof(HostAllocator),
            None,
            HostAllocator.Allocate(self._allocate),
            HostAllocator.Deallocate(lambda _ctx, data, _size: self.out.pop(data) and None),
        )

    def _allocate(self, ctx, size, alignment):
        if size > 1 << 20:
            return None
        block = ctypes.create_string_buffer(size + alignment + self.off_by)
        address = ctypes.addressof(block)
        address += -address % alignment + self.off_by
        self.out[address] = block
        return address

    def capsule(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.table), b"devrt_host_allocator", None)


def test_misaligned_memory_of_a_plugin_is_refused_and_given_back():
    arena = Arena(off_by=8)
    kind = MemoryKind(platform="cpu", kind="unusual", allocator=arena.capsule)
    with make_cpu_client(memory_kinds=[kind]) as client:
        memory = client.devices()[0].memory("unusual")
        with pytest.raises(errors.InternalError, match="aligned"):
            client.buffer_from_pyval(np.arange(100.0), memory)
        assert not arena.out
        assert memory.memory_stats()["bytes_in_use"] == 0


def test_added_kind_uses_its_allocator():
    arena = Arena()
    kind = MemoryKind(platform="cpu", kind="arena", allocator=arena.capsule)
    builtin = MemoryKind(platform="cpu", kind="device")
    with make_cpu_client(num_devices=2, memory_kinds=[builtin, kind]) as client:
        memory = client.devices()[1].memory("arena")
        assert [m.kind for m in client.devices()[0].addressable_memories()] == [*KINDS, "arena"]
        buffer = client.buffer_from_pyval(np.arange(9.0), memory)
        assert buffer.unsafe_buffer_pointer() in arena.out
        assert memory.memory_stats()["bytes_in_use"] == 72
        back = buffer.copy_to_memory(client.devices()[0].default_memory())
        assert np.array_equal(np.asarray(back), np.arange(9.0))
        with pytest.raises(errors.OutOfMemoryError):
            client.buffer_from_pyval(np.zeros(1 << 20), memory)
        del buffer
        assert arena.out == {}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (MemoryKind(platform="cpu", kind="unusual"), "brings no allocator"),
        (MemoryKind(platform="cpu", kind="device", allocator=object), "there already"),
        (MemoryKind(platform="cpu", kind="unusual", allocator=lambda: 5), "'unusual'"),
        (MemoryKind(platform="cpu", kind="unusual", allocator=lambda: None), "'unusual'"),
    ],
)
def test_unusable_kinds_are_refused(record, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        make_cpu_client(memory_kinds=[record])


def test_no_cycle_keeps_a_client_alive():
    gc.disable()
    try:
        client = make_cpu_client()
        device = client.devices()[0]
        gone = weakref.ref(client)
        buffer = client.buffer_from_pyval(np.arange(3))
        del client
        assert gone() is None
        assert device.client.devices()[0] is device
        assert np.array_equal(np.asarray(buffer), np.arange(3))
    finally:
        gc.enable()


def test_the_plugin_leaves_out_kinds_whose_allocator_fails():
    def fails():
        raise OSError("no such memory")

    for allocator, why in ((fails, "no such memory"), (lambda: 5, "of type int")):
        kind = MemoryKind(platform="cpu", kind="unusual", allocator=allocator)
        with pytest.warns(errors.DevrtWarning, match=f"'unusual'.*{why}"):
            assert list(plugin._usable([kind])) == []
