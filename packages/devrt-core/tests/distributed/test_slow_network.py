"""Jobs over slow networks: late and lossy ones by a proxy, narrow ones by the kernel."""

import queue
import re
import subprocess
import time

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from devrt.errors import DeadlineExceededError, DistributedError, PeerLostError
from slow_proxy import HOST, SlowProxy
from support import together

HEARTBEAT = 10
DELAY = 0.2


@pytest.fixture
def job():
    """Two connected clients beyond the network, and what is reported to them."""
    make, join = (
        xla_client.get_distributed_runtime_service,
        xla_client.get_distributed_runtime_client,
    )
    reported = queue.SimpleQueue()
    with make("127.0.0.1:0", 2, heartbeat_timeout=HEARTBEAT) as service:
        port = int(service.address.rpartition(":")[2])
        with SlowProxy([port], DELAY, 0.1) as proxy:
            how = {"init_timeout": 60, "shutdown_timeout": 60, "heartbeat_timeout": HEARTBEAT}
            clients = [
                join(f"{HOST}:{port}", n, missed_heartbeat_callback=reported.put, **how)
                for n in range(2)
            ]
            together(lambda client: client.connect(), clients, timeout=60)
            yield service, clients, reported
            assert proxy.lost
            assert proxy.forwarded > 10 * len(clients)


def is_there(client, key):
    """Return whether a key was set: what one process set before a barrier, all see after it."""
    try:
        client.key_value_try_get(key)
    except DistributedError:
        return False
    return True


@pytest.mark.faults
def test_nobody_is_lost_and_deadlines_hold(job):
    service, clients, reported = job
    began = time.monotonic()

    def work(client):
        name, number = f"of{clients.index(client)}", 0
        while True:  # for longer than a heartbeat, as the first of them sees it
            client.key_value_set(f"{name}/{number}", str(number))
            if client is clients[0] and time.monotonic() - began > 1.5 * HEARTBEAT:
                client.key_value_set("over", "")
            client.wait_at_barrier(f"b{number}", 60_000)
            number += 1
            if is_there(client, "over"):
                break
        assert len(client.key_value_dir_get(name)) == number

    together(work, clients, timeout=120)
    for call in (
        lambda: clients[0].wait_at_barrier("late", 500),
        lambda: clients[0].blocking_key_value_get("never", 500),
    ):
        began = time.monotonic()
        with pytest.raises(DeadlineExceededError):
            call()
        assert time.monotonic() - began >= 0.5
    assert {row["state"] for row in service.status()["processes"]} == {"connected"}
    assert reported.empty()
    clients[1]._session.close()  # without a word: that is a loss
    with pytest.raises(PeerLostError) as caught:
        clients[0].wait_at_barrier("alone", 60_000)
    assert caught.value.processes == [1]
    clients[0].shutdown()


# A network of its own, whose packets wait or are dropped beyond 2 Mbit/s.
NARROW = """
ip link set lo mtu 1500 up && tc qdisc add dev lo root tbf rate 2mbit burst 16kb latency 200ms ||
    exit 77
"$@"
status=$?
tc -s qdisc show dev lo >&2
exit $status
"""


@pytest.mark.faults
def test_a_narrow_network_delays_a_job_and_loses_nothing(launch):
    within = ["unshare", "--map-root-user", "--net", "sh", "-c", NARROW, "sh"]
    try:
        tried = subprocess.run([*within, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare (util-linux) is not installed")
    if tried.returncode:
        pytest.skip(f"no network of its own with tc's tbf here: {tried.stderr.strip()}")
    printed, done = launch(
        3,
        """
        from devrt.experimental import multihost_utils
        value = bytes(range(256)) * 400
        for number in range(3):
            client.key_value_set_bytes(f"of{me}/{number}", value)
            client.wait_at_barrier(f"b{number}", 60_000)
            assert all(client.blocking_key_value_get_bytes(f"of{n}/{number}", 60_000) == value
                       for n in range(3))
        rows = multihost_utils.process_allgather(np.full(10_000, me, np.float32))
        show(rows=np.unique(rows, axis=1).tolist())
        """,
        within=within,
    )
    assert done.returncode == 0, done.stderr
    assert printed == [['{"rows": [[0.0], [1.0], [2.0]]}']] * 3
    assert "lost" not in done.stderr
    held_back = re.search(r"overlimits (\d+)", done.stderr)
    assert held_back is not None, done.stderr
    assert int(held_back[1]) > 100
