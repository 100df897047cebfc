"""A job in etcd while members of etcd die, stop, come again or are full."""

import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import closing

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from devrt.distributed.etcd.store import EtcdStore
from devrt.distributed.faults import refused
from devrt.distributed.stored.job import JOB
from devrt.errors import DistributedError, InvalidArgumentError, StatusCode
from etcd_servers import EtcdServers
from support import together

_names = itertools.count()


@pytest.fixture(scope="module")
def one():
    servers = EtcdServers()
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def three():
    servers = EtcdServers(3)
    yield servers
    servers.close()


def service_at(servers, size, **options):
    address = servers.address(f"job/{next(_names)}")
    return xla_client.get_distributed_runtime_service(address, size, **options)


def joined(service, size, **options):
    defaults = {"init_timeout": 30, "shutdown_timeout": 30, "heartbeat_timeout": 20}
    make = xla_client.get_distributed_runtime_client
    clients = [make(service.address, n, **{**defaults, **options}) for n in range(size)]
    together(lambda client: client.connect(), clients, timeout=30)
    return clients


def store_at(servers, name, patience=20):
    return EtcdStore(servers.hosts.split(","), name, patience=patience)


def keep_writing(client, name, ended, written):
    """Set keys until the end; note those that were acknowledged."""
    for number in itertools.count():
        if ended.is_set():
            return
        key = f"{name}/{number}"
        client.key_value_set(key, str(number))
        written.append(key)
        client.key_value_increment(f"{name}-count", 1)


def go_on_while(clients, fault):
    """Let clients write while something happens; return what each wrote before the end."""
    ended, written = threading.Event(), [[] for _ in clients]
    failures = []

    def work(number):
        try:
            keep_writing(clients[number], f"w{number}", ended, written[number])
        except RuntimeError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(clients))]
    for thread in threads:
        thread.start()
    try:
        fault()
        for number, rows in enumerate(written):  # each has written after it, too
            clients[number].blocking_key_value_get(f"w{number}/{len(rows) + 3}", 30_000)
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
    assert not failures
    return written


@pytest.mark.parametrize("how", ["killed", pytest.param("stopped", marks=pytest.mark.faults)])
def test_the_job_goes_on_when_the_leader_is_lost(three, how):
    with service_at(three, 2, heartbeat_timeout=20) as service:
        clients = joined(service, 2)
        leader = three.leader()

        def lose():
            if how == "killed":
                three.kill(leader)
            else:
                os.kill(three.processes[leader].pid, signal.SIGSTOP)
            together(lambda client: client.wait_at_barrier("without", 30_000), clients, 60)

        written = go_on_while(clients, lose)
        if how == "killed":
            three.restart(leader)
        else:
            os.kill(three.processes[leader].pid, signal.SIGCONT)
        for number, keys in enumerate(written):
            found = dict(clients[1 - number].key_value_dir_get(f"w{number}"))
            assert set(keys) <= set(found)  # nothing that was acknowledged is lost
            assert clients[0].key_value_try_get(f"w{number}-count") == str(len(keys))
        together(lambda client: client.shutdown(), clients, 60)


@pytest.mark.faults
def test_clients_come_back_to_a_server_that_was_started_again():
    servers = EtcdServers()
    try:
        with service_at(servers, 2, heartbeat_timeout=20) as service:
            clients = joined(service, 2)
            clients[0].key_value_set("before", "1")
            found = []
            waiter = threading.Thread(
                target=lambda: found.append(clients[1].blocking_key_value_get("after", 60_000))
            )
            waiter.start()
            servers.kill(0)
            servers.restart(0)
            clients[0].key_value_set("after", "2")
            waiter.join(60)
            assert found == ["2"]
            assert clients[1].key_value_try_get("before") == "1"
            together(lambda client: client.wait_at_barrier("b", 30_000), clients, 60)
            together(lambda client: client.shutdown(), clients, 60)
    finally:
        servers.close()


@pytest.mark.faults
def test_a_server_that_is_gone_ends_what_waits_and_is_reported():
    servers = EtcdServers()
    was_reported = threading.Event()
    try:
        service = service_at(servers, 1, heartbeat_timeout=3)
        (client,) = joined(
            service, 1, heartbeat_timeout=2, missed_heartbeat_callback=lambda _: was_reported.set()
        )
        servers.kill(0)
        with pytest.raises(DistributedError, match="no member of etcd") as caught:
            client.blocking_key_value_get("never", 60_000)
        assert caught.value.code is StatusCode.UNAVAILABLE
        assert was_reported.wait(30)
        client.shutdown()
        client.shutdown()
        with pytest.raises(DistributedError, match="no member of etcd"):
            service.shutdown()
        service.shutdown()
    finally:
        servers.close()


