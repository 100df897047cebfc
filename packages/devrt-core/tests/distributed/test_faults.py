"""Processes that die, stop, come again and end without a word, over devrt's engines."""

import itertools
import os
import queue
import signal
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from devrt.errors import DistributedError, PeerLostError
from etcd_servers import EtcdServers
from support import together

_names = itertools.count()
HEARTBEAT = 2  # seconds; etcd takes no shorter lease

PEER = """
    import json, os, sys
    from devrt import xla_client
    def say(*words):  # one write: the callback's thread writes, too
        sys.stdout.write(" ".join(map(str, words)) + "\\n")
        sys.stdout.flush()
    address, number = sys.argv[1], int(sys.argv[2])
    client = xla_client.get_distributed_runtime_client(
        address, number, init_timeout=20, shutdown_timeout=20, heartbeat_timeout=2,
        missed_heartbeat_callback=lambda error: say(type(error).__name__),
        **json.loads(sys.argv[3]))
    client.connect()
    say("connected")
    for line in sys.stdin:
        try:
            say(eval(line))
        except RuntimeError as error:
            processes = getattr(error, "processes", None)
            say(type(error).__name__, error.code.name, processes)
"""


class Peer:
    """A process with a client, which evaluates what it is given."""

    def __init__(self, service, number, options="{}"):
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PEER), service.address, str(number), options],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
            text=True,
        )

    def begin(self, text):
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def line(self):
        return self.process.stdout.readline().strip()

    def result(self, text):
        self.begin(text)
        return self.line()

    def send(self, name):
        os.kill(self.process.pid, getattr(signal, name))

    def ended(self):
        """Close its input, and return its exit status."""
        self.process.stdin.close()
        return self.process.wait(30)


@pytest.fixture(scope="module")
def etcd():
    servers = EtcdServers()
    yield servers
    servers.close()


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.faults)])
def service_of(request):
    """Start services at an engine, with a short heartbeat."""
    started = []

    def make(size, **options):
        address = "localhost:0"
        if request.param == "etcd":
            address = request.getfixturevalue("etcd").address(f"faults/{next(_names)}")
        service = xla_client.get_distributed_runtime_service(
            address, size, heartbeat_timeout=HEARTBEAT, **options
        )
        started.append(service)
        return service

    yield make
    for service in started:
        service.shutdown()


@pytest.fixture
def peers():
    """Start processes; end those that are left."""
    started = []

    def start(service, number, options="{}"):
        started.append(Peer(service, number, options))
        return started[-1]

    yield start
    for peer in started:
        with peer.process:
            peer.process.kill()


def joined(service, number, **options):
    defaults = {"init_timeout": 20, "shutdown_timeout": 20, "heartbeat_timeout": HEARTBEAT}
    return xla_client.get_distributed_runtime_client(
        service.address, number, **{**defaults, **options}
    )


def test_a_process_that_was_stopped_learns_that_it_was_lost(service_of, peers):
    service = service_of(2)
    reported = queue.SimpleQueue()
    client = joined(service, 0, missed_heartbeat_callback=reported.put)
    peer = peers(service, 1)
    client.connect()
    assert peer.line() == "connected"
    assert peer.result('client.wait_at_barrier("alone", 9000, [1])') == "None"
    peer.begin('client.blocking_key_value_get("never", 60000)')
    peer.send("SIGSTOP")
    assert reported.get(timeout=30).processes == [1]
    peer.send("SIGCONT")
    lines = {peer.line(), peer.line()}
    assert lines == {"PeerLostError", "PeerLostError UNAVAILABLE [1]"}
    assert peer.result('client.key_value_set("k", "v")').startswith("PeerLostError")
    assert peer.result("client.shutdown()") == "None"
    assert peer.ended() == 0
    client.key_value_set("still", "works")
    client.shutdown()
    client.shutdown()


def test_who_outlives_a_loss_stays_alive(peers):
    with xla_client.get_distributed_runtime_service(
        "localhost:0", 2, heartbeat_timeout=HEARTBEAT
    ) as service:
        client, peer = joined(service, 0), peers(service, 1)
        client.connect()
        assert peer.line() == "connected"
        peer.send("SIGKILL")
        with pytest.raises(PeerLostError):
            client.blocking_key_value_get("never", 60_000)
        age, former = 0.0, -1.0
        while age >= former:  # until there is another sign of life
            process = service.status()["processes"][0]
            assert process["state"] == "connected"
            age, former = process["heartbeat_age"], age
        assert list(client.get_live_nodes([])) == [0]
        client.shutdown()


