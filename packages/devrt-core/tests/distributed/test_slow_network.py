"""A job over a network that takes 200 ms each way and loses a tenth, by a proxy."""

import queue
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
