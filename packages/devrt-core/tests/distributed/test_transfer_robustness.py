"""Peers that do not keep to the protocol of transfers: refused, counted, and nobody harmed."""

import contextlib
import json
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import devrt
from certificates import certificates
from devrt.distributed.transfer.frames import PROTOCOL, Op
from devrt.errors import StatusCode
from devrt.experimental import transfer
from transfer_messages import HEADER, exactly, message


@pytest.fixture
def server(client):
    """A server whose offers must still be there for one that has the token."""
    bounds = transfer.TransferBounds(message_bytes=4096, connections=4)
    made = transfer.start_transfer_server(client, token="t", bounds=bounds, transfer_size=1024)
    with made, made.connect(made.address()) as connection:
        x = devrt.device_put(np.ones((2, 3)), client.devices()[0])
        made.await_pull(1, x)
        yield made
        assert np.asarray(connection.pull(1, x, timeout=60)).sum() == 6


def connected(server):
    host, port = server.address().rsplit(":", 1)
    made = socket.create_connection((host, int(port)), 30)
    made.settimeout(30)
    return made


def answer(connection):
    """Return the status and the record of an answer; None where the connection ended."""
    try:
        head = exactly(connection, HEADER.size)
        number, size, count = HEADER.unpack(head)
        return number, json.loads(exactly(connection, size)), exactly(connection, count)
    except (EOFError, ConnectionError):
        return None


HELLO = message(Op.HELLO, {"protocol": PROTOCOL, "token": "t"})
PULL = {"uuid": 1, "arrays": [[[2, 3], "float64"]], "wait": 0}


def admitted(server):
    made = connected(server)
    made.sendall(HELLO)
    assert answer(made)[0] == StatusCode.OK
    return made


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n" + b"x" * 64,
        b"\xff" * 64,
        message(Op.HELLO, b"{" * 500),
        message(Op.HELLO, b"[" * 9000 + b"]" * 7000),
        message(Op.HELLO, b"[1]"),
        message(Op.HELLO, {"protocol": PROTOCOL, "token": 7}),
        message(Op.PULL, PULL),
        HEADER.pack(Op.HELLO, 1 << 31, 0),
    ],
)
def test_what_is_no_beginning_ends_the_connection(server, data):
    with connected(server) as peer:
        peer.sendall(data)
        assert answer(peer) is None
    assert server.refused == 1


def test_a_wrong_token_and_another_protocol_are_answered(server):
    for record, code in (
        ({"protocol": PROTOCOL, "token": "\ud800"}, StatusCode.UNAUTHENTICATED),
        ({"protocol": PROTOCOL}, StatusCode.UNAUTHENTICATED),
        ({"protocol": 99, "token": "t"}, StatusCode.FAILED_PRECONDITION),
    ):
        with connected(server) as peer:
            peer.sendall(message(Op.HELLO, record))
            assert answer(peer)[0] == code
            assert answer(peer) is None


@pytest.mark.parametrize(
    ("number", "record", "count"),
    [
        (99, {}, 0),
        (Op.READ, {}, 5),
        (Op.HELLO, {}, 0),
        (Op.PULL, b"nothing", 0),
        (Op.PULL, {"pad": "x" * 5000}, 0),
    ],
)
def test_what_is_no_request_ends_the_connection(server, number, record, count):
    with admitted(server) as peer:
        peer.sendall(message(number, record, count) + b"x" * count)
        assert answer(peer) is None
    assert server.refused == 1


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"uuid": "x", "arrays": [], "wait": 0},
        {"uuid": 1, "arrays": 3, "wait": 0},
        {"uuid": 1, "arrays": [[1]], "wait": 0},
        {"uuid": 1, "arrays": [[[1], "x"]], "wait": "soon"},
        {"uuid": [], "arrays": [], "wait": 0},
        {"uuid": 1.5, "arrays": [], "wait": 0},
        {"uuid": 1 << 64, "arrays": [], "wait": 0},
        {"uuid": 99, "arrays": [], "wait": float("nan")},  # which no time is after
        {"uuid": 99, "arrays": [], "wait": float("inf")},
        {"uuid": 99, "arrays": [], "wait": -1},
        {"uuid": 99, "arrays": [], "wait": True},
        {"uuid": 99, "arrays": [], "wait": 1 << 2000},
        {"uuid": 99, "arrays": [[[float("nan")], "x"]], "wait": 0},
        {**PULL, "inline": -1},
        {**PULL, "inline": 0.5},
    ],
)
def test_a_request_with_wrong_fields_is_refused(server, record):
    with admitted(server) as peer:
        peer.sendall(message(Op.PULL, record))
        assert answer(peer)[0] == StatusCode.INVALID_ARGUMENT
        assert answer(peer) is None
    assert server.refused == 1