def test_an_etcd_that_is_full_is_an_error():
    servers = EtcdServers(options=[f"--quota-backend-bytes={4 << 20}"])
    try:
        with service_at(servers, 1) as service:
            (client,) = joined(service, 1)

            def fill():
                for number in range(100):  # etcd sees what it has grown to when it next commits
                    client.key_value_set_bytes(f"big/{number}", bytes(2 << 20))

            with pytest.raises(DistributedError, match="is full") as caught:
                fill()
            assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
            assert client.key_value_dir_get("small") == []  # reading goes on
    finally:
        servers.close()


def test_keys_end_with_the_job_and_pieces_with_their_value(one):
    store = store_at(one, "ending")
    with closing(store):
        lease = store.lease(30)
        store.set("kept", bytes(2_000_000), lease)
        store.set("kept", b"small", lease)
        assert all_keys(one, "ending/p/") == 0
        store.set("kept", bytes(2_000_000), lease)
        assert all_keys(one, "ending/p/") == 4
        assert store.delete("kept") == 1
        assert all_keys(one, "ending/p/") == 0
        store.set("a", bytes(2_000_000), lease)
        store.increment("n", 1, lease)
        assert store.transaction({}, {"b": bytes(2_000_000)}, lease)
        assert not store.transaction({"b": 0}, {"b": bytes(2_000_000)}, lease)
        assert all_keys(one, "ending/p/") == 8  # of a and of b
        lease.revoke()
        assert all_keys(one, "ending/") == 0


def all_keys(servers, prefix):
    """Return how many keys etcd itself has below a prefix."""
    answer = servers.etcdctl(0, "get", "--prefix", "--keys-only", prefix).stdout
    return len(answer.split())


def test_the_same_transaction_is_not_made_twice(one, monkeypatch):
    store = store_at(one, "twice")
    call = store._endpoints.call

    def lost(method, request):
        """Make a transaction, and lose its answer: it is made again."""
        if method == "KV/Txn":
            call(method, request)
        return call(method, request)

    monkeypatch.setattr(store._endpoints, "call", lost)
    with closing(store):
        assert store.transaction({"k": 0}, {"k": b"1"})
        assert not store.transaction({"k": 0}, {"k": b"2"})
        assert [store.increment("n") for _ in range(3)] == [1, 2, 3]


def test_no_change_is_lost_while_a_watch_is_interrupted(one, monkeypatch):
    store, other, seen = store_at(one, "watched"), store_at(one, "watched"), queue.SimpleQueue()
    is_interrupted, may_go_on = threading.Event(), threading.Event()
    stream = store._endpoints.stream

    def opened(*given):
        is_interrupted.set()
        assert may_go_on.wait(30)
        return stream(*given)

    with closing(store), closing(other):
        watch = store.watch("k", lambda entry: seen.put(entry.value))
        other.set("k", b"before")
        assert seen.get(timeout=30) == b"before"
        monkeypatch.setattr(store._endpoints, "stream", opened)
        store._watcher._stream.cancel()
        assert is_interrupted.wait(30)
        for number in range(20):
            other.set("k", b"%d" % number)
        may_go_on.set()
        assert [seen.get(timeout=30) for _ in range(20)] == [b"%d" % n for n in range(20)]
        watch.close()
        other.set("k", b"later")
    assert seen.empty()


def test_an_error_of_a_watch_is_not_its_end(one):
    store, other, seen = store_at(one, "failing"), store_at(one, "failing"), queue.SimpleQueue()
    failures = [refused(StatusCode.UNAVAILABLE, "a piece of the value could not be read")]

    def note(entry):
        if failures:
            raise failures.pop()
        seen.put(entry.value)

    with closing(store), closing(other):
        store.watch("k", note)
        for value in (b"first", b"second"):
            other.set("k", value)
        assert [seen.get(timeout=30) for _ in range(2)] == [b"first", b"second"]


