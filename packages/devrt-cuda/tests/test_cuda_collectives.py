"""Collectives between simulated devices: values, order, memory, and what is refused.

The simulator reports accesses that nothing orders, whatever the timing. What needs more than two
devices, or loses one, is in ``test_cuda_collective_groups.py``.
"""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import devrt
from devrt.contract import REDUCTIONS, Collectives
from devrt.errors import (
    BackendUnavailableError,
    ClosedError,
    DeletedError,
    DevrtError,
    InvalidArgumentError,
    InvalidTypeError,
    UnimplementedError,
)
from devrt.native.wheel_libraries import VendorLibrary
from devrt_cuda.collectives import NCCL
from gpu_library import Driver, Gated
from support import shared_library

INTEGERS = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
REDUCED = [np.dtype(each) for each in (*INTEGERS, *FLOATS)]
MOVED = [*REDUCED, *map(np.dtype, (np.bool_, np.int16, np.uint16, np.complex64, np.complex128,
         ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4))]  # fmt: skip
SIZES = [0, 1, 7, 1 << 17]
COMBINED = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.fixture(scope="module")
def group(devices):
    return devices[0].client.collectives()


def put(values, devices):
    return [devrt.device_put(each, to) for each, to in zip(values, devices, strict=True)]


def numbers(dtype, *shape, seed=0):
    """Return small whole numbers, which every type has and no sum rounds."""
    return np.random.default_rng(seed).integers(0, 5, shape).astype(dtype)


def reduced(values, op):
    """Return what NumPy makes of two values."""
    if op != "avg":
        return COMBINED[op](*values).astype(values[0].dtype)
    total = COMBINED["sum"](*values)
    exact = total // 2 if total.dtype.kind in "iu" else total / 2
    return exact.astype(values[0].dtype)


def same(array, expected, device):
    assert array.device is device
    assert array.dtype == expected.dtype
    found = np.asarray(array)
    assert found.shape == expected.shape
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_elements_of_all_ranks_are_combined(driver, devices, group, dtype, op):
    for size in SIZES:
        given = [numbers(dtype, 2, size, seed=seed) for seed in range(2)]
        expected = reduced(given, op)
        for rank, result in enumerate(group.all_reduce(put(given, devices), op)):
            same(result, expected, devices[rank])
        for rank, result in enumerate(group.reduce_scatter(put(given, devices), op)):
            same(result, expected[rank], devices[rank])


def test_complex_sums_and_extremes_of_truth_values(driver, devices, group):
    for dtype in (np.complex64, np.complex128):
        given = [numbers(dtype, 5) + 1j * numbers(dtype, 5, seed=9) for _ in range(2)]
        same(group.all_reduce(put(given, devices))[0], given[0] + given[1], devices[0])
        same(group.all_reduce(put(given, devices), "avg")[1], sum(given) / 2, devices[1])
    given = [np.array([False, True, False, True]), np.array([False, False, True, True])]
    same(group.all_reduce(put(given, devices), "max")[0], given[0] | given[1], devices[0])
    same(group.all_reduce(put(given, devices), "min")[1], given[0] & given[1], devices[1])


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_elements_of_every_type_are_moved(driver, devices, group, dtype):
    for size in SIZES:
        given = [numbers(dtype, 4, size, seed=seed) for seed in range(2)]
        stacked, joined = np.stack(given), np.concatenate(given)
        swapped = [np.concatenate([each[part] for each in given]) for part in
                   (slice(0, 2), slice(2, 4))]  # fmt: skip
        for rank, device in enumerate(devices):
            same(group.all_gather(put(given, devices))[rank], stacked, device)
            same(group.all_gather(put(given, devices), tiled=True)[rank], joined, device)
            same(group.all_to_all(put(given, devices))[rank], swapped[rank], device)
            for root in range(2):
                same(group.broadcast(put(given, devices), root)[rank], given[root], device)


def test_arrays_are_sent_and_received(driver, devices, group):
    given = [numbers(np.float32, 3, seed=seed) + 1 for seed in range(2)]
    zeros = np.zeros(3, np.float32)
    cases = {
        ((0, 1), (1, 0)): given[::-1],
        ((0, 0), (1, 1)): given,
        ((0, 1),): [zeros, given[0]],
        ((1, 1),): [zeros, given[1]],
        (): [zeros, zeros],
    }
    for pairs, expected in cases.items():
        for rank, result in enumerate(group.permute(put(given, devices), pairs)):
            same(result, expected[rank], devices[rank])


