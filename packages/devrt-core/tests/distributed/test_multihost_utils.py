"""What the processes of a job do together with arrays, by JAX's names."""

import json

import numpy as np
import pytest

import devrt
from devrt.errors import DistributedError, InvalidArgumentError
from devrt.experimental import multihost_utils as together
from devrt.sharding import Mesh, NamedSharding
from devrt.sharding import PartitionSpec as P

devrt_cpu = pytest.importorskip("devrt_cpu")

SCRIPT = """
from devrt.experimental import multihost_utils as together
from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
equal = np.testing.assert_array_equal
n = devrt.process_count()

found = together.process_allgather({"a": np.arange(2) + 10 * me, "b": me})
equal(found["a"], [[0, 1], [10, 11]])
equal(found["b"], [0, 1])
equal(together.process_allgather(np.arange(2) + 10 * me, tiled=True), [0, 1, 10, 11])

mesh = Mesh(np.array(devrt.devices()).reshape(n, 2), ("p", "d"))
x = np.arange(32, dtype=np.float32).reshape(8, 4)
for spec in (P("p", "d"), P("d", "p"), P(("d", "p")), P(None, "p"), P(None, "d"), P()):
    a = devrt.make_array_from_callback(x.shape, NamedSharding(mesh, spec), lambda i: x[i])
    equal(together.process_allgather(a), x)

assert together.broadcast_one_to_all({"x": me + 1.5})["x"] == 1.5
assert together.broadcast_one_to_all(np.int8(me), is_source=me == 1) == 1
show(no_source=refused(lambda: together.broadcast_one_to_all(0, is_source=False)))

together.assert_equal({"x": 3})
show(differs=refused(lambda: together.assert_equal(me, "number:")))
show(astray=refused(lambda: together.sync_global_devices(f"point {me}")))
together.sync_global_devices("all")

local = (x + 100 * me, np.arange(4))
specs = (P("p", "d"), None)
a, b = together.host_local_array_to_global_array(local, mesh, specs)
assert (a.shape, b.shape) == ((16, 4), (4,))
equal(together.process_allgather(a), np.concatenate([x, x + 100]))
back = together.global_array_to_host_local_array((a, b), mesh, specs)
for mine, one in zip(local, back):
    assert one.is_fully_addressable
    equal(np.asarray(one), mine)
"""


def test_two_processes_do_things_together(launch):
    printed, done = launch(2, SCRIPT, DEVRT_NUM_CPU_DEVICES="2")
    assert (done.returncode, done.stderr) == (0, "")
    for me, lines in enumerate(printed):
        no_source, differs, astray = lines
        assert "InvalidArgumentError: broadcast_one_to_all needs one source" in no_source
        other = 1 - me
        assert f"DistributedError: process {me} waits at 'point {me}'" in astray
        assert f"{{{other}: 'point {other}'}}" in astray
        expected = "AssertionError: number: Expected (process 0): 0; got: 1." if me else "None"
        assert expected in differs


COMPARED = """
from devrt.experimental import multihost_utils as together
from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
equal = np.testing.assert_array_equal
mesh = Mesh(np.array(devrt.devices()).reshape(2, 2), ("p", "d"))
x = np.arange(32, dtype=np.float32).reshape(8, 4)

a = devrt.make_array_from_callback(x.shape, NamedSharding(mesh, P("p", "d")), lambda i: x[i])
for spec, mine in ((P("d"), x), (P("p"), x[4 * me : 4 * me + 4]), (None, x)):
    part = together.global_array_to_host_local_array(a, mesh, spec)
    assert part.is_fully_addressable
    equal(np.asarray(part), mine)

together.assert_equal({"all": a, "here": x})
for mine in ({"a": 1}, {"b": 1}), (np.zeros(2), np.zeros(3)), (np.int32(0), np.float32(0)):
    show(other=refused(lambda: together.assert_equal(mine[me], "forms:")))
for name in ("x" * 200 + str(me), "x" + me * chr(0)):
    show(other=refused(lambda: together.sync_global_devices(name)))
show(none=refused(lambda: together.sync_global_devices(3)))
together.sync_global_devices("x" * 200)
"""


def test_what_differs_a_little_differs(launch):
    printed, done = launch(2, COMPARED, DEVRT_NUM_CPU_DEVICES="2")
    assert (done.returncode, done.stderr) == (0, "")
    for me, lines in enumerate(printed):
        assert all(f"AssertionError: forms: Process {me} has" in line for line in lines[:3])
        assert all(f"DistributedError: process {me} waits at" in line for line in lines[3:5])
        assert "InvalidTypeError" in lines[5]
        assert len(lines) == 6


