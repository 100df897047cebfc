"""Arrays between real processes, which die, stop, and are others than they should be."""

import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import devrt
from certificates import certificates
from devrt import xla_client
from devrt.errors import (
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    PeerLostError,
    StatusCode,
)
from devrt.experimental import transfer

BEGIN = """
import sys, threading
import numpy as np
from devrt import xla_client
from devrt.experimental import transfer
import devrt
client = xla_client.make_cpu_client(num_devices=1)
def say(*words): print(*words, flush=True)
def block(): threading.Event().wait()
"""
OFFERS = """
server = transfer.start_transfer_server(client, **OPTIONS)
x = devrt.device_put(np.arange(1 << 20, dtype=np.float32), client.devices()[0])
offer = server.await_pull(1, [x, x])
say(server.address())
"""


@pytest.fixture(scope="module")
def client():
    with xla_client.make_cpu_client(num_devices=1) as made:
        yield made


@pytest.fixture
def process():
    """Start a script; what it prints is read line by line, and it is killed at the end."""
    started = []

    def start(text, *arguments, **options):
        head = f"OPTIONS = {options!r}\n{BEGIN}"
        command = [sys.executable, "-c", head + textwrap.dedent(text), *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


@pytest.fixture
def connect(client):
    """Connect to an address, with options of this side's server."""
    made = []

    def to(address, **options):
        server = transfer.start_transfer_server(client, **options)
        made.extend([server, server.connect(address)])
        return made[-1]

    yield to
    for one in reversed(made):
        one.close()


def line(process):
    return process.stdout.readline().strip()


WANTED = [devrt.ShapeDtypeStruct((1 << 20,), np.float32)] * 2


def test_another_process_is_pulled_from(process, connect):
    other = process(OFFERS + "offer.wait(60)\nsay('pulled')\nsys.stdin.read()")
    for x in connect(line(other)).pull(1, WANTED):
        np.testing.assert_array_equal(np.asarray(x), np.arange(1 << 20, dtype=np.float32))
    assert line(other) == "pulled"


def test_a_process_that_is_killed_midway_is_lost(process, connect):
    hangs = """
    from devrt.distributed.transfer import server as module
    elements = module._Region.elements
    read = []
    def second_hangs(region):
        read.append(region)
        if len(read) > 1:
            say("midway")
            block()
        return elements(region)
    module._Region.elements = second_hangs
    """
    other = process(textwrap.dedent(hangs) + OFFERS + "block()", transfer_size=4 << 20)
    connection = connect(line(other))
    errors = []

    def pull():
        try:
            connection.pull(1, WANTED)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=pull)
    thread.start()
    assert line(other) == "midway"
    other.send_signal(signal.SIGKILL)
    thread.join(60)
    (error,) = errors
    assert isinstance(error, PeerLostError)
    assert error.code == StatusCode.UNAVAILABLE
    assert "uuid 1" in str(error)
    with pytest.raises(PeerLostError):  # nothing listens there any more
        connection.pull(1, WANTED)


def test_what_a_killed_process_was_pulling_is_offered_still(client, process, connect):
    hangs = """
    from devrt.distributed.transfer import reading
    def hang(stream, target):
        say("midway")
        block()
    reading._fill = hang
    server = transfer.start_transfer_server(client)
    server.connect(sys.argv[1]).pull(1, devrt.ShapeDtypeStruct((3,), np.float64))
    """
    with transfer.start_transfer_server(client) as server:
        x = devrt.device_put(np.arange(3.0), client.devices()[0])
        offer = server.await_pull(1, x)
        other = process(hangs, server.address())
        assert line(other) == "midway"
        connection = connect(server.address())
        with pytest.raises(DeadlineExceededError, match="another process is pulling it"):
            connection.pull(1, x, timeout=0.1)
        other.send_signal(signal.SIGKILL)
        assert np.asarray(connection.pull(1, x)).tolist() == [0, 1, 2]
        offer.wait(10)


