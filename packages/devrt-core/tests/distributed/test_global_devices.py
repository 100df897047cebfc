"""Devices and arrays of several processes, which `devrt.distributed.initialize` has joined."""

import json
import re

import pytest

import devrt
from devrt import distributed
from devrt.errors import DistributedError, StatusCode

pytest.importorskip("devrt_cpu")

DEVICES = """
from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = devrt.devices()
x = np.arange(24.0, dtype=np.float32).reshape(6, 4)
sharding = NamedSharding(Mesh(np.array(devices), ("d",)), P("d"))
a = devrt.make_array_from_callback(x.shape, sharding, lambda index: x[index])
first = 2 * me
b = devrt.make_array_from_process_local_data(sharding, x[first : first + 2])
show(
    devices=[[d.id, d.process_index, d.device_kind] for d in devices],
    local=[d.id for d in devrt.local_devices()],
    of_last=[d.id for d in devrt.local_devices(process_index=2)],
    process=[devrt.process_index(), devrt.process_count(), devrt.device_count()],
    shape=list(b.shape),
    parts=[[s.device.id, s.index[0].start, np.asarray(s.data).tolist()]
           for s in b.addressable_shards],
    alike=[np.array_equal(p.data, q.data)
           for p, q in zip(a.addressable_shards, b.addressable_shards)],
    others=sum(s.data is None for s in b.global_shards),
    fetched=refused(lambda: np.asarray(b)),
    again=refused(lambda: distributed.initialize()),
)
"""


