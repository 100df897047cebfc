"""Groups of simulated GPUs that span processes: results, and what becomes of those that are lost.

The processes are real ones, and so is their job.
"""

import pytest

from devrt.errors import BackendUnavailableError
from devrt_cuda.collectives import NCCL
from gpu_jobs import run_job as run

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

RESULTS = """
from gpu_library import Driver
orders = [devices, devices[::-1], devices[1:], [devices[-1], devices[0]]]
seed = int(os.environ["SEED"])
for number, order in enumerate(orders):
    if all(device.process_index != me for device in order):
        continue
    group = client.collectives(order, timeout=60)
    n = group.size
    assert group.ranks == tuple(i for i, d in enumerate(order) if d.process_index == me)
    assert group.devices == tuple(order)
    local = [order[rank] for rank in group.ranks]
    rng = np.random.default_rng(seed + number)  # the same values in every process
    waiting = []
    for size in (0, 1, 5, 70_000):
        values = rng.integers(0, 3, (n, n, size)).astype(np.float32)
        arrays = [devrt.device_put(values[rank], order[rank]) for rank in group.ranks]
        total, turned = sum(values), values.swapaxes(0, 1)
        ring = [(i, (i + 1) % n) for i in range(n)]
        only = np.zeros_like(values)
        only[n - 1] = values[0]
        waiting += [
            (group.all_reduce(arrays), [total] * n),
            (group.all_reduce(arrays, "max"), [np.max(values, 0)] * n),
            (group.all_gather(arrays), [values] * n),
            (group.all_gather(arrays, tiled=True), [np.concatenate(values)] * n),
            (group.reduce_scatter(arrays), list(total)),
            (group.all_to_all(arrays), list(turned)),
            (group.broadcast(arrays, n - 1), [values[-1]] * n),
            (group.permute(arrays, ring), np.roll(values, 1, 0)),
            (group.permute(arrays, [(0, n - 1)]), only),
        ]
    for results, expected in waiting:
        assert len(results) == len(group.ranks)
        for rank, result in zip(group.ranks, results):
            assert result.device == order[rank]
            assert (np.asarray(result) == expected[rank]).all()
    group.barrier()
driver = Driver(client.platform)
assert driver.calls("ncclGetUniqueId") == sum(order[0].process_index == me for order in orders)
assert (found := driver.reports()) == [], found
store.wait_at_barrier("end", 60_000)
client.close()
show("right")
"""


@pytest.mark.parametrize(("processes", "devices", "seed"), [(2, 2, 0), (3, 1, 2)])
def test_results_of_groups_across_processes(vendor, processes, devices, seed):
    printed = run(
        RESULTS,
        processes,
        devices,
        DEVRT_GPU_SIMULATOR=f"delay=300 seed={seed}",
        SEED=str(seed),
        PLATFORM=vendor.platform,
    )
    assert printed == [[["right"]]] * processes


SHARDED = """
mesh = devrt.make_mesh((4,), ("x",), devices=devices)
sharding = devrt.NamedSharding(mesh, devrt.P("x"))
whole = devrt.make_array_from_process_local_data(sharding, np.arange(4.0) [2 * me:2 * me + 2])
group = client.collectives(devices, timeout=60)
show(outcome(lambda: group.all_reduce(whole)))
donated = group.all_reduce(put(np.arange(4.0), group), donate=True)
show(outcome(lambda: donated))
root = 3
given = put(np.full((4, 2), 7.0), group) if me == 1 else [put(np.zeros((4, 2)), group)[0], None]
show(outcome(lambda: group.broadcast(given, root)))
show(outcome(lambda: group.broadcast([None, None], 3 - root if me else root)))
show(outcome(lambda: group.all_reduce([1, 2, 3])))
store.wait_at_barrier("end", 60_000)
"""


def test_arrays_that_span_processes_and_arguments_that_do_not_fit():
    printed = run(SHARDED)
    for me, lines in enumerate(printed):
        (sums, donated, sent, no_root, many) = (line[0] for line in lines)
        assert sums == donated == [6.0, 6.0]
        assert sent == [7.0, 7.0]
        assert no_root[0] == "InvalidArgumentError"
        assert "is of another process" in no_root[2], me
        assert "3 arrays are given for the 2 ranks of this process" in many[2]