def test_a_broadcast_needs_the_root_s_array_only(driver, devices, group):
    given = numbers(np.int32, 6)
    results = group.broadcast([None, devrt.device_put(given, devices[1])], root=1)
    for rank, result in enumerate(results):
        same(result, given, devices[rank])


def test_scalars_and_parts_along_the_first_axis(driver, devices, group):
    ones = put([np.float32(1), np.float32(2)], devices)
    same(group.all_reduce(ones)[0], np.array(3, np.float32), devices[0])
    same(group.all_gather(ones)[1], np.array([1, 2], np.float32), devices[1])
    given = [numbers(np.int32, 6, 2, seed=seed) for seed in range(2)]
    parts = group.reduce_scatter(put(given, devices), tiled=True)
    for rank, part in enumerate(parts):
        same(part, sum(given)[3 * rank : 3 * rank + 3], devices[rank])


def test_a_sharded_array_stands_for_its_shards(driver, devices, group):
    from devrt.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(devices), ("x",))
    given = numbers(np.int32, 4, 3)
    array = devrt.device_put(given, NamedSharding(mesh, PartitionSpec("x")))
    for rank, result in enumerate(group.all_reduce(array)):
        same(result, given[:2] + given[2:], devices[rank])
    with pytest.raises(InvalidArgumentError, match="must have a shard on each of"):
        devices[0].client.collectives(devices[:1]).all_reduce(array)


def test_ranks_have_the_order_that_is_given(driver, devices):
    backwards = devices[0].client.collectives([devices[1], devices[0]])
    assert isinstance(backwards, Collectives)
    assert (backwards.size, backwards.ranks) == (2, (0, 1))
    given = [numbers(np.int32, 2, seed=seed) for seed in range(2)]
    same(backwards.all_gather(put(given, devices[::-1]))[0], np.stack(given), devices[1])


def test_a_group_of_one_device(driver, devices):
    alone = devices[1].client.collectives(devices[1:])
    given = numbers(np.float32, 5)
    for op in REDUCTIONS:
        same(alone.all_reduce(put([given], devices[1:]), op)[0], given, devices[1])
    same(alone.all_to_all(put([given], devices[1:]))[0], given, devices[1])
    alone.barrier()


def test_donated_memory_is_used_again(driver, devices, group):
    given = [numbers(np.float32, 1 << 17, seed=seed) for seed in range(2)]
    arrays = [each.block_until_ready() for each in put(given, devices)]
    before = [each.unsafe_buffer_pointer() for each in arrays]
    results = group.all_reduce(arrays, donate=True)
    assert [each.unsafe_buffer_pointer() for each in results] == before
    assert all(each.is_deleted() for each in arrays)
    same(results[0], given[0] + given[1], devices[0])


def test_memory_that_others_see_is_not_written_over(driver, devices, group):
    given = [numbers(np.float32, 9, seed=seed) for seed in range(2)]
    arrays = [each.block_until_ready() for each in put(given, devices)]
    kept = [each._buffers[0].clone() for each in arrays]
    results = group.all_reduce(arrays, donate=True)
    same(results[1], given[0] + given[1], devices[1])
    assert all(each.is_deleted() for each in arrays)
    for rank, other in enumerate(kept):
        assert (np.asarray(other) == given[rank]).all()


def test_the_host_waits_for_nothing_and_memory_stays(driver, devices, group):
    count = 1 << 17
    gated = Gated(driver, count)
    ones = np.ones(count, np.int32)
    arrays = [devrt.device_put(gated, may_alias=True), devrt.device_put(ones, devices[1])]
    first = group.all_reduce(arrays)
    second = group.all_gather(first)  # in flight behind it
    for each in (*arrays, *first):
        each.delete()
    again = [devrt.device_put(ones, device) for device in devices for _ in range(2)]
    assert not any(each.is_ready() for each in second)
    gated.gate.set()
    expected = np.full((2, count), 0x01010102, np.int32)
    for rank, result in enumerate(second):
        same(result, expected, devices[rank])
    assert all((np.asarray(each) == 1).all() for each in again)


def test_copies_follow_collectives_and_go_before_them(driver, devices, group):
    given = [numbers(np.int32, 1 << 17, seed=seed) for seed in range(2)]
    first, other = group.all_reduce(put(given, devices))
    there = devrt.device_put(first, devices[1])
    here = devrt.device_put(other, devices[0])
    same(group.all_reduce([here, there])[0], 2 * (given[0] + given[1]), devices[0])


