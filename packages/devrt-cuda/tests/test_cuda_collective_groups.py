"""Collectives of many simulated devices, and what becomes of them when a device is lost.

Each test is a process of its own: a process has one simulated machine.
"""

import re

import pytest

from devrt.errors import BackendUnavailableError
from devrt_cuda.collectives import NCCL
from support import python

START = """
import ctypes, os, sys
import numpy as np
import devrt
from gpu_library import Driver

devices = devrt.devices("cuda")
client = devices[0].client
rng = np.random.default_rng(int(os.environ.get("SEED", 0)))

def put(values, to):
    return [devrt.device_put(each, device) for each, device in zip(values, to, strict=True)]

def check(results, expected):
    for result, right in zip(results, expected, strict=True):
        assert (np.asarray(result) == right).all()
"""

GROUPS = (
    START
    + """
grid = np.array(devices, dtype=object).reshape(2, 4)
groups = [list(grid[0]), list(grid[1]), *map(list, grid.T), devices, devices[::-1],
          [devices[each] for each in (5, 2, 7)]]
made = [client.collectives(each) for each in groups]
assert made[0]._group is not client.collectives(groups[0])._group
waiting = []
for size in (0, 1, 5, 3000):
    for group in made:
        n = group.size
        values = [rng.integers(0, 3, (n, size)).astype(np.float32) for _ in range(n)]
        total = sum(values)
        arrays = put(values, group.devices)
        # All of them in flight, over groups that share devices.
        waiting += [
            (group.all_reduce(arrays), [total] * n),
            (group.all_reduce(arrays, "max"), [np.max(values, 0)] * n),
            (group.all_gather(arrays), [np.stack(values)] * n),
            (group.reduce_scatter(arrays), list(total)),
            (group.all_to_all(arrays), list(np.stack(values).swapaxes(0, 1))),
            (group.broadcast(arrays, n - 1), [values[-1]] * n),
            (group.permute(arrays, [(i, (i + 1) % n) for i in range(n)]), np.roll(values, 1, 0)),
            (group.permute(arrays, [(0, n - 1)]),
             [np.zeros_like(total)] * (n - 1) + [values[0]]),
        ]
for results, expected in waiting:
    check(results, expected)
for group in made:
    group.barrier()
driver = Driver()
assert driver.reports() == []
assert driver.calls("ncclCommInitAll") == len(made)
living = driver._library.devrt_simulator_living
living.restype = ctypes.c_char_p
assert b"communicators=0" not in living()
client.close()
assert b"communicators=0" in living()
assert driver.reports() == []
"""
)


@pytest.mark.parametrize("seed", range(3))
def test_groups_that_share_devices(seed):
    python(
        GROUPS,
        options=("-W", "ignore"),
        DEVRT_CUDA_MOCK="8",
        DEVRT_GPU_SIMULATOR=f"delay=300 seed={seed}",
        SEED=str(seed),
    )


LOST = (
    START
    + """
from gpu_library import Gated

group, others = client.collectives(), client.collectives(devices[:2])
count = 1 << 17
driver = Driver()
gated = Gated(driver, count)
ones = [np.ones(count, np.int32)] * 4
arrays = [each.block_until_ready() for each in put(ones, devices)]
check(group.all_reduce(arrays), [4] * 4)
first = group.all_reduce([devrt.device_put(gated, may_alias=True), *arrays[1:]])
second = group.all_gather(first)  # behind it on every device
copy = devrt.device_put(first[1], devices[3])  # works with what comes of it
driver._library.devrt_simulator_lose(2)  # while the ranks wait for that of device 0
def ends(array):
    try:
        array.block_until_ready()
    except devrt.errors.DeviceLostError as error:
        assert "broken off" in str(error) or error.data["device"] == "cuda:2", error
        print("lost", error.data["device"])
for array in (*first[1:], *second[1:], copy):
    ends(array)
gated.gate.set()
for array in (first[0], second[0]):
    ends(array)
for _ in range(2):
    try:
        group.all_reduce(arrays)
    except devrt.errors.DeviceLostError as error:
        print("refused", error.data["device"])
check(others.all_reduce(arrays[:2]), [2] * 2)
print("others go on", driver.calls("ncclCommAbort"), driver.reports(), flush=True)
os._exit(0)  # a device that is lost ends in no order
"""
)


