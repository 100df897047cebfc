"""The connection without HTTP/2: what it refuses, and that calls on it end as those of gRPC do."""

import socket
import threading
import tracemalloc
from contextlib import ExitStack, suppress

import pytest

from devrt.distributed.cluster import Limits
from devrt.distributed.direct import client as direct_client
from devrt.distributed.direct.client import DirectClient
from devrt.distributed.direct.frames import HEADER, HELLO, NUMBERS, frame, hello, hello_of_service
from devrt.distributed.protocol.messages import message
from devrt.distributed.security import Bounds, Security
from devrt.distributed.service import DistributedRuntimeService
from devrt.distributed.status import read_status
from devrt.errors import DeadlineExceededError, DevrtError, DistributedError, StatusCode
from devrt.xla_client import get_distributed_runtime_client, get_distributed_runtime_service
from support import together

SET = NUMBERS["InsertKeyValue"]
GREETING = hello_of_service(False, 16 << 20)
ENDLESS = 60_000  # ms


@pytest.fixture
def service():
    with get_distributed_runtime_service("localhost:0", 1, heartbeat_timeout=5) as made:
        yield made


@pytest.fixture
def client(service):
    made = get_distributed_runtime_client(service.address, 0)
    made.connect()
    yield made
    made.shutdown()


def port_of(client):
    return client._session._connection._calls._address


def exchange(address, *sent):
    """Send bytes to a direct port; return the codes that come back before it closes."""
    codes = []
    with socket.create_connection(address, 10) as connection:
        for data in sent:
            try:
                connection.sendall(data)
            except ConnectionError:
                break
        connection.shutdown(socket.SHUT_WR)
        data = b""
        while chunk := receive(connection):
            data += chunk
    while data:
        size, code = HEADER.unpack_from(data)
        if code != HELLO:  # the service's own
            codes.append(code)
        data = data[HEADER.size + size :]
    return codes


def receive(connection):
    try:
        return connection.recv(1 << 16)
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        frame(SET, b"no hello came first"),
        HEADER.pack(1 << 31, HELLO),
        bytes(64),
        b"\xff" * 64,
    ],
)
def test_garbage_ends_its_own_connection_only(client, sent):
    assert exchange(port_of(client), sent) in ([], [StatusCode.UNAUTHENTICATED])
    client.key_value_set("key", "value")
    assert client.key_value_try_get("key") == "value"


def test_a_message_that_is_none_is_refused_and_the_next_is_answered(client):
    broken = frame(SET, b"\xff\xff\xff")
    assert exchange(port_of(client), hello(b"") + broken) == [StatusCode.INVALID_ARGUMENT]
    assert exchange(port_of(client), hello(b"") + frame(200, b"")) == [StatusCode.UNIMPLEMENTED]


def test_a_heartbeat_that_comes_together_with_the_poll_is_answered(client):
    """As after a change of service."""
    link = client._session._connection
    poll = frame(NUMBERS["PollForError"], link._poll_request().SerializeToString())
    beat = frame(NUMBERS["Heartbeat"], link._heartbeat_request().SerializeToString())
    with socket.create_connection(port_of(client), 10) as connection:
        connection.sendall(hello(b"") + poll + beat)
        data = b""
        while (
            len(data) < len(GREETING) + HEADER.size + 9
        ):  # a hello, and the answer to the heartbeat
            data += connection.recv(1 << 16)
    assert HEADER.unpack_from(data)[1] == HELLO
    assert HEADER.unpack_from(data, len(GREETING))[1] == 0


def test_the_wrong_token_is_refused():
    with get_distributed_runtime_service("localhost:0", 1, token="secret") as service:
        client = get_distributed_runtime_client(service.address, 0, token="secret")
        client.connect()
        for token in (b"", b"wrong", b"secret2"):
            for sent in (frame(HELLO, token), hello(token), hello(token, 99)):
                assert exchange(port_of(client), sent) == [StatusCode.UNAUTHENTICATED]
        assert service.status()["refused"] == {"UNAUTHENTICATED": 9}
        client.key_value_set("key", "value")
        client.shutdown()


