"""Freed blocks that a client keeps for its next buffers."""

import os
import threading
import warnings

import numpy as np
import pytest

from devrt_cpu import make_cpu_client
from support import together

KINDS = ["device", "pinned_host", "unpinned_host"]
HOST = np.arange(1 << 17, dtype=np.float64)  # 1 MiB


def reserved(client, kind="device"):
    return client.devices()[0].memory(kind).memory_stats()["bytes_reserved"]


@pytest.mark.parametrize("kind", KINDS)
def test_next_buffer_takes_the_freed_block(client, kind):
    first, second = (device.memory(kind) for device in client.devices())
    buffer = client.buffer_from_pyval(HOST, first)
    address = buffer.unsafe_buffer_pointer()
    del buffer
    assert first.memory_stats()["bytes_in_use"] == 0
    assert reserved(client, kind) == HOST.nbytes
    smaller = client.buffer_from_pyval(HOST[:-100], second)  # of the same size class
    assert smaller.unsafe_buffer_pointer() == address
    assert np.array_equal(np.asarray(smaller), HOST[:-100])
    assert second.memory_stats()["bytes_in_use"] == HOST[:-100].nbytes
    assert reserved(client, kind) == HOST.nbytes


def test_defragment_gives_back_what_is_kept(client):
    kept = client.buffer_from_pyval(HOST)
    for _ in range(3):
        client.buffer_from_pyval(HOST).delete()
    assert reserved(client) == 2 * HOST.nbytes
    client.defragment()
    assert reserved(client) == HOST.nbytes
    stats = client.devices()[0].memory_stats()
    assert stats["bytes_reserved"] == stats["bytes_in_use"] == HOST.nbytes
    assert stats["peak_bytes_reserved"] == 2 * HOST.nbytes
    assert np.array_equal(np.asarray(kept), HOST)


def test_close_gives_back_all_but_what_a_view_shows():
    client = make_cpu_client()
    memory = client.devices()[0].default_memory()
    view = np.asarray(client.buffer_from_pyval(HOST))
    client.buffer_from_pyval(HOST).delete()
    client.close()
    assert memory.memory_stats()["bytes_reserved"] == HOST.nbytes
    assert np.array_equal(view, HOST)
    del view
    assert memory.memory_stats()["bytes_reserved"] == memory.memory_stats()["bytes_in_use"] == 0


def test_a_view_keeps_its_block_from_being_reused(client):
    buffer = client.buffer_from_pyval(HOST)
    view = np.asarray(buffer)
    buffer.delete()
    other = client.buffer_from_pyval(np.zeros_like(HOST))
    assert np.array_equal(view, HOST)
    assert not np.asarray(other).any()


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (HOST.nbytes, 1), (5 * HOST.nbytes, 4)])
def test_the_limit_holds_over_all_devices_and_kinds(limit, kept):
    with make_cpu_client(num_devices=2, recycled_bytes=limit) as client:
        targets = [d.memory(k) for d in client.devices() for k in ("device", "unpinned_host")]
        for buffer in [client.buffer_from_pyval(HOST, target) for target in targets]:
            buffer.delete()
        stats = client.devices()[1].memory_stats()
        assert stats["bytes_reserved"] == kept * HOST.nbytes
        assert stats["peak_bytes_reserved"] == 4 * HOST.nbytes


def test_threads_share_the_blocks(client):
    start = threading.Barrier(4)

    def work(value):
        host = np.full(1 << 15, value)
        device = client.devices()[value % 2]
        start.wait(timeout=30)
        for _ in range(50):
            buffer = client.buffer_from_pyval(host, device)
            copied = buffer.copy_to_memory(device.memory("pinned_host"))
            assert (np.asarray(copied) == value).all()

    together(work)
    client.defragment()
    assert client.devices()[0].memory_stats()["bytes_reserved"] == 0


def test_a_forked_child_drops_views_without_the_lock(client):
    views = [
        np.asarray(client.buffer_from_pyval(HOST, client.devices()[0].memory(kind)))
        for kind in KINDS
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads are running is the point
        child = os.fork()
    if child == 0:
        views.clear()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert all(np.array_equal(view, HOST) for view in views)
