"""Execution streams: work of one id is ordered, work of another overtakes it.

What blocks a stream here is a source whose pages are not there: the system lets the thread that
touches them wait (``userfaultfd``) until the test puts them in. No clock decides anything.
"""

import ctypes
import mmap
import os
import struct
import threading

import numpy as np
import pytest

from devrt.contract import HostBufferSemantics
from devrt.xla_client import execution_stream_id
from devrt_cpu import make_cpu_client
from support import together

LATER = HostBufferSemantics.IMMUTABLE_UNTIL_TRANSFER_COMPLETES
SIZE = 256 << 10

_USERFAULTFD = {"x86_64": 323, "aarch64": 282}
_UFFDIO_API = 0xC018AA3F
_UFFDIO_REGISTER = 0xC020AA00
_UFFDIO_ZEROPAGE = 0xC020AA04
_MISSING = 1
_USER_MODE_ONLY = 1


class AbsentMemory:
    """Host memory that makes its reader wait until `arrive` is called; then it is zero."""

    def __init__(self):
        self._libc = ctypes.CDLL(None, use_errno=True)
        number = _USERFAULTFD.get(os.uname().machine, -1)
        flags = _USER_MODE_ONLY | os.O_CLOEXEC
        self._fd = self._libc.syscall(number, flags)
        if self._fd < 0:
            pytest.skip("the system offers no userfaultfd")
        self._map = mmap.mmap(-1, SIZE)
        self.array = np.frombuffer(self._map, np.uint8)
        self._control(_UFFDIO_API, struct.pack("=QQQ", 0xAA, 0, 0))
        place = struct.pack("=QQ", self.array.ctypes.data, SIZE)
        self._control(_UFFDIO_REGISTER, place + struct.pack("=QQ", _MISSING, 0))
        self._place = place
        self._arrived = False

    def arrive(self):
        if not self._arrived:
            self._arrived = True
            self._control(_UFFDIO_ZEROPAGE, self._place + struct.pack("=Qq", 0, 0))

    def close(self):
        self.arrive()
        os.close(self._fd)

    def _control(self, request, argument):
        block = ctypes.create_string_buffer(argument, len(argument))
        if self._libc.ioctl(self._fd, ctypes.c_ulong(request), block) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


@pytest.fixture
def absent():
    memory = AbsentMemory()
    rescue = threading.Timer(60, memory.arrive)  # what waits wrongly fails instead of hanging
    rescue.start()
    yield memory
    rescue.cancel()
    memory.close()


def put(client, host, stream, device=0):
    with execution_stream_id(stream):
        return client.buffer_from_pyval(host, client.devices()[device], False, LATER)


def test_a_blocked_stream_blocks_its_later_work_and_no_other(absent):
    present = np.ones(SIZE, np.uint8)
    with make_cpu_client(num_devices=2) as client:
        blocked = put(client, absent.array, 1)
        behind = put(client, present, 1)
        other = put(client, present, 2)
        assert np.array_equal(np.asarray(other), present)  # would wait for ever behind stream 1
        elsewhere = put(client, present, 1, device=1)
        assert elsewhere.block_until_ready() is elsewhere  # a stream is one device's
        with execution_stream_id(2):
            copied = other.copy_to_memory(client.devices()[0].default_memory(), may_alias=False)
        assert copied.block_until_ready() is copied
        assert not blocked.is_ready()
        assert not behind.is_ready()
        absent.arrive()
        assert np.array_equal(np.asarray(behind), present)
        assert blocked.is_ready()  # it was first
        assert not np.asarray(blocked).any()


def test_work_that_needs_a_blocked_result_waits_on_any_stream(absent):
    with make_cpu_client() as client:
        memory = client.devices()[0].default_memory()
        blocked = put(client, absent.array, 1)
        with execution_stream_id(2):
            copied = blocked.copy_to_memory(memory, may_alias=False)
        after = put(client, np.ones(SIZE, np.uint8), 2)
        assert not copied.is_ready()
        assert not after.is_ready()
        absent.arrive()
        assert after.block_until_ready() is after
        assert copied.is_ready()


def test_a_batch_is_ordered_like_single_transfers(absent):
    with make_cpu_client() as client:
        device = client.devices()[0]
        blocked = put(client, absent.array, 1)
        with execution_stream_id(1):
            (behind,) = client.batched_buffer_from_pyval(
                np.ones(SIZE, np.uint8), [device], [(0,)], (SIZE,), LATER
            )
        with execution_stream_id(3):
            (free,) = client.batched_buffer_from_pyval(
                np.ones(SIZE, np.uint8), [device], [(0,)], (SIZE,), LATER
            )
        assert free.block_until_ready() is free
        assert not behind.is_ready()
        absent.arrive()
        assert behind.block_until_ready() is behind
        assert blocked.is_ready()


def test_closing_waits_for_every_stream(absent):
    client = make_cpu_client()
    buffers = [put(client, absent.array, stream) for stream in range(40)]
    closer = threading.Thread(target=client.close)
    closer.start()
    absent.arrive()
    closer.join()
    assert all(buffer.is_deleted() for buffer in buffers)


def test_a_synchronous_put_returns_only_when_the_source_was_read(absent):
    with make_cpu_client(asynchronous=False) as client:
        made = []
        thread = threading.Thread(target=lambda: made.append(put(client, absent.array, 0)))
        thread.start()
        assert made == []  # it cannot return: the pages are not there
        absent.arrive()
        thread.join()
        assert made[0].is_ready()


def test_many_threads_with_streams_of_their_own():
    host = [np.full(1 << 15, i, np.float32) for i in range(24)]
    with make_cpu_client() as client:
        results = {}

        def work(stream):
            results[stream] = [put(client, source, stream) for source in host]

        together(work, range(20))
        for buffers in results.values():
            buffers[-1].block_until_ready()
            assert all(buffer.is_ready() for buffer in buffers)  # in the order they were started
            for i, buffer in enumerate(buffers):
                assert np.all(np.asarray(buffer) == i)