def test_an_interrupt_ends_a_pull(client, process):
    waits = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    server = transfer.start_transfer_server(client)
    try:
        say("pulling")
        server.connect(sys.argv[1]).pull(1, devrt.ShapeDtypeStruct((3,), np.float64), timeout=600)
    except KeyboardInterrupt:
        say("interrupted")
    """
    with transfer.start_transfer_server(client) as server:
        other = process(waits, server.address())
        assert line(other) == "pulling"
        other.send_signal(signal.SIGINT)
        assert line(other) == "interrupted"
        assert other.wait(60) == 0


def test_a_process_that_is_stopped_exceeds_the_deadline(process, connect):
    other = process(OFFERS + "say('again')\nblock()")
    connection = connect(line(other))
    line(other)
    other.send_signal(signal.SIGSTOP)
    with pytest.raises(DeadlineExceededError, match="silent, or slow"):
        connection.pull(1, WANTED, timeout=0.2)
    other.send_signal(signal.SIGCONT)
    assert len(connection.pull(1, WANTED)) == 2


def test_a_silent_process_counts_as_lost_after_the_bound(process, connect):
    other = process(OFFERS + "say('again')\nblock()")
    address = line(other)
    connection = connect(address, bounds=transfer.TransferBounds(stall_seconds=0.3))
    line(other)
    other.send_signal(signal.SIGSTOP)
    with pytest.raises(DeadlineExceededError, match="silent, or slow"):
        connection.pull(1, WANTED)
    other.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("ours", [{}, {"token": "wrong"}])
def test_who_has_not_the_token_is_refused(process, connect, ours):
    other = process(OFFERS + "block()", token="secret")
    with pytest.raises(DistributedError, match="UNAUTHENTICATED") as caught:
        connect(line(other), **ours).pull(1, WANTED)
    assert caught.value.code == StatusCode.UNAUTHENTICATED


def test_only_certificates_of_the_job_connect(process, connect, tmp_path):
    ours, others = certificates(tmp_path / "ours"), certificates(tmp_path / "others")
    prefix = {"mtls_peer_uri_prefix": "spiffe://job/"}
    address = line(process(OFFERS + "block()", **ours, **prefix))
    for wrong in ({}, others):
        with pytest.raises(PeerLostError):
            connect(address, **wrong).pull(1, WANTED, timeout=20)
    assert len(connect(address, **ours).pull(1, WANTED)) == 2
    strict = line(process(OFFERS + "block()", **ours, mtls_peer_uri_prefix="spiffe://other/"))
    with pytest.raises(PeerLostError):
        connect(strict, **ours).pull(1, WANTED, timeout=20)
    with pytest.raises(InvalidArgumentError, match="all of mtls_cert_file"):
        connect(address, mtls_cert_file=ours["mtls_cert_file"])


def test_certificates_that_are_renewed_count_for_new_connections(client, connect, tmp_path):
    old, new = certificates(tmp_path / "old"), certificates(tmp_path / "new")
    used = {name: str(tmp_path / Path(file).name) for name, file in old.items()}
    for name, file in old.items():
        shutil.copy(file, used[name])
    x = devrt.device_put(np.ones(3), client.devices()[0])
    with transfer.start_transfer_server(client, **used) as server:
        first = server.connect(server.address())
        server.await_pull(1, x)
        first.pull(1, x)
        for name, file in new.items():
            shutil.copy(file, used[name])
        server.await_pull(2, x)
        with pytest.raises(PeerLostError):
            connect(server.address(), **old).pull(2, x, timeout=20)
        first.pull(2, x)  # over the connection that it has
        server.await_pull(3, x)
        renewed = connect(server.address(), **new)
        assert np.asarray(renewed.pull(3, x)).tolist() == [1, 1, 1]
        first.close()


def test_processes_of_a_job_find_each_other_by_number(launch):
    printed, done = launch(
        2,
        """
        from devrt import xla_client
        from devrt.contract import transfer_server_of
        from devrt.experimental import transfer
        from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
        made = xla_client.make_cpu_client(
            distributed_client=client, node_id=me, num_nodes=2, num_devices=2,
            transfer_server_factory=transfer.make_transfer_server_interface_factory(token="t"))
        server = transfer_server_of(made)
        rows = NamedSharding(Mesh(np.array(made.devices()), ("rows",)), P("rows"))
        x = devrt.make_array_from_callback((8,), rows, lambda at: np.arange(8.0)[at])
        here = devrt.ShapeDtypeStruct((8,), np.float64)
        if me == 0:
            server.await_pull(1, devrt.device_put(np.arange(3), made.local_devices()[0])).wait(60)
            server.await_pull(2, x)
            client.wait_at_barrier("end", 60_000)
        else:
            connection = server.connect(0)
            pulled = connection.pull(1, devrt.ShapeDtypeStruct((3,), np.int64))
            show(pulled=np.asarray(pulled).tolist(), process=pulled.device.process_index)
            show(refused=refused(lambda: connection.pull(2, here)))
            client.wait_at_barrier("end", 60_000)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert printed[1][0] == '{"pulled": [0, 1, 2], "process": 1}'
    assert "holds 4 of the 8 elements" in printed[1][1]
