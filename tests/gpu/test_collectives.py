"""Collectives between the GPUs of a process: the vendor's library, and programs, against NumPy."""

import numpy as np
import pytest

import devrt
from devrt.errors import BackendUnavailableError
from gpu_machine import COUNT, ROUNDS


@pytest.fixture
def group(device):
    """Return a group of all GPUs."""
    if len(device.client.local_devices()) < 2:
        pytest.skip("one GPU alone exchanges nothing")
    try:
        return device.client.collectives()
    except BackendUnavailableError as error:
        pytest.skip(f"collectives need the vendor's library: {error}")


def numbers(group, *shape):
    """Return an array of small whole numbers for each rank: no sum rounds them."""
    random = np.random.default_rng(group.size)
    return [random.integers(0, 9, shape).astype(np.float32) for _ in group.ranks]


def put(values, group):
    return [devrt.device_put(each, to) for each, to in zip(values, group.devices, strict=True)]


def check(results, expected):
    for found, value in zip(results, expected, strict=True):
        assert np.array_equal(np.asarray(found), value)


def test_every_rank_gets_what_it_should(group):
    size, last = group.size, group.size - 1
    given = numbers(group, size, 1000)
    total, arrays = sum(given), put(given, group)
    check(group.all_reduce(arrays), [total] * size)
    check(group.all_reduce(arrays, "max"), [np.max(given, axis=0)] * size)
    check(group.reduce_scatter(arrays), total)
    check(group.all_gather(arrays), [np.stack(given)] * size)
    check(group.all_to_all(arrays), np.stack(given, axis=1))
    check(group.broadcast(arrays, root=last), [given[last]] * size)
    shifted = [(rank, (rank + 1) % size) for rank in group.ranks]
    check(group.permute(arrays, shifted), [given[last], *given[:last]])
    group.barrier()


def test_a_collective_begins_behind_what_fills_its_arguments(group):
    for value in range(ROUNDS):
        given = [np.full(COUNT, value + rank, np.float32) for rank in group.ranks]
        results = group.all_reduce(put(given, group))
        again = group.all_reduce([each.copy() for each in results])
        check(again, [sum(given) * group.size] * group.size)


def test_donated_arrays_are_reduced_in_place(group):
    given = numbers(group, COUNT)
    arrays = [each.block_until_ready() for each in put(given, group)]
    addresses = [each.unsafe_buffer_pointer() for each in arrays]
    results = group.all_reduce(arrays, donate=True)
    check(results, [sum(given)] * group.size)
    assert [each.unsafe_buffer_pointer() for each in results] == addresses


def test_a_program_over_all_gpus_reduces_as_the_library_does(group):
    mesh = devrt.sharding.Mesh(np.array(group.devices), ("i",))
    whole = devrt.P("i")
    given = numbers(group, 1000)
    array = devrt.device_put(np.concatenate(given), devrt.sharding.NamedSharding(mesh, whole))
    total = devrt.shard_map(
        lambda part: devrt.lax.psum(part, "i"), mesh=mesh, in_specs=whole, out_specs=devrt.P()
    )
    assert np.array_equal(np.asarray(devrt.jit(total)(array)), sum(given))
    check(group.all_reduce(array), [sum(given)] * group.size)
