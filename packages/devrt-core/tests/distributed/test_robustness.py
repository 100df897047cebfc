"""What others than the job's processes send to its service: refused, counted, the job unharmed."""

import os
import socket
import struct
import time

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

import grpc

from devrt import xla_client
from devrt.distributed import Bounds, MemoryStore
from devrt.distributed.channel import methods_of, opened
from devrt.distributed.protocol.messages import METHODS, SERVICE, message
from devrt.distributed.quota import Quota, Rate
from devrt.distributed.security import Security
from devrt.distributed.status import read_status
from devrt.errors import DistributedError, StatusCode
from support import together


@pytest.fixture
def job():
    """A service with a token, and a client that must be able to go on."""
    make = xla_client.get_distributed_runtime_service
    with make("localhost:0", 1, token="secret", heartbeat_timeout=60) as service:
        client = client_of(service)
        client.connect()
        yield service, client
        client.key_value_set("still", "works")
        assert client.key_value_try_get("still") == "works"
        client.wait_at_barrier("all", 30_000)
        client.shutdown()


def client_of(service, **options):
    defaults = {"init_timeout": 20, "heartbeat_timeout": 60, "token": "secret"}
    make = xla_client.get_distributed_runtime_client
    return make(service.address, 0, **{**defaults, **options})


def sent(port, data):
    """Send bytes, and read until the other side ends the connection."""
    with socket.create_connection(("localhost", port), 20) as connection:
        connection.settimeout(20)
        try:
            connection.sendall(data)
            while connection.recv(1 << 16):
                pass
        except ConnectionError:  # it ended before all was sent
            return


def port_of(service):
    return int(service.address.rpartition(":")[2])


