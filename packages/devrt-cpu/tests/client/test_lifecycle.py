"""Deleting, closing, forking, exiting, and doing so from several threads."""

import os
import textwrap
import threading
import warnings

import numpy as np
import pytest

from devrt import errors
from devrt_cpu import make_cpu_client
from support import python, together

USES = {
    "is_ready": lambda b: b.is_ready(),
    "block_until_ready": lambda b: b.block_until_ready(),
    "clone": lambda b: b.clone(),
    "copy_to_memory": lambda b: b.copy_to_memory(None),
    "on_device_size_in_bytes": lambda b: b.on_device_size_in_bytes(),
    "unsafe_buffer_pointer": lambda b: b.unsafe_buffer_pointer(),
    "__array__": np.asarray,
    "__dlpack__": np.from_dlpack,
    "memoryview": memoryview,
    "memory": lambda b: b.memory,
    "device": lambda b: b.device,
    "devices": lambda b: b.devices(),
}


def _check_facts(buffer):
    assert buffer.shape == (4,)
    assert buffer.dtype == np.float32
    assert (buffer.ndim, buffer.size, buffer.nbytes, buffer.itemsize) == (1, 4, 16, 4)
    assert len(buffer) == 4
    assert buffer.traceback.frames[0].file_name == __file__
    assert buffer._arrays == [buffer]


@pytest.mark.parametrize("use", USES)
def test_deleted_buffers_say_so(client, use):
    buffer = client.buffer_from_pyval(np.zeros(4, np.float32))
    assert not buffer.is_deleted()
    buffer.delete()
    buffer.delete()
    assert buffer.is_deleted()
    with pytest.raises(errors.DeletedError, match="deleted") as caught:
        USES[use](buffer)
    assert caught.value.code == errors.StatusCode.FAILED_PRECONDITION
    assert caught.value.data["device"] == "cpu:0"
    _check_facts(buffer)
    assert "deleted" in repr(buffer)


@pytest.mark.parametrize("use", USES)
def test_buffers_of_a_closed_client_say_so(use):
    client = make_cpu_client()
    buffer = client.buffer_from_pyval(np.zeros(4, np.float32))
    client.close()
    client.close()
    assert client.is_closed
    with pytest.raises(errors.ClosedError, match="closed"):
        USES[use](buffer)
    buffer.delete()
    assert buffer.is_deleted()
    _check_facts(buffer)
    assert "closed" in repr(buffer)


def test_closed_client():
    with make_cpu_client() as client:
        device = client.devices()[0]
        buffer = client.buffer_from_pyval(np.zeros(100))
        view = np.asarray(buffer)
    assert client.is_closed
    assert "closed" in repr(client)
    assert (client.live_buffers(), device.live_buffers()) == ([], [])
    assert np.array_equal(view, np.zeros(100))
    del view
    assert device.memory_stats()["bytes_in_use"] == 0
    with pytest.raises(errors.ClosedError):
        client.buffer_from_pyval(1)
    with pytest.raises(errors.ClosedError):
        client.batched_buffer_from_pyval(np.zeros(2), [device], [(0,)], (2,))
    with pytest.raises(errors.ClosedError):
        client.defragment()


def test_live_buffers_are_oldest_first(client):
    first, second = client.devices()
    made = [client.buffer_from_pyval(i, d) for i, d in enumerate((first, second, first))]
    assert client.live_buffers() == client.live_arrays() == made
    assert first.live_buffers() == [made[0], made[2]]
    assert hash(client.live_buffers()[1]) == hash(made[1])
    assert made[0] != made[2]
    assert made[0] != 0
    made[1].delete()
    assert client.live_buffers() == [made[0], made[2]]
    del made[0]
    assert client.live_buffers() == [made[1]]
    assert client.live_executables() == []


def test_deleting_through_another_handle(client):
    buffer = client.buffer_from_pyval(np.arange(3))
    (same,) = client.live_buffers()
    same.delete()
    assert buffer.is_deleted()


def test_threads_create_read_delete_and_enumerate():
    with make_cpu_client(num_devices=2) as client:
        churning = [1, 2]

        def churn(seed):
            try:
                for i in range(1500):
                    size = (1, 100, 20_000)[i % 3]
                    host = np.full(size, seed + i, np.float32)
                    buffer = client.buffer_from_pyval(host, client.devices()[i % 2], False, i % 3)
                    other = buffer.copy_to_memory(client.devices()[0].memory("pinned_host"))
                    assert np.asarray(buffer)[-1] == np.asarray(other)[0] == seed + i
                    if i % 2:
                        buffer.delete()
            finally:
                churning.remove(seed)

        def enumerate_all():
            while churning:
                for buffer in client.live_buffers():
                    assert len(buffer) > 0
                    assert isinstance(buffer.is_deleted(), bool)

        together(lambda seed: churn(seed) if seed else enumerate_all(), range(3))
        assert client.live_buffers() == []
        for device in client.devices():
            assert device.memory_stats()["bytes_in_use"] == 0


