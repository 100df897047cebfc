"""Clients and services of a cluster, devrt's and jaxlib's in pairs; losses, and who is refused."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from devrt.errors import (
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    PeerLostError,
    StatusCode,
)
from support import together


def service_of(size, **how):
    return xla_client.get_distributed_runtime_service("localhost:0", size, **how)


def client_of(service, number, **how):
    defaults = {"init_timeout": 20, "shutdown_timeout": 20, "heartbeat_timeout": 10}
    return xla_client.get_distributed_runtime_client(service.address, number, **{**defaults, **how})


@pytest.fixture
def pair():
    """Two connected clients."""
    with service_of(2) as service:
        clients = [client_of(service, number) for number in range(2)]
        together(lambda client: client.connect(), clients, timeout=30)
        yield clients
        together(lambda client: client.shutdown(), clients, timeout=30)


def refusal(call, *arguments):
    with pytest.raises(RuntimeError) as caught:
        call(*arguments)
    return str(caught.value)


def test_keys_and_barriers_are_those_of_jaxlib(pair):
    for mine, other in (pair, pair[::-1]):
        name = f"of{id(mine)}"
        mine.key_value_set(f"{name}//x", "1")
        assert "ALREADY_EXISTS" in refusal(other.key_value_set, f"/{name}/x/", "2")
        other.key_value_set(f"{name}/x", "2", True)
        assert mine.blocking_key_value_get(f"/{name}/x", 5000) == "2"
        assert "NOT_FOUND" in refusal(mine.key_value_try_get, f"{name}/none")
        assert "DEADLINE_EXCEEDED" in refusal(mine.blocking_key_value_get, f"{name}/none", 100)
        mine.key_value_set_bytes(f"{name}/a/b", b"\0\xff")
        mine.key_value_set(f"{name}2", "outside")
        assert mine.key_value_dir_get_bytes(name) == [
            (f"{name}/a/b", b"\0\xff"),
            (f"{name}/x", b"2"),
        ]
        assert [mine.key_value_increment(f"{name}/n", n) for n in (2, 3)] == [2, 5]
        mine.key_value_set(f"{name}/text", "text")
        assert "FAILED_PRECONDITION" in refusal(mine.key_value_increment, f"{name}/text", 1)
        other.key_value_delete(name)
        assert mine.key_value_dir_get(name) == []
        mine.key_value_set_bytes(f"{name}/big", bytes(5_000_000))
        assert len(other.blocking_key_value_get_bytes(f"{name}/big", 5000)) == 5_000_000
    for ids in ([], [0, 1], None) * 2:
        together(lambda client, ids=ids: client.wait_at_barrier("again", 9000, ids), pair)
    pair[0].wait_at_barrier("alone", 9000, [0])
    assert set(pair[0].get_live_nodes([0, 1])) == {0, 1}
    assert "DEADLINE_EXCEEDED" in refusal(pair[0].wait_at_barrier, "late", 100)


def test_a_barrier_that_is_late_names_who_is_missing():
    with service_of(3) as service:
        clients = [client_of(service, n) for n in range(3)]
        together(lambda client: client.connect(), clients)
        with pytest.raises(DeadlineExceededError, match="processes 1-2 did not") as caught:
            clients[0].wait_at_barrier("b", 200)
        assert caught.value.missing == [1, 2]
        assert set(caught.value.phases) == {1, 2}
        together(lambda client: client.wait_at_barrier("b", 9000), clients)  # it can be used again
        together(lambda client: client.shutdown(), clients)
        clients[0].shutdown()


def test_a_registration_that_is_late_names_who_never_came():
    with service_of(4, cluster_register_timeout=0.3) as service:
        with pytest.raises(DeadlineExceededError, match="never registered") as caught:
            together(lambda n: client_of(service, n).connect(), [0, 2])
        assert caught.value.missing == [1, 3]
        clients = [client_of(service, n) for n in range(4)]
        together(lambda client: client.connect(), clients)
        together(lambda client: client.shutdown(), clients)


PEER = """
    import sys, time
    from devrt import xla_client
    client = xla_client.get_distributed_runtime_client(sys.argv[1], 1, init_timeout=20)
    client.connect()
    print("connected", flush=True)
    time.sleep(600)