GARBAGE = {
    "zeros": bytes(4096),
    "noise": os.urandom(65536),
    "web": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a length of 4 GiB": b"\xff" * 64,
    "a preface and noise": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(4096),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_bytes_that_mean_nothing_end_their_connection(job, name):
    service, _ = job
    sent(port_of(service), GARBAGE[name])
    is_of_grpc = GARBAGE[name].startswith(b"PRI")  # which ends it without a word
    expected = {} if is_of_grpc else {"UNAUTHENTICATED": 1}
    assert service.status()["refused"] == expected


def call(service, method, request, token="secret", **fields):
    """Make a call as a program of one's own does."""
    with grpc.insecure_channel(service.address) as channel:
        unary = channel.unary_unary(f"/{SERVICE}/{method}")
        data = request if isinstance(request, bytes) else request(**fields).SerializeToString()
        with pytest.raises(grpc.RpcError) as caught:
            unary(data, timeout=20, metadata=[("authorization", f"Bearer {token}")])
        return caught.value.code()


@pytest.mark.parametrize("token", ["", "wrong", "secre", "secret2", "x" * 8000])
def test_a_wrong_token_calls_nothing(job, token):
    service, _ = job
    for method in METHODS:
        code = call(service, method, message(f"{method}Request"), token)
        assert code is grpc.StatusCode.UNAUTHENTICATED
    hello = token.encode()
    sent(port_of(service), struct.pack("!IB", len(hello), 255) + hello)
    refused = service.status()["refused"]
    assert refused == {"UNAUTHENTICATED": len(METHODS) + 1}


def test_messages_of_100_mb_are_refused(job):
    service, client = job
    assert call(service, "InsertKeyValue", bytes(100 << 20)) in {
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,  # the connection ended while it was sent
    }
    with pytest.raises(DistributedError) as caught:
        client.key_value_set_bytes("big", bytes(100 << 20))
    assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED


def test_forged_processes_do_nothing(job):
    service, _ = job
    forged = message("Incarnations")(task_id=0, task_incarnation=7)
    for method in ("Heartbeat", "ShutdownTask", "PollForError", "Barrier", "CancelBarrier"):
        kind = message(f"{method}Request")
        fields = {"incarnation": 7} if method == "Heartbeat" else {}
        code = call(service, method, kind, incarnations=forged, source_task_id=0, **fields)
        assert code is grpc.StatusCode.PERMISSION_DENIED
    for method in ("InsertKeyValue", "TryGetKeyValue", "GetKeyValueDir", "DeleteKeyValue"):
        code = call(service, method, message(f"{method}Request"), incarnations=forged)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert service.status()["processes"][0]["state"] == "connected"


def test_a_flood_of_registrations_takes_nothing(job):
    service, _ = job
    kind = message("RegisterTaskRequest")

    def flood(seed):
        with grpc.insecure_channel(service.address) as channel:
            unary = channel.unary_unary(f"/{SERVICE}/RegisterTask")
            calls = [
                unary.future(
                    kind(incarnation=n + 1, source_task_id=n % 3).SerializeToString(),
                    timeout=100,
                    metadata=[("authorization", "Bearer secret")],
                )
                for n in range(seed, seed + 500)
            ]
            codes = {one.code() for one in calls}
        assert codes == {grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.INVALID_ARGUMENT}

    together(flood, [0, 500], timeout=200)
    refused = service.status()["refused"]
    assert refused["ALREADY_EXISTS"] + refused["INVALID_ARGUMENT"] == 1000


BEGINNINGS = {
    "silent": b"",
    "of a direct connection": b"\x00",
    "of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_connections_that_say_nothing_keep_nobody_out(job, name):
    """More of them than may be unknown at a time: those of the job go on, and others join."""
    service, client = job
    taken = []
    try:
        for _ in range(600):
            taken.append(socket.create_connection(("localhost", port_of(service)), 20))
            taken[-1].sendall(BEGINNINGS[name])
        together(lambda n: client.key_value_set(f"of{n}", ""), range(8), timeout=60)
        assert len(client.key_value_dir_get("")) == 8
        found = read_status(service.address, Security(token="secret"))  # a new one, of gRPC
        assert found["refused"]["UNAUTHENTICATED"] >= 600 - 256
        assert len(service._direct._open) <= 256 + 16
    finally:
        for one in taken:
            one.close()


def test_calls_of_grpc_make_a_connection_one_of_the_job(job):
    """Its time to show the token does not end it later."""
    service, _ = job
    with grpc.insecure_channel(service.address) as channel:
        status = channel.unary_unary("/devrt.Coordination/Status")
        metadata = [("authorization", "Bearer secret")]
        status(b"", timeout=20, metadata=metadata, wait_for_ready=True)
        assert not service._direct._unadmitted
        assert len(service._direct._open) > 1  # the clients' own, and this


def call_until_refused(call):
    while True:
        call()


def test_one_process_may_keep_so_much_and_call_so_often():
    make = xla_client.get_distributed_runtime_service
    bounds = Bounds(process_bytes=1000, calls_per_second=50, key_bytes=20)
    with make("localhost:0", 1, token="secret", bounds=bounds) as service:
        client = client_of(service)
        client.connect()
        client.key_value_set_bytes("a", bytes(900))
        for key, size in (("b", 900), ("a", 2000), ("k" * 21, 1)):
            with pytest.raises(RuntimeError):
                client.key_value_set_bytes(key, bytes(size), True)
        client.key_value_set_bytes("a", bytes(950), True)
        client.key_value_delete("a")
        client.key_value_set_bytes("b", bytes(900))
        before = service.status()["refused"]["RESOURCE_EXHAUSTED"]
        with pytest.raises(DistributedError) as caught:
            call_until_refused(lambda: client.key_value_try_get("b"))
        assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
        assert service.status()["refused"]["RESOURCE_EXHAUSTED"] == before + 1


def test_calls_that_watch_the_processes_are_bounded_and_end_with_the_service():
    make = xla_client.get_distributed_runtime_service
    with make("localhost:0", 1, token="secret", bounds=Bounds(waiting_calls=2)) as service:
        client = client_of(service)
        client.connect()  # which waits for losses: the first call of two
        security = Security(token="secret")
        with opened(service.address, security, compress=False) as channel:
            request = message("WatchTasksRequest")(version_number=1 << 40)
            request.incarnations.CopyFrom(client._session._connection._ids)
            watch = methods_of(channel)["WatchTasks"].future
            waiting = watch(request, timeout=60, metadata=security.metadata)
            while service._calls._waiting.get(0) != 2:
                time.sleep(0.01)
            further = watch(request, timeout=60, metadata=security.metadata)
            assert "2 calls of one process wait already" in str(further.exception().details())
            service.shutdown()
            assert "is shutting down" in str(waiting.exception().details())


def test_what_all_keep_is_bounded_and_belongs_to_who_set_it_last():
    store = MemoryStore()
    quota = Quota(store, Bounds(process_bytes=100, stored_bytes=150))

    def put(process, key, size):
        quota.check(process, key, size)
        store.set(key, bytes(size))

    put(0, "a", 90)
    with pytest.raises(DistributedError, match="process 0 would keep"):
        put(0, "b", 20)
    with pytest.raises(DistributedError, match="keeps at most 150"):
        put(1, "b", 80)
    put(1, "a", 90)  # it is the other's now
    put(0, "b", 50)
    store.delete("", prefix=True)
    put(0, "b", 99)


def test_calls_are_counted_as_time_passes():
    now = [0.0]
    rate = Rate(10, lambda: now[0])

    def count():
        """Return how many calls are taken at once."""
        for number in range(100):
            try:
                rate.check(1)
            except DistributedError:
                return number
        return 100

    assert count() == 10
    now[0] = 0.5
    assert count() == 5
    now[0] = 100
    assert count() == 10