def test_a_client_of_another_contract_is_refused_on_both_connections(monkeypatch):
    with get_distributed_runtime_service("localhost:0", 2) as service:
        with monkeypatch.context() as patch:
            patch.setattr(direct_client, "hello", lambda token: hello(token, 99))
            other = get_distributed_runtime_client(service.address, 1, init_timeout=20)
            with pytest.raises(DistributedError, match="version 99") as caught:
                other.connect()
        assert caught.value.code is StatusCode.FAILED_PRECONDITION
        assert caught.value.contract == "99"
        clients = [get_distributed_runtime_client(service.address, n) for n in range(2)]
        together(lambda client: client.connect(), clients, timeout=30)
        direct = DirectClient(*port_of(clients[0]), token="")
        direct._hello = hello(b"", 99)
        with pytest.raises(DistributedError, match="version 99") as caught:
            direct.call("TryGetKeyValue", message("TryGetKeyValueRequest")(key="k"), 30)
        assert (caught.value.code, caught.value.contract) == (StatusCode.FAILED_PRECONDITION, "99")
        direct.close()
        assert service.status()["refused"] == {"FAILED_PRECONDITION": 2}
        together(lambda client: client.shutdown(), clients, timeout=30)


@pytest.fixture
def endless():
    """A function that starts a service which sends something, and then bytes without an end."""
    threads, over = [], threading.Event()

    def serve(listener, sent):
        connection, _ = listener.accept()
        with listener, connection, suppress(OSError):
            connection.sendall(sent)
            while not over.wait(0.01):
                connection.sendall(b"x")

    def start(sent):
        listener = socket.create_server(("127.0.0.1", 0))
        threads.append(threading.Thread(target=serve, args=(listener, sent)))
        threads[-1].start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    over.set()
    for thread in threads:
        thread.join(60)


def test_a_response_of_a_length_that_none_has_is_refused(endless):
    address = endless(GREETING + HEADER.pack((1 << 32) - 1, 0))
    client = get_distributed_runtime_client(address, 0, init_timeout=60)
    with pytest.raises(DistributedError, match="announced an answer of 4294967295 bytes"):
        client.connect()
    client = get_distributed_runtime_client(endless(GREETING + HEADER.pack(1 << 21, 3)), 0)
    with pytest.raises(DistributedError, match="announced"):
        client.connect()


def test_what_is_announced_takes_no_memory_and_bytes_no_more_time(endless):
    """A length counts when its bytes come, and a byte that comes is no reason to wait again."""
    address = endless(GREETING + HEADER.pack(1 << 30, 0))
    client = get_distributed_runtime_client(address, 0, init_timeout=1)
    tracemalloc.start()
    try:
        with pytest.raises(DeadlineExceededError):
            client.connect()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_value_that_is_too_long_is_refused_before_it_is_sent():
    limits, bounds = Limits(20, 20, 20), Bounds(message_bytes=1 << 20)
    with DistributedRuntimeService("localhost:0", 1, limits, bounds=bounds) as service:
        client = get_distributed_runtime_client(service.address, 0)
        client.connect()
        words = r"2097\d+ bytes is longer than the 1048576"
        with pytest.raises(DistributedError, match=words) as caught:
            client.key_value_set_bytes("large", bytes(2 << 20))
        assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
        assert service.status()["refused"] == {}
        sent = frame(SET, bytes(2 << 20))  # of one that does not look
        with socket.create_connection(port_of(client), 10) as connection:
            connection.sendall(hello(b"") + sent)
            connection.shutdown(socket.SHUT_WR)
            data = b"".join(iter(lambda: receive(connection), b""))
        assert b"2097152 bytes is longer than the 1048576" in data
        client.shutdown()


def test_a_value_of_2_gib_is_refused_before_it_is_made_a_message(client):
    class Large:
        def __len__(self):
            return 2 << 30

    client._session._connection.message_bytes = None  # as of jaxlib's service
    with pytest.raises(DistributedError, match="2147483653 bytes is longer") as caught:
        client._session.set("large", Large(), True)
    assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED


def test_many_threads_wait_at_once(client):
    found = {}

    def wait(number):
        found[number] = client.blocking_key_value_get(f"key{number}", ENDLESS)

    threads = [threading.Thread(target=wait, args=(n,), daemon=True) for n in range(40)]
    for thread in threads:
        thread.start()
    for number in reversed(range(40)):
        client.key_value_set(f"key{number}", str(number))
    for thread in threads:
        thread.join(60)
    assert found == {n: str(n) for n in range(40)}


def test_a_value_of_many_packets_comes_whole(client):
    value = bytes(range(256)) * (10 << 12)
    client.key_value_set_bytes("large", value)
    assert client.blocking_key_value_get_bytes("large", ENDLESS) == value