@pytest.mark.parametrize("cancel", [False, True])
def test_closing_with_work_in_flight_waits_or_cancels(cancel):
    client = make_cpu_client(num_devices=2)
    first, second = client.devices()
    host = np.ones(1 << 19)
    buffers = [client.buffer_from_pyval(host, first, False, 1) for _ in range(20)]
    buffers += [b.copy_to_memory(second.memory("unpinned_host")) for b in buffers]
    outcomes = []

    def wait():
        for buffer in buffers:
            try:
                buffer.block_until_ready()
                outcomes.append(0)
            except errors.DevrtError as error:
                outcomes.append(error.code)

    waiting = threading.Thread(target=wait)
    waiting.start()
    client.close(cancel=cancel)
    waiting.join()
    # Done before, dropped while it was waited for, or requested after the client had closed.
    expected = {0, errors.StatusCode.FAILED_PRECONDITION}
    assert set(outcomes) <= (expected | {errors.StatusCode.CANCELLED} if cancel else expected)
    assert len(outcomes) == len(buffers)
    for device in (first, second):
        assert device.memory_stats()["bytes_in_use"] == 0
        assert device.memory_stats()["bytes_reserved"] == 0
    client.close(cancel=True)


def _run(code):
    return python(code, options=(), status=None, PYTHONDEVMODE=1)


EXITS = {
    "everything alive in globals": """
        buffer = client.buffer_from_pyval(np.arange(8.0))
        device, memory = client.devices()[0], client.devices()[0].default_memory()
        view = np.asarray(buffer); mv = memoryview(buffer); shared = np.from_dlpack(buffer)
    """,
    "zero copy source": """
        raw = np.zeros(1 << 20, np.uint8)
        buffer = client.buffer_from_pyval(raw[-raw.ctypes.data % 64:], None, False, 2)
    """,
    "work in flight": """
        buffers = [client.buffer_from_pyval(np.ones(1 << 20), None, False, 1) for _ in range(8)]
    """,
    "work cancelled": """
        for _ in range(8): client.buffer_from_pyval(np.ones(1 << 20), None, False, 1)
        client.close(cancel=True)
    """,
    "an arena of huge pages, and sites": """
        from devrt_cpu import allocators
        from devrt.records import MemoryKind
        kind = MemoryKind(platform="cpu", kind="huge", allocator=lambda: allocators.arena(
            allocators.limited(allocators.huge_pages(), 16 << 20)))
        limited = devrt_cpu.make_cpu_client(
            memory_kinds=[kind], memory_limit_bytes=1 << 20, traceback_in_buffers="all")
        memory = limited.devices()[0].memory("huge")
        buffers = [limited.buffer_from_pyval(np.ones(9000), memory) for _ in range(9)]
        traceback = buffers[0].traceback; profile = limited.heap_profile()
        try: limited.buffer_from_pyval(np.ones(1 << 20))
        except MemoryError as error: kept = error
    """,
    "error kept": """
        try: client.buffer_from_pyval([1])
        except TypeError as error: kept = error
    """,
}


@pytest.mark.parametrize("case", EXITS)
def test_exit_leaks_nothing(case):
    head = "import numpy as np, devrt_cpu\nclient = devrt_cpu.make_cpu_client(num_devices=2)\n"
    done = _run(head + textwrap.dedent(EXITS[case]))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_forked_child_gets_an_error():
    client = make_cpu_client()
    host = np.ones(1 << 18)
    buffer = client.buffer_from_pyval(host, None, False, 1)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads are running is the point
        child = os.fork()
    if child == 0:
        output = []
        for use in (
            lambda: client.buffer_from_pyval(1),
            lambda: np.asarray(buffer),
            buffer.block_until_ready,
            client.live_buffers,
        ):
            try:
                use()
            except errors.DevrtError as error:
                output.append(error.code == errors.StatusCode.FAILED_PRECONDITION)
                output.append("forked" in str(error))
        client.close()
        fresh = make_cpu_client()
        output.append(int(np.asarray(fresh.buffer_from_pyval(np.int32(7)))) == 7)
        del buffer, client
        os.write(write, bytes(output))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        output = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert list(output) == [1] * 9
    assert np.array_equal(np.asarray(buffer), host)
    client.close()
