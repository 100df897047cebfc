"""The store of the service, and clusters of simulated processes on a clock of the test's own."""

import importlib.util
from pathlib import Path

import pytest

from devrt.distributed import MemoryStore
from devrt.distributed.cluster import Cluster, Limits
from devrt.errors import DeadlineExceededError, DistributedError, PeerLostError


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def cluster_of(size, **how):
    clock = Clock()
    return Cluster(size, Limits(heartbeat=10, register=60, shutdown=30), clock=clock, **how), clock


def formed(size, **how):
    cluster, clock = cluster_of(size, **how)
    for number in range(size):
        cluster.register(number, 100 + number, lambda error: None)
    return cluster, clock


def test_4096_processes_of_which_17_never_come():
    cluster, clock = cluster_of(4096)
    absent, outcomes = set(range(5, 4096, 240)) - {4085}, []
    absent = set(sorted(absent)[:17])
    for number in set(range(4096)) - absent:
        cluster.register(number, 1, outcomes.append)
    clock.now = 61
    cluster.tick()
    assert len(outcomes) == 4096 - 17
    assert isinstance(outcomes[0], DeadlineExceededError)
    assert outcomes[0].missing == sorted(absent)


def test_who_shut_down_is_not_reported_as_lost():
    cluster, clock = formed(3)
    clock.now = 11
    for number in (0, 1):
        cluster.heartbeat(number, 100 + number)
    cluster.tick()
    cluster.leave(0, print)
    found = []
    cluster.arrive("all", 1, 60, [], found.append)
    assert found[0].processes == [2]
    assert "process 2 gave no sign" in found[0].message


def test_a_barrier_fails_only_for_those_that_wait_for_the_lost():
    cluster, clock = formed(4)
    among_others, with_lost = [], []
    cluster.arrive("others", 0, 60, [0, 1], among_others.append)
    cluster.arrive("all", 2, 60, [], with_lost.append)
    clock.now = 8
    for number in (0, 1, 2):
        cluster.heartbeat(number, 100 + number)
    clock.now = 11
    cluster.tick()
    assert (type(with_lost[0]), with_lost[0].processes) == (PeerLostError, [3])
    cluster.arrive("others", 1, 60, [0, 1], among_others.append)
    assert among_others == [None, None]
    with pytest.raises(DistributedError, match="ABORTED"):
        cluster.register(3, 7, print)


def test_a_call_that_ends_takes_its_own_arrival_back():
    cluster, _ = formed(2)
    ends = {name: [] for name in ("one", "again", "other")}
    one, again = ends["one"].append, ends["again"].append
    cluster.arrive("b", 0, 60, [], one)
    cluster.arrive("b", 0, 60, [], again)  # the process calls again before the first call ends
    cluster.depart("b", 0, one)
    cluster.arrive("b", 1, 60, [], ends["other"].append)
    assert ends == {"one": [], "again": [None], "other": [None]}
    cluster.depart("b", 0, again)  # when it is over
    cluster.arrive("b", 0, 60, [], one)
    cluster.depart("b", 0, one)
    assert cluster.describe()["waits"] == []


def test_who_waits_for_a_shorter_time_leaves_alone():
    cluster, clock = formed(3)
    ends = [[], [], []]
    cluster.leave(0, ends[0].append, 3)
    cluster.leave(1, ends[1].append, 100)
    clock.now += 4
    cluster.tick()
    assert ends[0][0].missing == [2]
    assert "after 3 s" in str(ends[0][0])
    assert ends[1] == []
    cluster.leave(2, ends[2].append, 3)
    assert ends[1:] == [[None], [None]]


def test_a_lost_process_may_come_again_where_the_service_is_recoverable():
    cluster, clock = formed(2, recoverable=True)
    clock.now = 9
    cluster.heartbeat(0, 100)
    clock.now = 11
    cluster.tick()
    assert [node.number for node in cluster.alive([])] == [0]
    outcomes = []
    cluster.register(1, 7, outcomes.append)
    cluster.arrive("b", 0, 5, [], outcomes.append)
    cluster.arrive("b", 1, 5, [], outcomes.append)
    assert outcomes == [None, None, None]
    with pytest.raises(DistributedError, match="incarnation differs"):
        cluster.heartbeat(1, 101)


def test_the_store_keeps_what_it_is_given_and_reports_changes():
    clock = Clock()
    store, seen = MemoryStore(clock), []
    watch = store.watch("a/", lambda entry: seen.append((entry.key, entry.value)), prefix=True)
    version = store.set("a/1", b"x")
    assert store.get("a/1").version == version
    assert not store.transaction({"a/1": 0}, {"a/2": b"y"})
    assert store.get("a/2") is None
    assert store.transaction({"a/1": version, "a/2": 0}, {"a/1": None, "a/2": b"y"})
    lease = store.lease(5)
    store.set("a/leased", b"", lease)
    clock.now = 4
    lease.renew()
    clock.now = 8
    assert store.get("a/leased") is not None
    clock.now = 10
    assert [entry.key for entry in store.range("a/")] == ["a/2"]
    with pytest.raises(DistributedError, match="ended"):
        lease.renew()
    assert seen[-1] == ("a/leased", None)
    watch.close()
    assert (store.increment("n", 3), store.increment("n"), store.delete("a/", prefix=True)) == (
        3,
        4,
        1,
    )
    assert [key for key, _ in seen] == ["a/1", "a/1", "a/2", "a/leased", "a/leased"]


def test_the_descriptors_are_those_of_the_proto_files():
    pytest.importorskip("grpc_tools", reason="needs grpcio-tools")
    tool = Path(__file__).parents[4] / "tools/coordination_messages.py"
    spec = importlib.util.spec_from_file_location("coordination_messages", tool)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    namespace = {}
    exec(module.text(), namespace)
    from devrt.distributed.protocol.descriptors import FILES

    assert namespace["FILES"] == FILES
