"""The memory of simulated devices: what is freed comes back, and what is held counts."""

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt.errors import OutOfMemoryError
from devrt.runtime import default_runtime
from gpu_library import simulated_platform
from support import xla_cpu_library

MIB = 1 << 20
LIMIT = 64 * MIB
SIDE = 40000  # its square is more than a device has


@pytest.fixture(scope="module")
def devices(vendor):
    with simulated_platform(vendor.platform) as found:
        yield found


@pytest.fixture
def client(devices, request):
    given = {"mock": True, "memory_fraction": LIMIT / (1 << 30), **request.param}
    if given["memory_fraction"] is None:
        del given["memory_fraction"]
    made = default_runtime().make_client(devices[0].platform, given)
    yield made
    made.close()


def options(*given):
    return pytest.mark.parametrize("client", given, indirect=True, ids=str)


def put(client, size):
    return devrt.device_put(np.ones(size, np.uint8), client.local_devices()[0])


def filled(client, size):
    kept = []
    while True:
        try:
            kept.append(put(client, size))
        except OutOfMemoryError:
            return kept


@options({"allocator": "bfc"}, {"allocator": "bfc", "preallocate": True}, {"allocator": "default"})
@pytest.mark.parametrize("size", [MIB, 4 * MIB, 5_000_001])
def test_the_place_of_a_freed_array_is_taken_by_the_next_of_its_size(client, size):
    kept = filled(client, size)
    assert len(kept) == LIMIT // size
    kept.pop(len(kept) // 2).block_until_ready().delete()
    kept.append(put(client, size).block_until_ready())


@options({"allocator": "bfc", "preallocate": True}, {"allocator": "default", "preallocate": True})
def test_what_was_taken_in_advance_is_reserved_and_can_be_had(client):
    stats = client.local_devices()[0].memory_stats()
    assert stats["bytes_in_use"] == 0
    # Of a pool it is what the process holds: other clients' too.
    assert stats["bytes_reserved"] == stats["pool_bytes"] >= LIMIT
    assert stats["largest_free_block_bytes"] >= LIMIT
    x = put(client, LIMIT // 2).block_until_ready()
    after = client.local_devices()[0].memory_stats()
    assert after["bytes_reserved"] == stats["bytes_reserved"]
    assert after["largest_free_block_bytes"] >= LIMIT - x.nbytes


@options({"memory_fraction": 1.0})
def test_a_device_has_the_figures_of_its_own_memory(client):
    device = client.local_devices()[0]
    before = device.memory_stats()
    x = devrt.device_put(np.ones(9 * MIB, np.uint8), device.memory("pinned_host"))
    x.block_until_ready()
    assert device.memory("pinned_host").memory_stats()["bytes_in_use"] == x.nbytes
    after = device.memory_stats()
    assert after["bytes_in_use"] == after["num_allocs"] == 0
    assert after["peak_bytes_in_use"] == before["peak_bytes_in_use"]


@options({"allocator": "default"})
def test_defragment_gives_back_what_the_device_has_not_freed_yet(client):
    def reserved():
        client.defragment()
        return client.local_devices()[0].memory_stats()["bytes_reserved"]

    before = reserved()  # of the process: what clients of other tests have is there, too
    x = put(client, LIMIT // 2).block_until_ready()
    y = put(client, LIMIT // 4).block_until_ready()
    assert reserved() >= before + x.nbytes + y.nbytes
    del x, y
    assert reserved() == before


@pytest.mark.engine
@options({"allocator": "default"}, {"allocator": "bfc"}, {"allocator": "platform"})
def test_what_programs_hold_counts_in_the_limit(client):
    xla_cpu_library()
    x = put(client, 30 * MIB)
    y = x + 1  # 60 of 64 MiB
    with pytest.raises(OutOfMemoryError, match="bytes that memory_fraction allows") as caught:
        y + 1
    assert caught.value.program["output_size_in_bytes"] == 30 * MIB
    with pytest.raises(OutOfMemoryError, match="bytes that memory_fraction allows"):
        put(client, 30 * MIB)
    assert client.local_devices()[0].memory_stats()["bytes_in_use"] <= LIMIT
    del x
    assert np.asarray(y + 1).min() == 3


@pytest.mark.engine
@options({"allocator": "default"}, {"allocator": "bfc"})
def test_what_an_arena_keeps_does_not_count_for_programs(client):
    xla_cpu_library()
    x = put(client, 24 * MIB)
    small = [put(client, MIB // 2) for _ in range(40)]
    for each in small:
        each.block_until_ready().delete()
    assert np.asarray(x + 1).min() == 2


@pytest.mark.engine
@options({"memory_fraction": None})
def test_a_program_without_memory_says_what_it_needs_and_what_lives(client):
    xla_cpu_library()
    x = put(client, SIDE)
    kept = put(client, 3 * MIB)
    with pytest.raises(OutOfMemoryError, match=r"program 'jit_.*It is the device memory") as caught:
        dnp.outer(x, x).block_until_ready()
    error = caught.value
    assert "The compiler's plugin reports" in str(error)
    assert error.device == str(client.local_devices()[0])
    assert error.requested == SIDE * SIDE
    assert error.program["output_size_in_bytes"] == SIDE * SIDE
    assert error.largest[0]["bytes"] == kept.nbytes
    assert float(dnp.sum(x)) == SIDE  # and the device goes on