def test_a_client_that_asks_and_does_not_read_is_ended(service, client):
    client.key_value_set_bytes("large", bytes(12 << 20))  # more than sockets take
    ids = client._session._connection._ids
    request = message("TryGetKeyValueRequest")(incarnations=ids, key="large")
    ask = frame(NUMBERS["TryGetKeyValue"], request.SerializeToString())
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.connect(port_of(client))
        connection.sendall(hello(b"") + ask)
        data = connection.recv(1 << 10)
        while len(data) <= len(GREETING) + HEADER.size:  # the hello, and the response has begun
            data += connection.recv(1 << 10)
        connection.sendall(ask)
        for _ in range(100):  # while nothing is read
            if read_status(service.address, Security())["refused"]:
                break
        received = 0
        while chunk := receive(connection):
            received += len(chunk)
    assert received < 12 << 20, "what it did not read was kept for it"
    assert read_status(service.address, Security())["refused"] == {"RESOURCE_EXHAUSTED": 1}


def test_messages_that_many_send_half_are_bounded_and_the_oldest_ends():
    part = 400 << 10
    limits = Limits(heartbeat=20, register=20, shutdown=20)
    bounds = Bounds(transit_bytes=1 << 20)
    with (
        DistributedRuntimeService("localhost:0", 1, limits, bounds=bounds) as service,
        ExitStack() as stack,
    ):
        client = get_distributed_runtime_client(service.address, 0)
        client.connect()
        slow = []
        for _ in range(8):
            slow.append(stack.enter_context(socket.create_connection(port_of(client), 10)))
            slow[-1].sendall(hello(b"") + HEADER.pack(1 << 20, SET) + bytes(part))
        for connection in slow[:6]:  # two of eight are below the limit
            while receive(connection):
                pass
        client.key_value_set_bytes("large", bytes(part))
        assert client.blocking_key_value_get_bytes("large", ENDLESS) == bytes(part)
        count = read_status(service.address, Security())["refused"]["RESOURCE_EXHAUSTED"]
        assert count in {6, 7}  # the seventh ended for the client's
        client.shutdown()


def test_responses_that_many_do_not_read_are_bounded_and_the_oldest_ends():
    size = 12 << 20  # more than sockets take
    limits = Limits(heartbeat=20, register=20, shutdown=20)
    bounds = Bounds(transit_bytes=14 << 20)  # one response, less what sockets took
    with (
        DistributedRuntimeService("localhost:0", 1, limits, bounds=bounds) as service,
        ExitStack() as stack,
    ):
        client = get_distributed_runtime_client(service.address, 0)
        client.connect()
        client.key_value_set_bytes("large", bytes(size))
        ids = client._session._connection._ids
        request = message("TryGetKeyValueRequest")(incarnations=ids, key="large")
        ask = frame(NUMBERS["TryGetKeyValue"], request.SerializeToString())
        slow = []
        for _ in range(4):
            connection = stack.enter_context(socket.socket())
            connection.settimeout(10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            connection.connect(port_of(client))
            connection.sendall(hello(b"") + ask)
            slow.append(connection)
            connection.recv(1)
        for _ in range(1000):  # the last response has begun, and not yet been refused
            refused = read_status(service.address, Security())["refused"]
            if refused == {"RESOURCE_EXHAUSTED": 3}:
                break
        received = 0
        while chunk := receive(slow[0]):
            received += len(chunk)
        assert received < size
        assert refused == {"RESOURCE_EXHAUSTED": 3}
        assert client.key_value_try_get_bytes("large") == bytes(size)
        client.shutdown()


def test_a_service_that_ends_ends_the_calls_that_wait(service):
    client = get_distributed_runtime_client(service.address, 0)
    client.connect()
    raised = []

    def wait():
        try:
            client.blocking_key_value_get("never", ENDLESS)
        except DevrtError as error:
            raised.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while "never" not in str(service.status()):
        assert thread.is_alive()
    service.shutdown()
    thread.join(60)
    assert isinstance(raised[0], DistributedError)
    with pytest.raises(DistributedError, match="coordination service"):
        client.key_value_set("key", "value")


def test_a_response_that_is_late_is_not_the_next_calls(client):
    direct = DirectClient(*port_of(client), token="")
    request = message("GetKeyValueRequest")(key="late")
    request.incarnations.CopyFrom(client._session._connection._ids)
    with pytest.raises(DistributedError, match="NOT_FOUND"):
        direct.call("TryGetKeyValue", request, 30)
    assert len(direct._idle) == 1  # the next call need not connect
    with pytest.raises(TimeoutError):
        direct.call("GetKeyValue", request, 0.01)
    client.key_value_set("late", "value")
    client.key_value_set("other", "another")
    request.key = "other"
    assert direct.call("TryGetKeyValue", request, 30).kv.value == b"another"
    direct.close()
    with pytest.raises(ConnectionError):
        direct.call("TryGetKeyValue", request, 30)
