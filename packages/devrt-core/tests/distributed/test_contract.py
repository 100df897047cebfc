"""What keys and barriers do, the same over every engine, and between devrt's and jaxlib's sides."""

import itertools
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager, suppress

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from devrt._support.losses import lost_of
from devrt.errors import PeerLostError
from etcd_servers import EtcdServers
from jaxlib_processes import JaxlibClientProcess, JaxlibServiceProcess, python_with_jaxlib
from support import together

# The service, and whose client the first process has; the second's is devrt's.
ENGINES = {
    "embedded": ("embedded", "devrt"),
    "etcd": ("etcd-1", "devrt"),
    "etcd-of-three": ("etcd-3", "devrt"),
    "service-of-jaxlib": ("jaxlib", "devrt"),
    "client-of-jaxlib": ("embedded", "jaxlib"),
    "both-of-jaxlib": ("jaxlib", "jaxlib"),
}
_names = itertools.count()


@pytest.fixture(scope="module")
def etcd():
    """Servers by their number, which are started once."""
    started = {}

    def servers(size):
        if size not in started:
            started[size] = EtcdServers(size)
        return started[size]

    yield servers
    for one in started.values():
        one.close()


@contextmanager
def served(engine, size, etcd, **options):
    """Start the service of a job."""
    if engine == "jaxlib":
        with JaxlibServiceProcess(size, **options) as service:
            yield service
        return
    address = "localhost:0"
    if engine.startswith("etcd"):
        address = etcd(int(engine[-1])).address(f"test/{next(_names)}")
    with xla_client.get_distributed_runtime_service(address, size, **options) as service:
        yield service


def joined(service, number, maker, **more):
    options = {"init_timeout": 20, "shutdown_timeout": 20, **more}
    if maker == "jaxlib":
        return JaxlibClientProcess(service.address, number, **options)
    return xla_client.get_distributed_runtime_client(service.address, number, **options)


@pytest.fixture(params=ENGINES)
def pair(request, etcd):
    """Two connected clients, which meet at the end."""
    engine, maker = ENGINES[request.param]
    if "jaxlib" in (engine, maker) and python_with_jaxlib() is None:
        pytest.skip("jaxlib is not installed, and JAXLIB_PYTHON names no Python that has it")
    with served(engine, 2, etcd) as service:
        clients = [joined(service, 0, maker), joined(service, 1, "devrt")]
        together(lambda client: client.connect(), clients, timeout=30)
        yield clients
        together(lambda client: client.shutdown(), clients, timeout=30)
        if maker == "jaxlib":
            clients[0].close()


def refusal(call, *arguments):
    with pytest.raises(RuntimeError) as caught:
        call(*arguments)
    return str(caught.value)


PEER = """
    import sys, time
    from devrt import xla_client
    client = xla_client.get_distributed_runtime_client(
        sys.argv[1], 1, init_timeout=20, heartbeat_timeout=float(sys.argv[2]))
    client.connect()
    client.key_value_set("phase", "1")
    print("connected", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("engine", ["etcd-1", "jaxlib"])  # of devrt's: test_service.py
def test_a_lost_process_is_named_to_all_that_wait(engine, etcd):
    reported = queue.SimpleQueue()
    with served(engine, 2, etcd, heartbeat_timeout=2) as service:
        command = [sys.executable, "-c", textwrap.dedent(PEER), service.address, "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as peer:
            client = joined(
                service, 0, "devrt", heartbeat_timeout=2, missed_heartbeat_callback=reported.put
            )
            client.connect()
            assert peer.stdout.readline() == "connected\n"
            os.kill(peer.pid, signal.SIGKILL)

            def waiting(call):
                with pytest.raises(PeerLostError) as caught:
                    call()
                assert caught.value.processes == [1]

            calls = [
                lambda: client.wait_at_barrier("b", 60_000),
                lambda: client.blocking_key_value_get("never", 60_000),
            ]
            together(waiting, calls, timeout=30)
            assert reported.get(timeout=30).processes == [1]
            waiting(calls[1])  # a call that comes later waits for nobody
            with suppress(RuntimeError):  # jaxlib's service refuses those that are left
                client.shutdown()


def test_keys(pair):
    for mine, other in (pair, pair[::-1]):
        name = f"of{pair.index(mine)}"
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
        other.key_value_delete(name)
        assert mine.key_value_dir_get(name) == []
        assert mine.key_value_try_get(f"{name}2") == "outside"


def test_numbers(pair):
    mine, other = pair
    assert [mine.key_value_increment("n", n) for n in (2, 3)] == [2, 5]
    mine.key_value_set("text", "text")
    assert "FAILED_PRECONDITION" in refusal(other.key_value_increment, "text", 1)

    def count(client):
        for _ in range(20):
            client.key_value_increment("all", 1)

    together(count, pair)
    assert mine.key_value_try_get("all") == "40"


@pytest.mark.parametrize("value", [b"", bytes(range(256)), bytes(range(250)) * 20_000])
def test_values_of_any_bytes(pair, value):
    mine, other = pair
    for key in ("kéy/😀", 'a"b\\c\n\x01 %s', "." * 200):
        mine.key_value_set_bytes(key, value)
        assert other.blocking_key_value_get_bytes(key, 9000) == value
        assert other.key_value_try_get_bytes(key) == value
    other.key_value_set_bytes("kéy/😀", b"short", True)
    assert mine.key_value_dir_get_bytes("kéy") == [("kéy/😀", b"short")]


def test_a_key_is_awaited(pair):
    mine, other = pair
    began = threading.Event()
    found = []

    def wait():
        began.set()
        found.append(other.blocking_key_value_get("later", 20_000))

    waiter = threading.Thread(target=wait)
    waiter.start()
    began.wait()
    mine.key_value_set("later", "now")
    waiter.join(20)
    assert found == ["now"]


def test_barriers(pair):
    for ids in ([], [0, 1]) * 3:
        together(lambda client, ids=ids: client.wait_at_barrier("again", 9000, ids), pair)
    pair[0].wait_at_barrier("alone", 9000, [0])
    assert "DEADLINE_EXCEEDED" in refusal(pair[1].wait_at_barrier, "late", 100)
    # At a service of jaxlib's this is a barrier of those that are named.
    together(lambda client: client.get_live_nodes([0, 1]), pair, timeout=30)
    assert set(pair[1].get_live_nodes([1])) == {1}


def test_nobody_passes_a_barrier_before_the_last_has_come(pair):
    mine, other = pair

    def first():
        mine.wait_at_barrier("order", 20_000)
        return other.key_value_try_get("came")

    passed = []
    waiter = threading.Thread(target=lambda: passed.append(first()))
    waiter.start()
    other.key_value_set("came", "yes")
    other.wait_at_barrier("order", 20_000)
    waiter.join(20)
    assert passed == ["yes"]


@pytest.mark.parametrize("engine", ["embedded", "etcd-1"])
def test_a_process_that_leaves_is_not_lost(engine, etcd):
    with served(engine, 2, etcd) as service:
        clients = [joined(service, number, "devrt") for number in range(2)]
        together(lambda client: client.connect(), clients, timeout=30)
        leaving = threading.Thread(target=clients[1].shutdown)
        leaving.start()
        phases = {}
        while phases.get("state") != "leaving":
            phases = next(row for row in service.status()["processes"] if row["process"] == 1)
        assert set(clients[0].get_live_nodes([0, 1])) == {0, 1}
        assert lost_of(clients[0], [0, 1]) == []
        clients[0].shutdown()
        leaving.join(30)