STOPPABLE = """
    import sys
    from devrt import xla_client
    service = xla_client.get_distributed_runtime_service("localhost:0", 1, heartbeat_timeout=60)
    print(service.address, flush=True)
    sys.stdin.readline()
"""


def test_no_call_waits_for_a_service_that_is_lost():
    command = [sys.executable, "-c", textwrap.dedent(STOPPABLE)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        address = process.stdout.readline().strip()
        reported = queue.SimpleQueue()
        client = xla_client.get_distributed_runtime_client(
            address, 0, rpc_timeout=600, heartbeat_timeout=1,
            missed_heartbeat_callback=reported.put)  # fmt: skip
        client.connect()
        process.send_signal(signal.SIGSTOP)
        loss = reported.get(timeout=30)
        for call in (
            lambda: client.key_value_try_get("k"),
            lambda: client.key_value_set("k", "v"),
            lambda: client.wait_at_barrier("b", 600_000),
        ):
            with pytest.raises(DistributedError) as caught:
                call()
            assert caught.value.message == loss.message
        client.shutdown()
        process.kill()


def test_what_a_process_did_last_is_in_the_error(service_of, peers):
    service = service_of(2)
    client, peer = joined(service, 0), peers(service, 1)
    client.connect()
    assert peer.line() == "connected"
    together(
        lambda work: work(),
        [
            lambda: client.wait_at_barrier("loaded", 20_000),
            lambda: peer.result('client.wait_at_barrier("loaded", 20000)'),
        ],
    )
    with pytest.raises(TimeoutError, match="process 1 did not") as caught:
        client.wait_at_barrier("trained", 1500)
    assert caught.value.missing == [1]
    assert caught.value.phases == {1: "after barrier 'loaded'"}
    peer.send("SIGKILL")
    with pytest.raises(PeerLostError) as caught:
        client.wait_at_barrier("trained", 60_000)
    assert caught.value.processes == [1]
    assert caught.value.phases == {1: "after barrier 'loaded'"}
    client.shutdown()


def test_a_lost_process_comes_again_where_that_is_allowed(service_of, peers):
    service = service_of(2, recoverable=True)
    client, peer = joined(service, 0), peers(service, 1)
    client.connect()
    assert peer.line() == "connected"
    client.key_value_set("state", "kept")
    peer.send("SIGKILL")
    with pytest.raises(PeerLostError):
        client.wait_at_barrier("b", 60_000)
    assert set(client.get_live_nodes([0, 1])) == {0}
    again = peers(service, 1)
    assert again.line() == "connected"
    assert again.result('client.key_value_try_get("state")') == "kept"
    again.begin('client.wait_at_barrier("b", 20000)')
    client.wait_at_barrier("b", 20_000)
    assert again.line() == "None"
    again.begin("client.shutdown()")
    client.shutdown()
    assert again.ended() == 0


@pytest.mark.faults
def test_a_lost_process_may_not_come_again_otherwise(service_of, peers):
    service = service_of(2)
    reported = queue.SimpleQueue()
    client = joined(service, 0, missed_heartbeat_callback=reported.put)
    peer = peers(service, 1)
    client.connect()
    assert peer.line() == "connected"
    peer.send("SIGKILL")
    assert reported.get(timeout=30).processes == [1]
    with pytest.raises(DistributedError, match="not recoverable"):
        joined(service, 1).connect()
    client.shutdown()


@pytest.mark.faults
def test_shutdown_on_destruction_leaves_and_its_absence_does_not(service_of, peers):
    for leaves in (True, False):
        service = service_of(2)
        client = joined(service, 0)
        options = '{"shutdown_on_destruction": true}' if leaves else "{}"
        peer = peers(service, 1, options)
        client.connect()
        assert peer.line() == "connected"
        peer.process.stdin.close()  # it ends, without a call of shutdown
        if leaves:
            client.shutdown()
        else:
            with pytest.raises(PeerLostError):
                client.wait_at_barrier("b", 60_000)
            client.shutdown()
        assert peer.process.wait(30) == 0


def test_a_process_aborts_where_that_is_wanted(service_of, peers):
    service = service_of(2)
    client = joined(service, 0)
    peer = peers(service, 1, '{"abort_on_loss": true}')
    client.connect()
    assert peer.line() == "connected"
    client._session.close()  # this one ends without a word
    assert peer.line() == "PeerLostError"  # its callback comes first
    assert peer.process.wait(30) == -signal.SIGABRT
    assert "aborts: UNAVAILABLE" in peer.process.stderr.read()
