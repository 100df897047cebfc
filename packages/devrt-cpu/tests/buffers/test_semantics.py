"""What the client does with the host memory that a buffer is made from."""

import sys
import weakref
from typing import Any

import numpy as np
import pytest

from devrt.contract import HostBufferSemantics as Semantics
from devrt_cpu import make_cpu_client
from support import aligned


class Tracked(np.ndarray[Any, Any]):
    """An array that can be watched dying."""


@pytest.mark.parametrize("semantics", [1, 2, 3])
def test_handle_collection_lets_the_source_go(client, semantics):
    host = aligned(1 << 16).view(Tracked)
    references = sys.getrefcount(host)
    buffer = client.buffer_from_pyval(host, None, False, semantics)
    buffer.block_until_ready()
    del buffer
    client.buffer_from_pyval(1)  # a call that holds the GIL releases what a worker queued
    assert sys.getrefcount(host) == references


@pytest.mark.parametrize(
    "host",
    [aligned(9, offset=4), aligned(64)[::2], aligned(8).astype(">f4"), aligned(64).reshape(8, 8).T],
    ids=["unaligned", "strided", "big-endian", "transposed"],
)
def test_zero_copy_copies_where_it_must(client, host):
    buffer = client.buffer_from_pyval(host, None, False, Semantics.ZERO_COPY)
    assert buffer.unsafe_buffer_pointer() != host.ctypes.data
    assert buffer.unsafe_buffer_pointer() % 64 == 0
    assert np.array_equal(np.asarray(buffer), host)


def test_many_transfers_in_flight():
    host = [np.full(1 << 15, i, np.float32) for i in range(200)]
    with make_cpu_client(num_devices=2) as client:
        devices = client.devices()
        buffers = [
            client.buffer_from_pyval(source, devices[i % 2], False, 1)
            for i, source in enumerate(host)
        ]
        moved = [
            b.copy_to_memory(devices[(i + 1) % 2].default_memory(), may_alias=False)
            for i, b in enumerate(buffers)
        ]
        for i, buffer in enumerate(moved):
            assert np.all(np.asarray(buffer) == i)


def test_closing_finishes_transfers_in_flight():
    client = make_cpu_client()
    host = aligned(1 << 20).view(Tracked)
    alive = weakref.ref(host)
    buffers = [client.buffer_from_pyval(host, None, False, 1) for _ in range(4)]
    del host
    client.close()
    assert all(b.is_deleted() for b in buffers)
    make_cpu_client().buffer_from_pyval(0)  # tidies up
    assert alive() is None