def test_a_process_alone_needs_no_job():
    assert together.process_allgather(np.arange(2)).tolist() == [[0, 1]]
    assert together.process_allgather(np.arange(2), tiled=True).tolist() == [0, 1]
    assert together.process_allgather(3, tiled=True).tolist() == [3]
    assert together.broadcast_one_to_all(3) == 3
    together.assert_equal({"x": 3})
    together.sync_global_devices("here")


def test_an_array_of_processes_is_gathered_by_a_job():
    with devrt_cpu.make_cpu_client(num_devices=1, node_id=0, num_nodes=2) as client:
        mesh = Mesh(np.array(client.devices()), ("x",))
        a = devrt.device_put(np.arange(4.0), NamedSharding(mesh, P("x")))
        with pytest.raises(InvalidArgumentError, match="initialize"):
            together.process_allgather(a)


FAILS = """
import os
from devrt.experimental import multihost_utils as together
devices = devrt.devices()
show(none=refused(lambda: together.live_devices([devices[me - 1]]).__enter__()))
with together.live_devices(devices) as alive:
    assert alive == devices
try:
    with together.live_devices(devices) as alive:
        if me == 2:
            os._exit(0)
        raise ValueError("of the block")
except together.ProcessFailureError as error:
    show(failed=[str(one) for one in error.failed_devices], ids=error.processes)
    show(cause=repr(error.__cause__))
with together.live_devices(devices[:2]) as alive:
    show(alive=[one.id for one in alive])
try:
    with together.live_devices(alive):
        raise ValueError("again")
except ValueError as error:
    show(error=str(error))
distributed.shutdown()
"""


def test_processes_that_are_alive_agree_on_who_is(launch_apart):
    printed, codes = launch_apart(3, FAILS, recoverable=True, DEVRT_NUM_CPU_DEVICES="1")
    assert codes == [0, 0, 0]
    for lines in printed:
        assert "InvalidArgumentError" in lines[0]
    for lines in printed[:2]:
        assert lines[1:] == [
            '{"failed": ["cpu:2"], "ids": [2]}',
            """{"cause": "ValueError('of the block')"}""",
            '{"alive": [0, 1]}',
            '{"error": "again"}',
        ]


DAYS_PASS = """
import time
from devrt.distributed import preemption
from devrt.experimental import multihost_utils as together
preemption._DAY_MS = 10
together.reached_preemption_sync_point(1)
time.sleep(0.3)
"""
PREEMPTED = """
import itertools, os, signal
from devrt.experimental import multihost_utils as together
for step in itertools.count(1):
    if me == 1 and step == 5:
        os.kill(os.getpid(), signal.SIGTERM)
    if together.reached_preemption_sync_point(step):
        break
show(stopped=step)
distributed.shutdown()
"""


@pytest.mark.parametrize("days", ["", "first days pass"])
def test_processes_stop_at_one_step_where_one_is_to_be_ended(launch, days):
    script = PREEMPTED if not days else DAYS_PASS + PREEMPTED
    printed, done = launch(2, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert printed[0] == printed[1]
    assert json.loads(printed[0][0])["stopped"] >= 5


LEAVES = """
from devrt.experimental import multihost_utils as together
devices = devrt.devices()
with together.live_devices(devices) as alive:
    assert alive == devices
if me == 2:
    client.key_value_set("leaves", "")
    distributed.shutdown()
else:
    client.blocking_key_value_get("leaves", 60_000)
    while len(alive) == 3:  # it is about to leave
        with together.live_devices(devices) as alive:
            pass
    show(alive=[one.id for one in alive], nodes=sorted(client.get_live_nodes([])))
    client.wait_at_barrier("both", 60_000, [0, 1])
    distributed.shutdown()
"""


def test_a_process_that_leaves_is_not_lost_and_has_no_live_devices(launch_apart):
    printed, codes = launch_apart(3, LEAVES, recoverable=True, DEVRT_NUM_CPU_DEVICES="1")
    assert codes == [0, 0, 0]
    for lines in printed[:2]:
        assert lines == ['{"alive": [0, 1], "nodes": [0, 1, 2]}']


def test_names_for_jobs_without_one():
    assert together.reached_preemption_sync_point(1) is False
    with pytest.raises(DistributedError, match="initialize"), together.live_devices([]):
        pass