def test_a_collective_takes_few_calls_of_the_driver(driver, devices, group):
    arrays = [each.block_until_ready() for each in put([np.ones(4, np.int32)] * 2, devices)]
    names = ("ncclAllReduce", "ncclGroupStart", "ncclGroupEnd", "ncclCommInitAll",
             "cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize")  # fmt: skip
    group.all_reduce(arrays)[0].block_until_ready()
    counts = [driver.calls(name) for name in names]
    results = group.all_reduce(arrays)
    counts = [driver.calls(name) - count for name, count in zip(names, counts, strict=True)]
    assert counts == [2, 1, 1, 0, 2, 0, 0]
    same(results[0], np.full(4, 2, np.int32), devices[0])


def refused(devices, group):
    x, y = put([np.ones((2, 4), np.float32)] * 2, devices)
    wide, short = put([np.ones((2, 4)), np.ones((2, 3), np.float32)], [devices[1]] * 2)
    gone = devrt.device_put(y, may_alias=False)
    gone.delete()
    pinned = devrt.device_put(x, devices[0].memory("pinned_host"))
    words = put([np.array([1], np.int16)] * 2, devices)
    truth = put([np.array([True])] * 2, devices)
    pairs = put([np.ones(1, np.complex64)] * 2, devices)
    return {
        "dtypes": (lambda: group.all_reduce([x, wide]), r"rank 1 is float64\[2, 4\].*float32\[2"),
        "shapes": (lambda: group.all_gather([x, short]), r"rank 1 is float32\[2, 3\], and that"),
        "few": (lambda: group.all_reduce([x]), "1 arrays are given for the 2 ranks"),
        "places": (lambda: group.all_reduce([y, x]), "rank 0 lies in device of cuda:1.*cuda:0"),
        "host": (lambda: group.all_reduce([pinned, y]), "rank 0 lies in pinned_host of cuda:0"),
        "words": (lambda: group.all_reduce(words), "type int16 cannot be reduced.*int8, uint8"),
        "truth": (lambda: group.all_reduce(truth), "type bool cannot be reduced so"),
        "complex": (lambda: group.all_reduce(pairs, "max"), "type complex64 cannot be"),
        "op": (lambda: group.all_reduce([x, y], "mean"), "'mean' is no reduction; use one of sum"),
        "parts": (lambda: group.all_to_all(put([np.ones(3)] * 2, devices)), "a multiple of that"),
        "scatter": (lambda: group.reduce_scatter(put([np.ones(4)] * 2, devices)), "tiled=True"),
        "no axis": (lambda: group.all_to_all(put([np.float32(1)] * 2, devices)), "have no axis"),
        "root": (lambda: group.broadcast([x, y], 2), "ranks 0 to 1, and none 2"),
        "absent": (lambda: group.broadcast([x, None], 1), "rank 1, whose array it is, gives none"),
        "sends": (lambda: group.permute([x, y], [(0, 1), (0, 0)]), "more than once"),
        "ranks": (lambda: group.permute([x, y], [(0, -1)]), "and none -1"),
    }


CASES = ["dtypes", "shapes", "few", "places", "host", "words", "truth", "complex", "op", "parts",
         "scatter", "no axis", "root", "absent", "sends", "ranks"]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_done_is_refused_before_the_library(driver, devices, group, case):
    do, words = refused(devices, group)[case]
    groups = driver.calls("ncclGroupStart")
    with pytest.raises(InvalidArgumentError, match=words) as error:
        do()
    assert error.value.message.startswith(f"{error.value.data['operation']} failed")
    assert driver.calls("ncclGroupStart") == groups


def test_values_of_other_kinds_and_deleted_arrays_are_refused(driver, devices, group):
    x, y = put([np.ones(2, np.float32)] * 2, devices)
    with pytest.raises(InvalidTypeError, match="rank 1 is given a value of type ndarray"):
        group.all_reduce([x, np.ones(2, np.float32)])
    with pytest.raises(InvalidTypeError, match="rank 0 is given a value of type NoneType"):
        group.all_reduce([None, y])
    y.delete()
    for donate in (False, True):
        with pytest.raises(DeletedError, match="all_reduce failed"):
            group.all_reduce([x, y], donate=donate)
    assert not x.is_deleted()


