"""The memory of simulated devices while other threads and other clients use it."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt.errors import OutOfMemoryError
from devrt.runtime import default_runtime
from gpu_library import simulated_platform
from support import xla_cpu_library

MIB = 1 << 20
DEVICE = 1 << 30  # bytes of a simulated device
SIDE = 512
MOST_CALLS = 20_000  # before a test fails that does not end


@pytest.fixture(scope="module")
def platform(vendor):
    with simulated_platform(vendor.platform) as found:
        yield found[0].platform


@pytest.fixture
def make(platform):
    """Return a function that makes a client, closed in the end."""
    made = []

    def make(**options):
        made.append(default_runtime().make_client(platform, {"mock": True, **options}))
        return made[-1]

    yield make
    for client in made:
        client.close()


def put(client, size):
    return devrt.device_put(np.ones(size, np.uint8), client.local_devices()[0])


def reserved(client):
    return client.local_devices()[0].memory_stats()["bytes_reserved"]


def with_temporaries(rows):
    wide = dnp.broadcast_to(rows[:1], (10 * SIDE, SIDE)) + dnp.arange(10.0 * SIDE)[:, None]
    return dnp.cumsum(wide, axis=0)[-1] + wide[0] @ rows


@contextmanager
def programs_in_flight(client):
    """Keep several in flight at every moment; yield what tells whether they still are."""
    x = devrt.device_put(np.ones((SIDE, SIDE), np.float32), client.local_devices()[0])
    program = devrt.jit(with_temporaries)
    program(x).block_until_ready()
    has_begun, stop = threading.Event(), threading.Event()

    def run():
        results = []
        for _ in range(MOST_CALLS):
            results.append(program(x))
            if len(results) > 3:
                has_begun.set()
                results.pop(0).block_until_ready()
            if stop.is_set():
                return

    thread = threading.Thread(target=run)
    thread.start()
    assert has_begun.wait(60)
    try:
        yield thread.is_alive
    finally:
        stop.set()
        thread.join()


@pytest.mark.engine
@pytest.mark.parametrize("fraction", [None, 0.9], ids=["all", "limit"])
def test_defragment_does_not_wait_for_what_begins_meanwhile(make, fraction):
    xla_cpu_library()
    client = make(memory_fraction=fraction)
    with programs_in_flight(client) as are_in_flight:
        client.defragment()
        assert are_in_flight()


@pytest.mark.engine
def test_an_array_that_the_device_has_no_memory_for_is_refused_while_programs_run(make):
    xla_cpu_library()
    kept = put(make(), DEVICE // 2).block_until_ready()
    client = make(memory_fraction=0.9)
    with programs_in_flight(client) as are_in_flight:
        with pytest.raises(OutOfMemoryError, match="not in use, but held"):
            put(client, DEVICE // 2)
        assert are_in_flight()
    del kept


@pytest.mark.engine
def test_an_array_beyond_the_limit_is_refused_while_programs_run(make):
    xla_cpu_library()
    client = make(memory_fraction=0.25)
    kept = put(client, 150 * MIB).block_until_ready()
    with programs_in_flight(client) as are_in_flight:
        with pytest.raises(OutOfMemoryError, match="memory_fraction allows") as caught:
            put(client, 150 * MIB)
        assert "not in use, but held" not in str(caught.value)
        assert are_in_flight()
    del kept


MUST = """module @must attributes {mhlo.input_output_alias = [{alias = {
    kind = "must_alias", parameter_index = array<i64>, parameter_number = 0 : i64},
    output_index = array<i64: 0>}]} {
  func.func @main(%a: tensor<62914560xui8>, %b: tensor<125829120xui8>)
      -> (tensor<62914560xui8>, tensor<125829120xui8>) {
    %0 = stablehlo.add %a, %a : tensor<62914560xui8>
    %1 = stablehlo.add %b, %b : tensor<125829120xui8>
    return %0, %1 : tensor<62914560xui8>, tensor<125829120xui8> } }"""


@pytest.mark.engine
def test_a_call_whose_copy_leaves_too_little_for_its_results_is_refused_while_programs_run(make):
    """Alone the copy fits, and without it the results do."""
    xla_cpu_library()
    client = make(memory_fraction=0.3)
    x, b = put(client, 60 * MIB), put(client, 120 * MIB)
    shared = x.clone()
    with programs_in_flight(client) as are_in_flight:
        must = client.compile_and_load(MUST)
        before = client.engine_stats()["copies"]
        with pytest.raises(OutOfMemoryError, match="'must'"):
            must.execute([x._buffers[0], b._buffers[0]])
        assert client.engine_stats()["copies"] - before < 20
        assert are_in_flight()
    assert not x.is_deleted()
    assert np.asarray(shared)[0] == 1


def test_defragment_keeps_what_an_arena_preallocates(make):
    client = make(allocator="bfc", preallocate=True, memory_fraction=0.25)
    taken = reserved(client)
    assert taken >= DEVICE // 4
    client.defragment()
    with pytest.raises(OutOfMemoryError):
        put(client, DEVICE // 2)
    assert reserved(client) == taken
    other = make(allocator="platform").local_devices()[0]
    before = other.memory_stats()["largest_free_block_bytes"]
    client.close()
    assert other.memory_stats()["largest_free_block_bytes"] >= before + taken


def test_clients_preallocate_beside_each_other(make):
    each = DEVICE // 4  # others of the process may have more there
    first = make(preallocate=True, memory_fraction=0.25)
    assert reserved(first) >= each
    second = make(preallocate=True, memory_fraction=0.25)
    assert reserved(first) >= 2 * each
    second.defragment()
    both = reserved(first)
    assert both >= 2 * each
    second.close()
    first.defragment()
    assert each <= reserved(first) < both


@pytest.mark.engine
def test_a_closed_client_leaves_no_results_in_the_pool_of_an_open_one(make):
    xla_cpu_library()
    open_one = make()
    open_one.defragment()
    before = reserved(open_one)
    double = devrt.jit(lambda a: a * 2)
    for _ in range(5):
        client = make()
        x = put(client, 20 * MIB)
        for _ in range(4):
            x = double(x)
        client.close()
        assert reserved(open_one) == before
