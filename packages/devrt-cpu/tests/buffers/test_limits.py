"""A client's memory limit, and what an out-of-memory error tells."""

import pickle

import numpy as np
import pytest

from devrt import errors
from devrt.runtime import Runtime
from devrt_cpu import make_cpu_client
from support import aligned, python

MIB = 1 << 20


def put_large(client, shape=(512, 512)):
    return client.buffer_from_pyval(np.zeros(shape, np.float32))


def test_the_limit_is_exact_and_counts_every_memory():
    with make_cpu_client(num_devices=2, memory_limit_bytes=1000) as client:
        first, second = client.devices()
        kept = [
            client.buffer_from_pyval(np.zeros(600, np.uint8), first),
            client.buffer_from_pyval(np.zeros(400, np.uint8), second.memory("pinned_host")),
        ]
        with pytest.raises(errors.OutOfMemoryError, match="1000 of the 1000 bytes"):
            client.buffer_from_pyval(np.uint8(1), second)
        kept.pop()
        client.buffer_from_pyval(np.zeros(400, np.uint8), second)
        stats = first.memory_stats()
        assert stats["bytes_limit"] == stats["bytes_reservable_limit"] == 1000
        assert stats["largest_free_block_bytes"] == 400
        assert np.array_equal(np.asarray(kept[0]), np.zeros(600, np.uint8))


def test_lent_memory_does_not_count():
    source = aligned(2 * MIB, np.uint8)
    with make_cpu_client(memory_limit_bytes=MIB) as client:
        lent = client.buffer_from_pyval(source, host_buffer_semantics=2)
        assert lent.unsafe_buffer_pointer() == source.ctypes.data
        with pytest.raises(errors.OutOfMemoryError) as caught:
            client.buffer_from_pyval(source)
        assert caught.value.live_bytes == 2 * MIB
        assert "lent" in str(caught.value)


def test_what_other_devices_use_of_the_limit_is_not_called_free():
    with make_cpu_client(num_devices=2, memory_limit_bytes=4 * MIB) as client:
        first, second = client.devices()
        kept = client.buffer_from_pyval(np.zeros(3 * MIB, np.uint8), first)
        with pytest.raises(errors.OutOfMemoryError, match="use 3145728 of the 4194304") as caught:
            client.buffer_from_pyval(np.zeros(2 * MIB, np.uint8), second)
        assert "not in use" not in str(caught.value)
        assert not kept.is_deleted()


def test_kept_blocks_give_way():
    with make_cpu_client(memory_limit_bytes=4 * MIB, recycled_bytes=64 * MIB) as client:
        device = client.devices()[0]
        for _ in range(3):  # a kept block of another size is no use for the next
            for count in (4 * MIB, 3 * MIB, 2 * MIB):
                client.buffer_from_pyval(np.zeros(count, np.uint8)).delete()
                stats = device.memory_stats()
                assert stats["bytes_in_use"] == 0
                assert stats["bytes_reserved"] <= 4 * MIB + count
        held = client.buffer_from_pyval(np.zeros(4 * MIB, np.uint8))
        assert device.memory_stats()["bytes_reserved"] == held.nbytes
        assert device.memory_stats()["pool_bytes"] == held.nbytes


def test_the_error_names_the_largest_and_carries_the_data():
    with make_cpu_client(memory_limit_bytes=4 * MIB, traceback_in_buffers="all") as client:
        large = [put_large(client) for _ in range(3)]
        small = client.buffer_from_pyval(np.arange(6, dtype=np.int64).reshape(2, 3))
        with pytest.raises(errors.OutOfMemoryError) as caught:
            put_large(client)
    error = caught.value
    assert isinstance(error, MemoryError)
    assert (error.requested, error.limit) == (MIB, 4 * MIB)
    assert (error.memory_kind, error.device, error.operation) == ("device", "cpu:0", "allocate")
    assert error.summary["bytes_in_use"] == 3 * MIB + 48
    assert (error.live_buffers, error.live_bytes) == (4, 3 * MIB + 48)
    first, second = error.largest
    line = put_large.__code__.co_firstlineno + 1
    assert first == {
        "count": 3,
        "bytes": 3 * MIB,
        "shape": (512, 512),
        "dtype": "float32",
        "device": "cpu:0",
        "memory_kind": "device",
        "call_site": f"{__file__}:{line} (put_large)",
    }
    assert (second["shape"], second["dtype"], second["bytes"]) == ((2, 3), "int64", 48)
    assert f"{3 * MIB} bytes in 3 of float32[512,512] on cpu:0, device, made at " in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert again.largest == error.largest
    assert str(again) == str(error)
    del large, small


def test_failing_loses_nothing():
    with make_cpu_client(memory_limit_bytes=MIB) as client:
        device = client.devices()[0]
        host = np.arange(MIB // 8)
        buffer = client.buffer_from_pyval(host)
        before = device.memory_stats()
        for _ in range(20):
            with pytest.raises(errors.OutOfMemoryError):
                client.buffer_from_pyval(host)
            with pytest.raises(errors.OutOfMemoryError):
                buffer.copy_to_memory(device.memory("unpinned_host"))
            with pytest.raises(errors.OutOfMemoryError):
                client.batched_buffer_from_pyval(host, [device] * 2, [(0,), (1,)], (host.size - 1,))
        assert device.memory_stats() == {
            **before,
            "largest_free_block_bytes": device.memory_stats()["largest_free_block_bytes"],
        }
        assert client.live_buffers() == [buffer]
        assert np.array_equal(np.asarray(buffer), host)
        del buffer
        assert np.array_equal(np.asarray(client.buffer_from_pyval(host)), host)


def test_what_was_deleted_in_flight_is_freed():
    """A copy keeps source and result until it is made, even if both are deleted meanwhile."""
    host = np.arange(MIB, dtype=np.int64)  # 8 MiB
    with make_cpu_client(memory_limit_bytes=2 * host.nbytes, recycled_bytes=0) as client:
        kind = client.devices()[0].memory("unpinned_host")
        for step in range(20):
            large = np.full(2 * MIB, step)
            source = client.buffer_from_pyval(host)
            result = source.copy_to_memory(kind)
            source.delete()
            result.delete()
            whole = client.buffer_from_pyval(large)
            assert np.asarray(whole)[-1] == step
            del whole


def test_the_option_sets_the_limit(monkeypatch):
    monkeypatch.setenv("DEVRT_CPU_MEMORY_LIMIT", "123456")
    with Runtime() as runtime:
        client = runtime.get_backend("cpu")
        assert client.devices()[0].memory_stats()["bytes_limit"] == 123456
        setting = runtime.config.setting("cpu_memory_limit")
        assert (setting.origin, setting.detail) == ("environment", "DEVRT_CPU_MEMORY_LIMIT")


def test_a_bad_option_says_where_it_comes_from():
    code = "import devrt; devrt.devices('cpu')"
    done = python(code, status=1, DEVRT_CPU_MEMORY_LIMIT=0)
    assert "DEVRT_CPU_MEMORY_LIMIT" in done.stderr
    assert "ConfigError" in done.stderr