LOST = """
group = client.collectives(devices, timeout=60)
ones = put(np.ones((4, 1000)), group)
show(outcome(lambda: group.all_reduce(ones)))
if me == 1:
    os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))
first = group.all_reduce(ones)
show(outcome(lambda: group.all_gather(first)))  # what comes of it fails with it
show(outcome(lambda: group.all_reduce(ones)))
here = client.collectives()
show(outcome(lambda: here.all_reduce(ones)))
show(outcome(lambda: client.collectives(devices, timeout=10).all_reduce(ones)))
client.close()
os._exit(0)  # the job has lost a process, and does not end in order
"""


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
def test_a_lost_process_is_named_and_what_is_left_goes_on(signal):
    (lines,) = run(LOST, first_only=True, SIGNAL=signal)
    before, under_way, later, here, again = (line[0] for line in lines)
    assert before == [4.0, 4.0]
    assert under_way[:2] == ["PeerLostError", [1]]
    assert "was broken off: the job has lost processes" in under_way[2]
    assert later[:2] == ["PeerLostError", [1]]
    assert "is of no more use" in later[2]
    assert here == [2.0, 2.0]
    assert again[:2] == ["PeerLostError", [1]]


LATE = """
import contextlib, threading
from gpu_library import Driver, Gated
group = client.collectives(devices[1::2], timeout=60)
given = ones = put(np.ones((2, 1000), np.int32), group)
show(outcome(lambda: group.all_reduce(given)))
driver = Driver(client.platform)
gated = Gated(driver, 1000)
if me == 1:  # the argument comes from a device that is lost meanwhile
    late = devrt.device_put(gated, may_alias=True)
    given = [devrt.device_put(late, devices[3])]
    driver._library.devrt_simulator_lose(0)
    threading.Timer(0.2, gated.gate.set).start()
show(outcome(lambda: group.all_reduce(given)))
show(outcome(lambda: group.all_reduce(ones)))
if me == 1:
    with contextlib.suppress(DevrtError):  # the service may be gone before it answers
        store.key_value_set("end", "")
else:
    store.blocking_key_value_get("end", 60_000)
os._exit(0)  # a device that is lost ends in no order
"""


def test_a_group_ends_in_all_processes_where_an_argument_of_one_fails_late():
    printed = run(LATE)
    assert "on cuda:2" in printed[1][1][0][2]  # by its id in the job
    for before, failed, later in printed:
        assert before[0] == [2.0]
        assert failed[0][0] in {"DeviceLostError", "PeerLostError"}, failed
        assert later[0][0] == failed[0][0]
        assert "broken off" in later[0][2]


REFUSED = """
import contextlib
from gpu_library import Driver
driver = Driver(client.platform)
group = client.collectives(devices, timeout=60)
ones = put(np.ones((4, 1000), np.float32), group)
if me == 1:  # counts two calls of the library more than process 0, of which the sixth fails
    show(outcome(lambda: client.collectives().all_reduce(ones)))
show(outcome(lambda: group.all_reduce(ones)))
if me == 1 and not os.environ["DEVRT_GPU_SIMULATOR"]:
    driver._library.devrt_simulator_lose(0)
    show(outcome(lambda: [devrt.device_put(ones[0], devices[2])]))  # it is known before the call
store.wait_at_barrier("ready", 60_000)
show(outcome(lambda: group.all_reduce(ones)))
show(outcome(lambda: group.all_reduce(ones)))
show(driver.reports())
if me == 1:
    store.blocking_key_value_get("seen", 60_000)  # it lives as long as process 0 waits for it
    with contextlib.suppress(DevrtError):
        store.key_value_set("end", "")
else:
    store.key_value_set("seen", "")
    store.blocking_key_value_get("end", 60_000)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("fault", "kind", "why"),
    [
        ("", "DeviceLostError", "on cuda:2"),
        pytest.param(
            "fail=ncclAllReduce:6:invalid_value",
            "InvalidArgumentError",
            "invalid argument",
            marks=pytest.mark.stress,  # which the call itself refuses, too
        ),
    ],
    ids=["lost", "refused"],
)
def test_a_group_ends_in_all_processes_where_one_cannot_start_its_part(fault, kind, why):
    first, second = run(REFUSED, DEVRT_GPU_SIMULATOR=fault)
    *_, (failed,), (later,), (reports,) = second
    assert failed[0] == later[0] == kind
    assert why in failed[2]
    # The first call that fails breaks the group off, though its process goes on.
    assert "The group of cuda:2, cuda:3 and others was broken off" in later[2]
    assert why in later[2]
    assert reports == []
    before, (failed,), (later,), (reports,) = first
    assert before == [[4.0, 4.0]]
    assert failed[0] == later[0] == "PeerLostError"
    assert "A collective of cuda:0, cuda:1 was broken off" in failed[2]
    assert "is of no more use" in later[2]
    assert reports == []


ENDS = """
from devrt.native import group_span
group_span._LAST = 1.0
group = client.collectives(devices, timeout=60)
ones = put(np.ones((4, 1000)), group)
child = os.fork()
if child == 0:
    show(outcome(lambda: client.collectives(devices)))
    os._exit(0)