def test_a_lost_device_fails_all_ranks_and_what_came_of_them():
    ran = python(LOST, options=("-W", "ignore"), timeout=60, DEVRT_CUDA_MOCK="4")
    lines = ran.stdout.splitlines()
    assert lines == ["lost cuda:2"] * 9 + ["refused cuda:2"] * 2 + ["others go on 4 []"]


FAILED = (
    START
    + """
group = client.collectives()
arrays = put([np.ones(1 << 17, np.float32)] * 4, devices)
for _ in range(3):
    try:
        results = group.all_reduce(arrays)
        for result in results:
            result.block_until_ready()
    except devrt.errors.DevrtError as error:
        print(error.code.name, error)
    else:
        check(results, [4] * 4)
        print("good")
client.close()
print(Driver().reports())
"""
)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("ncclCommInitAll:1:unknown", "INTERNAL all_reduce failed in .*unhandled error"),
        ("ncclGroupStart:1:unknown", "INTERNAL all_reduce failed in"),
        ("ncclAllReduce:3:unknown", "INTERNAL all_reduce failed in"),
        ("ncclAllReduce:1:invalid_value", "INVALID_ARGUMENT all_reduce failed in"),
        ("ncclGroupEnd:1:unknown", "INTERNAL all_reduce failed in"),
        ("ncclCommGetAsyncError:2:unknown", "INTERNAL .* was broken off: "),
    ],
)
def test_a_library_that_fails_hangs_nothing_and_serves_again(fault, words):
    ran = python(
        FAILED,
        options=("-W", "ignore"),
        timeout=60,
        DEVRT_CUDA_MOCK="4",
        DEVRT_GPU_SIMULATOR=f"fail={fault} delay=2000",
    )
    first, *others, reports = ran.stdout.splitlines()
    assert re.match(words, first)
    assert others == ["good"] * 2
    assert reports == "[]"


NODES = (
    START
    + """
assert len(devices) == 8 and len(client.local_devices()) == 4
group = client.collectives()
assert group.devices == tuple(client.local_devices())
check(group.all_reduce(put([np.ones(3, np.int32)] * 4, group.devices)), [4] * 4)
try:
    client.collectives(devices)
except devrt.errors.InvalidArgumentError as error:
    print(error)
"""
)


def test_a_group_with_devices_of_other_processes_needs_a_job():
    ran = python(NODES, options=("-W", "ignore"), DEVRT_CUDA_MOCK="2x4")
    assert "the client was made without a job" in ran.stdout


FORKED = (
    START
    + """
group = client.collectives()
arrays = put([np.ones(3, np.int32)] * 2, devices)
check(group.all_reduce(arrays), [2] * 2)
child = os.fork()
if child == 0:
    try:
        group.all_reduce(arrays)
    except devrt.errors.ForkedError:
        print("forked", flush=True)
    os._exit(0)
os.waitpid(child, 0)
check(group.all_reduce(arrays), [2] * 2)
print("parent", flush=True)
pending = group.all_reduce(arrays)  # not waited for, and the client not closed
"""
)


def test_a_forked_child_starts_nothing_and_an_exit_waits_for_nobody():
    ran = python(FORKED, options=("-W", "ignore"), DEVRT_CUDA_MOCK="2")
    assert ran.stdout.split() == ["forked", "parent"]
    assert not ran.stderr


REAL = (
    START
    + """
group = client.collectives()
print(group.version)
try:
    group.all_reduce(put([np.ones(3, np.float32)] * 2, devices))
except devrt.errors.DevrtError as error:
    print(error.code.name, error)
os._exit(0)
"""
)


def test_nccl_without_a_gpu_says_so_at_the_first_collective():
    try:
        path = NCCL.library.path("collectives")
    except BackendUnavailableError:
        pytest.skip("NCCL is not installed (nvidia-nccl-cu13)")
    ran = python(REAL, options=("-W", "ignore"), DEVRT_CUDA_MOCK="2", DEVRT_CUDA_COLLECTIVES=path)
    version, failure = ran.stdout.splitlines()
    assert version.startswith("2.")
    assert failure.startswith(f"INTERNAL all_reduce failed in {path} {version}: ")