def test_the_devices_of_all_processes_are_one_list(launch):
    printed, done = launch(3, DEVICES, DEVRT_NUM_CPU_DEVICES="2")
    assert (done.returncode, done.stderr) == (0, "")
    for me, (line,) in enumerate(printed):
        seen = json.loads(line)
        assert seen["devices"] == [[n, n // 2, "cpu"] for n in range(6)]
        assert seen["local"] == [2 * me, 2 * me + 1]
        assert seen["of_last"] == [4, 5]
        assert seen["process"] == [me, 3, 6]
        assert seen["shape"] == [6, 4]
        rows = range(2 * me, 2 * me + 2)
        assert seen["parts"] == [[n, n, [[4.0 * n + i for i in range(4)]]] for n in rows]
        assert seen["alike"] == [True, True]
        assert seen["others"] == 4
        assert seen["fetched"].startswith("InvalidArgumentError")
        assert "process_allgather" in seen["fetched"]
        assert "only be called once" in seen["again"]


def test_an_array_that_every_process_has_whole_is_printed_with_its_value(launch):
    text = """
        from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(devrt.devices()), ("d",))
        make = devrt.make_array_from_callback
        whole = make((2,), NamedSharding(mesh, P()), lambda index: np.arange(2)[index])
        divided = make((2,), NamedSharding(mesh, P("d")), lambda index: np.arange(2)[index])
        alone = NamedSharding(Mesh(np.array(devrt.devices()[:1]), ("d",)), P())
        elsewhere = make((2,), alone, lambda index: np.arange(2)[index], dtype=np.int64)
        show(whole=[str(whole), repr(whole)], others=[repr(divided), repr(elsewhere)],
             back=np.asarray(whole).tolist())
    """
    printed, done = launch(2, text, DEVRT_NUM_CPU_DEVICES="1")
    assert (done.returncode, done.stderr) == (0, "")
    for me, (line,) in enumerate(printed):
        seen = json.loads(line)
        assert seen["back"] == [0, 1]
        assert seen["whole"] == ["[0 1]", "Array([0, 1], dtype=int64)"]
        assert seen["others"][0].startswith("Array(shape=(2,), dtype=int64, sharding=")
        assert seen["others"][1].startswith("Array([0, 1]" if me == 0 else "Array(shape=(2,)")


def test_a_host_value_that_differs_is_refused_on_a_sharding_over_all_processes(launch):
    text = """
        from devrt.layout import Format, Layout
        from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(devrt.devices()), ("d",))
        whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("d"))
        same = np.array([1, np.nan])
        some = NamedSharding(Mesh(np.array(devrt.devices()[:2]), ("d",)), P())
        show(
            same=np.asarray(devrt.device_put(same, whole)).tolist()[0],
            values=refused(lambda: devrt.device_put(np.full(3, me == 2), whole)),
            shapes=refused(lambda: devrt.device_put(np.zeros((1 + me, 3)), whole)),
            dtypes=refused(lambda: devrt.device_put(np.zeros(3, f"i{2 ** (me // 2)}"), rows)),
            format=refused(lambda: devrt.device_put(
                np.full((2, 2), me), Format(Layout((0, 1)), whole))),
            tree=refused(lambda: devrt.device_put({"a": 1, "b": float(me)}, whole)),
            mine=np.asarray(devrt.device_put(me, devrt.local_devices()[0])).item(),
            alone=[] if me == 2 else np.asarray(devrt.device_put(same[:1] + me, some)).tolist(),
            after=np.asarray(devrt.device_put(7, whole)).item(),
        )
    """
    printed, done = launch(3, text, DEVRT_NUM_CPU_DEVICES="1")
    assert (done.returncode, done.stderr) == (0, "")
    for me, (line,) in enumerate(printed):
        seen = json.loads(line)
        assert (seen["same"], seen["mine"], seen["after"]) == (1, me, 7)
        assert seen["alone"] == ([] if me == 2 else [1 + me])
        for what in ("values", "shapes", "dtypes", "format", "tree"):
            words = f"not the same in {'processes 0, 1' if me == 2 else 'process'}"
            assert seen[what].startswith("InvalidArgumentError"), seen[what]
            assert what in ("shapes", "format", "tree") or words in seen[what]


def test_a_process_that_asks_for_no_devices_is_named_to_those_that_do(launch):
    text = """
        if me == 1:
            client.wait_at_barrier("seen", 60_000)
        else:
            from devrt.errors import DeadlineExceededError
            from devrt.native import nodes
            nodes._MINUTES = {"local": 0.02, "global": 1}
            client.wait_at_barrier("both", 60_000, [0, 2])
            found = refused(devrt.devices)
            client.wait_at_barrier("seen", 60_000)
            show(found=found, kept=distributed.is_initialized())
    """
    printed, done = launch(3, text)
    assert (done.returncode, done.stderr) == (0, "")
    for me in (0, 2):
        seen = json.loads(printed[me][0])
        assert seen["found"].startswith("DeadlineExceededError")
        late = re.search("node ([0-9, ]+) did not publish the list of its devices", seen["found"])
        assert "1" in late[1].split(", ")  # on a busy machine, perhaps the other as well
        assert seen["kept"]


@pytest.mark.usefixtures("unused_runtime")
def test_a_job_is_joined_before_devices_are_used():
    devrt.devices("cpu")
    with pytest.raises(DistributedError, match="after a client was made \\(cpu") as caught:
        distributed.initialize("localhost:1", 2, 0, initialization_timeout=1)
    assert caught.value.code is StatusCode.FAILED_PRECONDITION
    assert not distributed.is_initialized()


def test_another_job_is_joined_once_the_clients_of_the_first_are_closed(launch):
    text = """
        first = devrt.device_count(), devrt.process_count()
        distributed.shutdown()
        kept = devrt.device_count(), devrt.process_count()
        again = refused(distributed.initialize)
        devrt.clear_backends()
        alone = devrt.local_device_count()
        devrt.clear_backends()
        distributed.initialize()
        show(first=first, kept=kept, again=again, alone=alone,
             second=[devrt.device_count(), devrt.process_count()])
    """
    printed, done = launch(2, text, DEVRT_NUM_CPU_DEVICES="1")
    assert (done.returncode, done.stderr) == (0, "")
    for (line,) in printed:
        seen = json.loads(line)
        assert seen["first"] == seen["kept"] == seen["second"] == [2, 2]
        assert seen["alone"] == 1
        assert "devices are those of a job that this process has left" in seen["again"]
        assert "Call devrt.clear_backends() first" in seen["again"]