@pytest.mark.parametrize(
    "region",
    [
        [0, 0, [0, 0], [3, 3]],
        [0, 0, [-1, 0], [1, 3]],
        [0, 0, [1, 0], [-1, 3]],
        [0, 0, [0], [2]],
        [1, 0, [0, 0], [2, 3]],
        [0, 1, [0, 0], [2, 3]],
        [-1, 0, [0, 0], [2, 3]],
        [0, -1, [0, 0], [2, 3]],
        [0, 0, [0, 0], [1.5, 3]],
        [0, 0, [0.0, 0], [1, 3]],
        [0.0, 0, [0, 0], [1, 3]],
        [0, 0, [0, 0], [float("nan"), 3]],
        [0, 0, [0, 0], [True, 1 << 70]],
        [0, 0],
        "x",
    ],
)
def test_elements_that_there_are_not_are_refused(server, region):
    with admitted(server) as peer:
        peer.sendall(message(Op.PULL, PULL))
        lease = answer(peer)[1]["lease"]
        peer.sendall(message(Op.READ, {"lease": lease, "regions": [region]}))
        code, _, data = answer(peer)
        assert (code, data) == (StatusCode.INVALID_ARGUMENT, b"")


def test_a_forged_lease_and_too_much_at_once_are_refused(server):
    with admitted(server) as peer:
        peer.sendall(message(Op.READ, {"lease": "00" * 16, "regions": [[0, 0, [0, 0], [2, 3]]]}))
        assert answer(peer)[0] == StatusCode.NOT_FOUND
        peer.sendall(message(Op.PULL, PULL))
        lease = answer(peer)[1]["lease"]
        many = [[0, 0, [0, 0], [2, 3]]] * 40  # 1,920 bytes, of which 1,024 are allowed
        peer.sendall(message(Op.READ, {"lease": lease, "regions": many}))
        assert answer(peer)[0] == StatusCode.RESOURCE_EXHAUSTED
        peer.sendall(message(Op.READ, {"lease": lease, "regions": many[:2]}))
        assert len(answer(peer)[2]) == 96
        with admitted(server) as other:  # which does not know the lease's key may not end it
            other.sendall(message(Op.END, {"lease": lease, "done": True}))
            assert answer(other)[0] == StatusCode.INVALID_ARGUMENT


def test_further_connections_than_are_allowed_end_at_once(client):
    bounds = transfer.TransferBounds(connections=2)
    server = transfer.start_transfer_server(client, token="t", bounds=bounds)
    with server, admitted(server), admitted(server), connected(server) as third:
        with contextlib.suppress(OSError):  # it may have ended before
            third.sendall(HELLO)
        assert answer(third) is None


@pytest.fixture
def patient(monkeypatch):
    """Have silent connections end by no time of their own."""
    from devrt.distributed.transfer import listening

    monkeypatch.setattr(listening, "_HANDSHAKE_SECONDS", 600)


@pytest.mark.usefixtures("patient")
def test_connections_that_say_nothing_keep_nobody_out(client):
    """The oldest of them is ended for the next one, and counts."""
    bounds = transfer.TransferBounds(connections=4)
    server = transfer.start_transfer_server(client, token="t", bounds=bounds)
    silent = []
    with server, contextlib.ExitStack() as stack:
        for _ in range(8):
            silent.append(stack.enter_context(connected(server)))
        for peer in silent[:6]:
            assert answer(peer) is None
        assert server.refused >= 6
        with server.connect(server.address()) as connection:
            x = devrt.device_put(np.ones((2, 3)), client.devices()[0])
            server.await_pull(1, x)
            assert np.asarray(connection.pull(1, x, timeout=60)).sum() == 6


@pytest.mark.usefixtures("patient")
def test_handshakes_that_never_end_keep_nobody_out_and_wrong_ones_count(client, tmp_path):
    files = certificates(tmp_path / "files")
    bounds = transfer.TransferBounds(connections=4)
    server = transfer.start_transfer_server(client, bounds=bounds, **files)
    with server, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(server)) for _ in range(6)]
        for peer in silent[:4]:
            peer.sendall(b"\x16\x03\x01")  # the beginning of a handshake
        for peer in silent[:4]:
            assert answer(peer) is None
        assert server.refused == 4
        with connected(server) as peer:  # for which the fifth is ended
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                while peer.recv(100):  # the alert
                    pass
        with server.connect(server.address()) as connection:
            x = devrt.device_put(np.ones((2, 3)), client.devices()[0])
            server.await_pull(1, x)
            assert np.asarray(connection.pull(1, x, timeout=60)).sum() == 6
        assert server.refused >= 6


