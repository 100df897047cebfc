"""The memory of simulated devices: what is freed comes back, and what is held counts."""

import gc
import threading

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt.errors import OutOfMemoryError
from devrt.runtime import default_runtime
from gpu_library import simulated_platform
from support import together, xla_cpu_library

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
def test_defragment_gives_back_what_programs_had(client):
    xla_cpu_library()

    def reserved():
        client.defragment()
        return client.local_devices()[0].memory_stats()["bytes_reserved"]

    x = put(client, MIB // 2)
    (x + 1).block_until_ready()
    before = reserved()
    y = put(client, 4 * MIB)
    z = x[0] + y
    z.block_until_ready()
    stats = client.local_devices()[0].memory_stats()
    assert stats["bytes_reserved"] >= stats["bytes_in_use"] >= y.nbytes + z.nbytes
    del y, z
    assert reserved() <= before


@options({"allocator": "default"})
def test_an_earlier_client_takes_nothing_of_what_is_preallocated(client, devices):
    client.close()
    given = {"mock": True, "preallocate": True, "memory_fraction": LIMIT / (1 << 30)}
    made = default_runtime().make_client(devices[0].platform, given)

    def reserved():
        return made.local_devices()[0].memory_stats()["bytes_reserved"]

    assert reserved() >= LIMIT
    default_runtime().make_client(devices[0].platform, {"mock": True}).close()
    gc.collect()
    assert reserved() >= LIMIT
    made.defragment()
    assert reserved() >= LIMIT
    made.close()


@options({"allocator": "default"})
def test_small_arrays_leave_the_limit_to_large_ones(client):
    kept = [put(client, 4), put(client, 30 * MIB), put(client, 30 * MIB)]
    assert client.local_devices()[0].memory_stats()["bytes_in_use"] == sum(x.nbytes for x in kept)


@options({"allocator": "bfc", "memory_fraction": None})
def test_an_error_says_that_free_memory_is_held(client):
    kept = [put(client, 4), put(client, 510 * MIB)]
    with pytest.raises(OutOfMemoryError, match="not in use, but held"):
        kept.append(put(client, 510 * MIB))


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
@options({"allocator": "default"})
def test_a_donated_result_of_a_program_counts_once(client):
    xla_cpu_library()
    x = devrt.jit(lambda a: a + 1)(put(client, 30 * MIB))
    x.block_until_ready()
    step = devrt.jit(lambda a: a + 1, donate_argnums=0)
    other = put(client, 20 * MIB)
    for _ in range(3):
        x = step(x)
    assert np.asarray(x).max() == 5
    used = [array.nbytes for array in (x, other)]
    assert client.local_devices()[0].memory_stats()["bytes_in_use"] == pytest.approx(
        sum(used), abs=1024
    )
    del x, other
    put(client, 62 * MIB).block_until_ready()  # and all of it is free again


@pytest.mark.engine
@options({"allocator": "default"})
def test_programs_of_several_threads_wait_for_each_other_s_temporaries(client):
    xla_cpu_library()
    rows = 20 * 512  # 20 MiB: two such temporaries
    x = devrt.device_put(np.ones((512, 512), np.float32), client.local_devices()[0])

    def add(a):
        wide = dnp.broadcast_to(a[:1], (rows, 512)) + dnp.arange(rows, dtype=np.float32)[:, None]
        return dnp.cumsum(wide, axis=0)[-1] + wide[0] @ a

    program = devrt.jit(add)
    first = np.asarray(program(x))

    def run(_):
        for _ in range(5):
            assert (np.asarray(program(x)) == first).all()

    together(run)


@pytest.mark.engine
@options({"allocator": "default", "mock_num_gpus": 2})
def test_a_function_that_a_program_calls_gives_kept_memory_back(client):
    """Work that waits for that program is not waited for."""
    xla_cpu_library()
    here, there = client.local_devices()
    x = devrt.device_put(np.ones(1 << 18, np.float32), here).block_until_ready()
    has_work = threading.Event()

    def function(a):
        assert has_work.wait(60)
        client.defragment()
        with pytest.raises(OutOfMemoryError):
            put(client, 2 * LIMIT)
        return a + 1

    y = devrt.jit(lambda a: devrt.pure_callback(function, a, a))(x)
    z = devrt.device_put(devrt.jit(lambda a: a + 1)(x), there)
    has_work.set()
    assert float(y[0]) == float(z[0]) == 2


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