def test_who_is_interrupted_at_a_barrier_has_not_come(one, monkeypatch):
    with service_at(one, 2) as service:
        clients = joined(service, 2)

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(clients[0]._session._board, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                clients[0].wait_at_barrier("b", 60_000)
        with pytest.raises(TimeoutError, match="process 0 did not"):
            clients[1].wait_at_barrier("b", 1000)
        together(lambda client: client.wait_at_barrier("b", 60_000), clients, timeout=90)
        together(lambda client: client.shutdown(), clients)


def test_keys_and_values_have_the_limits_of_the_embedded_service(one):
    with service_at(one, 1) as service:
        (client,) = joined(service, 1)
        client.key_value_set_bytes("k" * 4096, bytes((16 << 20) - 4096))
        for call in (
            lambda: client.key_value_set("k" * 4097, ""),
            lambda: client.key_value_try_get("é" * 2049),
            lambda: client.wait_at_barrier("k" * 4097, 1000),
        ):
            with pytest.raises(InvalidArgumentError, match="at most 4096 bytes"):
                call()
        with pytest.raises(DistributedError, match="longer than the 16777216") as caught:
            client.key_value_set_bytes("key", bytes(16 << 20))
        assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
        client.shutdown()


def test_jobs_that_cannot_be_begun_or_joined(one):
    with service_at(one, 2, cluster_register_timeout=1) as service:
        with pytest.raises(DistributedError, match="under way") as caught:
            xla_client.get_distributed_runtime_service(service.address, 2)
        assert caught.value.code is StatusCode.ALREADY_EXISTS
        make = xla_client.get_distributed_runtime_client
        with pytest.raises(InvalidArgumentError, match="process id 2"):
            make(service.address, 2, init_timeout=5).connect()
        first = make(service.address, 0, init_timeout=5)
        with pytest.raises(TimeoutError, match="process 1 did not") as caught:
            first.connect()
        assert caught.value.missing == [1]
        clients = joined(service, 2)
        with pytest.raises(DistributedError, match="taken by another"):
            make(service.address, 1, init_timeout=5).connect()
        together(lambda client: client.shutdown(), clients)
    with pytest.raises(TimeoutError, match="nobody began a job"):
        make(one.address("nothing"), 0, init_timeout=0.3).connect()
    with pytest.raises(DistributedError, match="no member of etcd"):
        make("etcd://127.0.0.1:1/job", 0, init_timeout=0.3).connect()
    for address in ("etcd://a", "etcd:///job", "etcd://a,,b/job", "etcd://a/b//c", "redis://a/b"):
        with pytest.raises(InvalidArgumentError):
            make(address, 0)
    with pytest.raises(InvalidArgumentError, match="token"):
        make(one.address("job"), 0, token="secret")


@pytest.mark.parametrize(
    ("record", "words"), [(b'{"contract": 99}', "version 99"), (b"other", "none of devrt's")]
)
def test_a_job_of_another_contract_is_refused(one, record, words):
    name = f"other/{next(_names)}"
    store = store_at(one, name)
    with closing(store):
        store.set(JOB, record)
        client = xla_client.get_distributed_runtime_client(one.address(name), 0, init_timeout=5)
        with pytest.raises(DistributedError, match=words) as caught:
            client.connect()
        assert caught.value.code is StatusCode.FAILED_PRECONDITION
        store.delete(JOB)


def test_a_job_that_is_ended_ends_what_waits(one):
    service = service_at(one, 1)
    (client,) = joined(service, 1)
    client.key_value_set_bytes("big", bytes(2_000_000))
    client.key_value_increment("n", 1)
    client.wait_at_barrier("b", 5000)
    stop = threading.Timer(0, service.shutdown)
    stop.start()
    with pytest.raises(DistributedError, match="the job has ended"):
        client.blocking_key_value_get("never", 60_000)
    stop.join()
    client.shutdown()
    assert all_keys(one, service.address.partition("job/")[2].join(["job/", "/"])) == 0
    with service:  # the prefix is free
        again = xla_client.get_distributed_runtime_service(service.address, 1)
        assert again.status()["processes"][0]["state"] == "absent"
        again.shutdown()


ENDS = """
import gc
import sys
import threading
from devrt.distributed.etcd.store import EtcdStore

def hold(condition):
    "As a thread of gRPC's does for a moment, in which the interpreter may end."
    with condition:
        held.set()
        threading.Event().wait()

def main():
    store = EtcdStore(sys.argv[1].split(","), "ends", patience=20)
    watch = store.watch("k", print)
    kind = "_MultiThreadedRendezvous"
    (call,) = [each for each in gc.get_objects() if type(each).__name__ == kind]
    store.close()
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(20)
    threading.Thread(target=hold, args=(call._state.condition,), daemon=True).start()
    assert held.wait(20)

gc.disable()  # what is left is collected at the end
held = threading.Event()
main()
"""


def test_the_end_of_the_interpreter_does_not_wait_for_a_thread_of_grpc(one):
    command = [sys.executable, "-c", ENDS, one.hosts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