def test_devices_of_others_and_devices_twice_are_refused(driver, devices):
    client = devices[0].client
    with pytest.raises(InvalidArgumentError, match="cuda:0 is given twice"):
        client.collectives([devices[0], devices[0]])
    for others in ([], devrt.devices("cpu")[:1], [devices[0], devrt.devices("cpu")[0]]):
        with pytest.raises(InvalidArgumentError, match=r"made of devices of this client"):
            client.collectives(others)
    with pytest.raises(UnimplementedError, match="collectives is not offered by the cpu client"):
        devrt.devices("cpu")[0].client.collectives()


OLD = """
int acclGetVersion(int* version) { return *version = VERSION, 0; }
"""


def stand_in(folder, version):
    source = folder / f"library{version}.c"
    source.write_text(OLD.replace("VERSION", str(version)))
    return shared_library(folder / f"library{version}.so", source)


def test_an_old_library_and_one_that_lacks_functions_are_refused(devices, tmp_path):
    from devrt_cuda import _ext

    for version, words in [
        (2708, r"version 2\.7\.8, and 2\.10 is the least"),
        (20902, r"version 2\.9\.2"),
        (22703, "lacks acclGetErrorString, acclCommInitAll, acclGetUniqueId"),
    ]:
        with pytest.raises(DevrtError, match=words) as error:
            _ext._connect(devices, str(stand_in(tmp_path, version)), "accl")
        assert error.value.code is devrt.errors.StatusCode.FAILED_PRECONDITION


def test_an_absent_library_says_what_to_install(devices, monkeypatch, tmp_path):
    absent = VendorLibrary(
        names=("libno_such.so.1",),
        purpose="library for collectives",
        variable="DEVRT_ACCL",
        remedy=NCCL.library.remedy,
    )
    with pytest.raises(BackendUnavailableError, match=r"libno_such\.so\.1 .*nvidia-nccl-cu13"):
        absent.path("collectives")
    monkeypatch.setenv("DEVRT_CUDA_COLLECTIVES", str(tmp_path / "none.so"))
    with pytest.raises(BackendUnavailableError, match=r"cannot be loaded: .*none\.so") as error:
        devices[0].client.collectives()
    assert error.value.code is devrt.errors.StatusCode.UNAVAILABLE


def test_nccl_opens_and_has_every_function_without_a_gpu(devices, monkeypatch):
    try:
        path = NCCL.library.path("collectives")
    except BackendUnavailableError:
        pytest.skip("NCCL is not installed (nvidia-nccl-cu13)")
    monkeypatch.setenv("DEVRT_CUDA_COLLECTIVES", path)
    group = devices[0].client.collectives(devices[::-1])
    assert int(group.version.split(".")[0]) == 2
    assert int(group.version.split(".")[1]) >= 10


def test_a_closed_client_has_no_collectives():
    from devrt.records import ClientContext
    from devrt_cuda._platform import PLATFORM

    client = PLATFORM.make_client(ClientContext(options={"mock_num_gpus": 2, "mock": True}))
    group = client.collectives()
    arrays = put([np.ones(2, np.float32)] * 2, client.devices())
    assert [float(each[0]) for each in map(np.asarray, group.all_reduce(arrays))] == [2, 2]
    client.close()
    with pytest.raises(ClosedError):
        client.collectives()
    with pytest.raises(ClosedError):
        group.all_reduce(arrays)


elements = st.lists(st.integers(-100, 100), min_size=1, max_size=3).map(lambda x: [*x, *x])


@settings(max_examples=30, deadline=None)
@given(first=elements, data=st.data())
def test_the_laws_of_collectives(devices, group, first, data):
    length = len(first)
    second = data.draw(st.lists(st.integers(-100, 100), min_size=length, max_size=length))
    op = data.draw(st.sampled_from(("sum", "prod", "max", "min")))
    given_ = [np.array(each, np.int64) for each in (first, second)]
    arrays = put(given_, devices)
    whole = [np.asarray(each) for each in group.all_reduce(arrays, op)]
    parts = group.reduce_scatter(arrays, op, tiled=True)
    gathered = [np.asarray(each) for each in group.all_gather(parts, tiled=True)]
    swapped = group.all_to_all(group.all_to_all(arrays))
    sent = group.permute(group.permute(arrays, [(0, 1), (1, 0)]), [(0, 1), (1, 0)])
    assert (whole[0] == reduced(given_, op)).all()
    for rank in range(2):
        assert (whole[rank] == whole[0]).all()  # all ranks get the same
        assert (gathered[rank] == whole[0]).all()  # to scatter and gather is to reduce
        assert (np.asarray(swapped[rank]) == given_[rank]).all()  # twice is not at all
        assert (np.asarray(sent[rank]) == given_[rank]).all()
    assert Driver().reports() == []
