"""What the processes of a job do together with arrays, by JAX's names."""

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError
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