os.waitpid(child, 0)
last = group.all_reduce(ones)
if me == 0:
    last = group.all_reduce(ones)  # the others do not come, and nobody waits for it
    show("ends")
else:
    show(outcome(lambda: last))
    signal.pause()
"""


def test_a_process_ends_though_others_never_come_and_a_forked_child_meets_nobody():
    ((forked,), (ends,)) = run(ENDS, first_only=True, GRPC_ENABLE_FORK_SUPPORT="0")[0]
    assert ends == "ends"
    assert forked[0] == "ForkedError"


MISSING = """
if me == 0:
    show(outcome(lambda: client.collectives(devices, timeout=1)))
store.wait_at_barrier("tried", 60_000)
show(outcome(lambda: client.collectives([d for d in devices if d.process_index != me])))
show(outcome(lambda: client.collectives([*devices, devices[0]], timeout=60)))
for timeout in ("1", None, 0, -1, float("nan")):
    show(outcome(lambda: client.collectives(devices, timeout=timeout)))
store.wait_at_barrier("end", 60_000)
"""


def test_a_process_that_does_not_come_is_named_and_wrong_calls_are_refused():
    first, second = run(MISSING)
    ((late,), *first) = first
    assert late[0] == "DeadlineExceededError"
    assert "waited 1 s for processes 0, 1 of the group, and 1 did not come" in late[2]
    for lines in (first, second):
        others, twice, *timeouts = (line[0] for line in lines)
        assert others[0] == "InvalidArgumentError"
        assert "are of other processes" in others[2]
        assert twice[0] == "InvalidArgumentError"
        assert "is given twice" in twice[2]
        kinds = ["InvalidTypeError"] * 2 + ["InvalidArgumentError"] * 3
        assert [each[0] for each in timeouts] == kinds


DIFFERENT = """
from gpu_library import Driver
group = client.collectives(devices, timeout=60)
shape = (4, 10) if me else (4, 20)
show(outcome(lambda: group.all_reduce(put(np.ones(shape), group))))
show(Driver().reports())
os._exit(0)
"""


def test_processes_that_ask_for_different_things_are_reported():
    for outcome, reports in run(DIFFERENT):
        assert outcome[0][0] == "InternalError"
        assert any("differs from that of another process" in line for line in reports[0])


REAL = """
show(outcome(lambda: client.collectives(devices, timeout=60)))
store.wait_at_barrier("end", 60_000)
os._exit(0)
"""


def test_nccl_without_a_gpu_says_so_when_the_processes_meet():
    try:
        path = NCCL.library.path("collectives")
    except BackendUnavailableError:
        pytest.skip("NCCL is not installed (nvidia-nccl-cu13)")
    for ((error,),) in run(REAL, DEVRT_CUDA_COLLECTIVES=path):
        assert error[0] == "InternalError"
        assert error[2].startswith(f"collectives failed in {path}")
