"""Services and clients of a cluster: who is late or lost, and who is refused."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import suppress

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

import grpc

from certificates import certificates
from devrt import xla_client
from devrt.distributed import status
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


@pytest.mark.parametrize("times", [{}, {"shutdown_timeout": 0.3}])
def test_a_shutdown_that_is_late_names_who_did_not_come(times):
    # The service has the process's time, or the same itself: its error says more.
    with service_of(2, **times) as service:
        clients = [client_of(service, n, shutdown_timeout=0.3) for n in range(2)]
        together(lambda client: client.connect(), clients)
        with pytest.raises(DeadlineExceededError, match="process 1 did not") as caught:
            clients[0].shutdown()
        assert caught.value.missing == [1]
        assert service.status()["processes"][0]["state"] == "left"
        clients[1].shutdown()


WAITER = """
    import json, signal, sys
    from devrt import xla_client
    client = xla_client.get_distributed_runtime_client(
        sys.argv[1], 1, init_timeout=20, heartbeat_timeout=60, **json.loads(sys.argv[2]))
    client.connect()
    print("connected", flush=True)
    try:
        client.wait_at_barrier("b", 60_000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    sys.stdin.readline()
    client.wait_at_barrier("b", 60_000)
    print("passed", flush=True)
    client.shutdown()
"""


@pytest.mark.parametrize("over_grpc", [False, True])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_who_is_gone_from_a_barrier_has_not_come(tmp_path, name, over_grpc):
    files = certificates(tmp_path / "files") if over_grpc else {}
    with service_of(2, heartbeat_timeout=60, **files) as service:
        client = client_of(service, 0, heartbeat_timeout=60, shutdown_timeout=0.1, **files)
        command = [sys.executable, "-c", textwrap.dedent(WAITER), service.address]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, json.dumps(files)], **pipes) as peer:
            client.connect()
            assert peer.stdout.readline() == "connected\n"
            while not service.status()["waits"]:
                assert peer.poll() is None
            peer.send_signal(getattr(signal, name))
            while service.status()["waits"]:
                assert service.status()["processes"][1]["state"] == "connected"
            if name == "SIGKILL":
                with pytest.raises(DeadlineExceededError, match="gone from barrier 'b'"):
                    client.wait_at_barrier("b", 100)
            else:
                assert peer.stdout.readline() == "interrupted\n"
                peer.stdin.write("go on\n")
                peer.stdin.close()
                client.wait_at_barrier("b", 60_000)
                assert peer.stdout.readline() == "passed\n"
            with suppress(DeadlineExceededError):
                client.shutdown()


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


def test_a_folder_without_a_socket_is_an_error_of_the_service(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 120)  # longer than the path of a socket may be
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(DistributedError, match="TMPDIR"):
        service_of(1)


@pytest.mark.parametrize("address", ["[::1", "[::1:5", "::1]:5", "[]:5", "a[b]:5", "[[::1]]:5"])
def test_an_address_whose_brackets_are_wrong_is_refused_at_once(address):
    for make, size in (
        (xla_client.get_distributed_runtime_client, 0),
        (xla_client.get_distributed_runtime_service, 1),
    ):
        with pytest.raises(InvalidArgumentError, match="is no address"):
            make(address, size)


def test_what_could_not_count_is_refused():
    with pytest.raises(InvalidArgumentError, match="heartbeat_timeout must be more than 0"):
        service_of(1, heartbeat_timeout=0)
    with pytest.raises(InvalidArgumentError, match="heartbeat_timeout must be more than 0"):
        xla_client.get_distributed_runtime_client("localhost:1", 0, heartbeat_timeout=0)
    with pytest.raises(InvalidArgumentError, match="mtls_peer_uri_prefix is checked in cert"):
        service_of(1, token="secret", mtls_peer_uri_prefix="spiffe://job/")


def test_a_key_that_is_not_set_is_named_and_lists_are_no_longer_than_the_job():
    with service_of(1) as service:
        client = client_of(service, 0)
        client.connect()
        with pytest.raises(DeadlineExceededError, match=r"key 'a/b' was not set within 0\.01 s"):
            client.blocking_key_value_get("a//b", 10)
        assert set(client.get_live_nodes([0, 0])) == {0}
        client.wait_at_barrier("b", 20_000, [0, 0])
        for call in (
            lambda: client._session.alive([0] * 2),
            lambda: client._session.barrier("b", 1, [0] * 2),
        ):
            with pytest.raises(InvalidArgumentError, match="2 process ids are given"):
                call()
        client.shutdown()


def test_a_status_that_is_refused_without_words_is_an_error_with_some():
    class Refusal:
        def code(self):
            return grpc.StatusCode.UNIMPLEMENTED

        def details(self):
            return ""

    words = str(status._error("localhost:1", Refusal()))
    assert "gave no status. It is not devrt's" in words


def test_a_service_that_ends_leaves_no_connection_open():
    service = service_of(2)
    port = int(service.address.rpartition(":")[2])
    made, is_over = [], threading.Event()

    def connect():
        while not is_over.is_set():
            with suppress(OSError):
                made.append(socket.create_connection(("localhost", port), timeout=20))

    threads = [threading.Thread(target=connect) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(made) < 100:
        is_over.wait(0.001)
    service.shutdown()
    is_over.set()
    for thread in threads:
        thread.join()
    for one in made:
        with one, suppress(ConnectionError):
            assert one.recv(1) == b""  # one that is left open waits here