def test_a_certificate_that_is_gone_for_now_refuses_connections(client, tmp_path, caplog):
    """As while its files are replaced: the thread of a connection says so, and counts it."""
    files = certificates(tmp_path / "files")
    server = transfer.start_transfer_server(client, **files)
    key, kept = Path(files["mtls_key_file"]), tmp_path / "kept"
    with server, caplog.at_level("INFO", "devrt"):
        key.rename(kept)
        with connected(server) as peer:
            assert answer(peer) is None
        kept.rename(key)
        assert server.refused == 1
        assert "cannot be read" in caplog.text
        with server.connect(server.address()) as connection:
            x = devrt.device_put(np.ones((2, 3)), client.devices()[0])
            server.await_pull(1, x)
            assert np.asarray(connection.pull(1, x, timeout=60)).sum() == 6


def test_who_ends_before_it_has_begun_is_counted(server):
    with connected(server) as peer:
        peer.shutdown(socket.SHUT_WR)
        assert answer(peer) is None
    assert server.refused == 1


def test_more_requests_than_one_connection_may_make_are_refused(client):
    bounds = transfer.TransferBounds(requests_per_second=5)
    server = transfer.start_transfer_server(client, token="t", bounds=bounds)
    with server, admitted(server) as peer:
        codes = []
        for _ in range(40):
            peer.sendall(message(Op.PULL, PULL))
            codes.append(answer(peer)[0])
        assert set(codes) == {StatusCode.DEADLINE_EXCEEDED, StatusCode.RESOURCE_EXHAUSTED}
        assert server.refused == codes.count(StatusCode.RESOURCE_EXHAUSTED)
        with admitted(server) as other:  # which has a rate of its own
            other.sendall(message(Op.PULL, PULL))
            assert answer(other)[0] == StatusCode.DEADLINE_EXCEEDED


def test_many_parts_that_have_nothing_are_refused(client):
    server = transfer.start_transfer_server(client, token="t")
    with server, admitted(server) as peer:
        server.await_pull(1, devrt.device_put(np.ones((2, 3)), client.devices()[0]))
        peer.sendall(message(Op.PULL, PULL))
        lease = answer(peer)[1]["lease"]
        for count, code in ((1025, StatusCode.RESOURCE_EXHAUSTED), (1024, StatusCode.OK)):
            parts = [[0, 0, [0, 0], [0, 0]]] * count
            peer.sendall(message(Op.READ, {"lease": lease, "regions": parts}))
            assert answer(peer)[0] == code


def test_who_reads_too_slowly_is_ended_and_frees_what_it_holds(client, monkeypatch):
    from devrt.distributed.transfer import server as module

    x = devrt.device_put(np.ones((512, 1024)), client.devices()[0])
    bounds = transfer.TransferBounds(stall_seconds=60, least_bytes_per_second=1 << 20)
    server = transfer.start_transfer_server(client, token="t", bounds=bounds)
    with server, admitted(server) as peer:
        server.await_pull(1, x)
        peer.sendall(message(Op.PULL, {**PULL, "arrays": [[[512, 1024], "float64"]]}))
        lease = answer(peer)[1]["lease"]
        # Of 4 MiB at 1 MiB a second, after 60 s in which it may be silent: over since a second.
        monkeypatch.setattr(module, "monotonic", lambda: time.monotonic() - 65)
        columns = [[0, 0, [0, 0], [512, 1023]]]  # which have to be copied
        peer.sendall(message(Op.READ, {"lease": lease, "regions": columns}))
        assert answer(peer) is None
        assert server.refused == 1
        budget = server._server._copies
        budget.take(budget._limit, 60)  # waits until all is given back
        server._server.offers.lease(1, 60)  # and so for the offer


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200), is_admitted=st.booleans(), number=st.integers(0, 6))
def test_any_bytes_leave_the_server_as_it_was(running, data, is_admitted, number):
    with admitted(running) if is_admitted else connected(running) as peer:
        peer.sendall(message(number, data) if number else data)
        with contextlib.suppress(OSError):  # the server may have ended it
            peer.shutdown(socket.SHUT_WR)
        while answer(peer) is not None:
            pass
    with admitted(running) as peer:
        peer.sendall(message(Op.PULL, {**PULL, "wait": 5}))  # until the server sees that it ended
        assert answer(peer)[0] == StatusCode.OK


@pytest.fixture(scope="module")
def running(client):
    with transfer.start_transfer_server(client, token="t") as server:
        server.await_pull(1, devrt.device_put(np.ones((2, 3)), client.devices()[0]))
        yield server