"""


def started_peer(service):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PEER), service.address],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_a_lost_process_is_named_to_all_that_wait(name):
    with service_of(2, heartbeat_timeout=1.5) as service:
        reported, was_reported = [], threading.Event()

        def note(error):
            reported.append(error)
            was_reported.set()

        peer = started_peer(service)
        try:
            client = client_of(service, 0, heartbeat_timeout=1.5, missed_heartbeat_callback=note)
            client.connect()
            assert peer.stdout.readline() == "connected\n"
            errors = []

            def waiting(call):
                with pytest.raises(PeerLostError) as caught:
                    call()
                errors.append(caught.value)

            os.kill(peer.pid, getattr(signal, name))
            calls = [
                lambda: client.wait_at_barrier("b", 60_000),
                lambda: client.blocking_key_value_get("never", 60_000),
            ]
            together(waiting, calls, timeout=20)
            assert [error.processes for error in errors] == [[1], [1]]
            assert was_reported.wait(20)
            assert reported[0].processes == [1]
            client.key_value_set("still", "works")
            assert client.key_value_try_get("still") == "works"
            client.shutdown()
        finally:
            peer.kill()
            peer.communicate()


def test_a_lost_service_ends_what_waits():
    service = service_of(1)
    was_reported = threading.Event()
    client = client_of(
        service, 0, heartbeat_timeout=1, missed_heartbeat_callback=lambda _: was_reported.set()
    )
    client.connect()
    stop = threading.Timer(0.2, service.shutdown)
    stop.start()
    with pytest.raises(DistributedError):
        client.wait_at_barrier("b", 60_000, [0]) or client.blocking_key_value_get("k", 60_000)
    assert was_reported.wait(20)
    client.shutdown()
    client.shutdown()
    stop.join()


def test_wrong_processes_are_refused_and_the_job_goes_on():
    with service_of(1, token="secret", heartbeat_timeout=5) as service:
        client = client_of(service, 0, token="secret")
        client.connect()
        for token in (None, "wrong"):
            with pytest.raises(DistributedError) as caught:
                client_of(service, 0, token=token).connect()
            assert caught.value.code is StatusCode.UNAUTHENTICATED
        with pytest.raises(DistributedError) as caught:  # the id of a process that is there
            client_of(service, 0, token="secret").connect()
        assert caught.value.code is StatusCode.ALREADY_EXISTS
        with pytest.raises(InvalidArgumentError, match="process id 7"):
            client_of(service, 7, token="secret").connect()
        with pytest.raises(DistributedError) as caught:  # a message over the limit
            client.key_value_set_bytes("big", bytes(17 << 20))
        assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
        client.key_value_set("key", "value")
        refused = service.status()["refused"]
        assert refused == {"UNAUTHENTICATED": 2, "ALREADY_EXISTS": 1, "INVALID_ARGUMENT": 1}
        client.shutdown()


def test_an_address_that_others_reach_needs_protection():
    make = xla_client.get_distributed_runtime_service
    with pytest.raises(InvalidArgumentError, match="allow_remote"):
        make("0.0.0.0:0", 1)
    with pytest.raises(InvalidArgumentError, match="token"):
        make("0.0.0.0:0", 1, allow_remote=True)
    make("0.0.0.0:0", 1, allow_remote=True, token="secret").shutdown()
    with pytest.raises(InvalidArgumentError, match="host:port"):
        make("localhost", 1)
    with make("localhost:0", 1) as service, pytest.raises(DistributedError, match="in use"):
        make(service.address, 1)


def test_calls_before_connect_and_after_shutdown_are_errors():
    with service_of(1) as service:
        client = client_of(service, 0)
        for state in ("before", "after"):
            with pytest.raises(DistributedError, match="FAILED_PRECONDITION"):
                client.key_value_set("k", "v")
            with pytest.raises(DistributedError, match="FAILED_PRECONDITION"):
                client.wait_at_barrier("b", 100)
            if state == "before":
                client.connect()
                client.shutdown()


THEIR_CLIENT = """
    import sys
    from jaxlib import _jax
    client = _jax.get_distributed_runtime_client(
        sys.argv[1], 1, init_timeout=20, shutdown_timeout=20)
    client.connect()
    print(client.blocking_key_value_get("of/devrt", 9000), flush=True)
    client.key_value_set("of/jaxlib", "2")
    for _ in range(3):
        client.wait_at_barrier("again", 9000, [])
    client.shutdown()
"""


def test_a_client_of_jaxlib_joins_the_service():
    pytest.importorskip("jaxlib._jax", reason="jaxlib is not installed")
    with service_of(2) as service:
        command = [sys.executable, "-c", textwrap.dedent(THEIR_CLIENT), service.address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as theirs:
            client = client_of(service, 0)
            client.connect()
            client.key_value_set("of//devrt/", "1")
            assert client.blocking_key_value_get("of/jaxlib", 9000) == "2"
            assert client.key_value_dir_get("of") == [("of/devrt", "1"), ("of/jaxlib", "2")]
            for _ in range(3):
                client.wait_at_barrier("again", 9000)
            client.shutdown()
            assert theirs.communicate(timeout=20)[0] == "1\n"
        assert theirs.returncode == 0


THEIR_SERVICE = """
    import socket, sys
    from jaxlib import _jax
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    service = _jax.get_distributed_runtime_service(address, 1)
    print(address, flush=True)
    sys.stdin.read()
    service.shutdown()
"""


def test_the_client_joins_a_service_of_jaxlib():
    pytest.importorskip("jaxlib._jax", reason="jaxlib is not installed")
    command = [sys.executable, "-c", textwrap.dedent(THEIR_SERVICE)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as theirs:
        address = theirs.stdout.readline().strip()
        client = xla_client.get_distributed_runtime_client(address, 0, init_timeout=20)
        client.connect()
        client.key_value_set("a//b", "1")
        assert "ALREADY_EXISTS" in refusal(client.key_value_set, "a/b", "2")
        assert "NOT_FOUND" in refusal(client.key_value_try_get, "none")
        assert "DEADLINE_EXCEEDED" in refusal(client.blocking_key_value_get, "none", 100)
        assert client.key_value_dir_get("a") == [("a/b", "1")]
        assert [client.key_value_increment("n", n) for n in (2, 3)] == [2, 5]
        for _ in range(3):
            client.wait_at_barrier("again", 9000)
        assert set(client.get_live_nodes([0])) == {0}
        client.shutdown()
        theirs.communicate(timeout=20)
