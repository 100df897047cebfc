"""A job of as many processes as a large one has, each a real one."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client

SCRIPT = Path(__file__).with_name("many_processes.py")
LONG = 1200  # seconds
# In each run, and with the other tests that take long.
SIZES = [(24, 3), pytest.param(512, 17, marks=pytest.mark.faults)]


@pytest.fixture
def processes():
    """Start processes of a job; end those that are left."""
    started = []

    def start(service, numbers):
        command = [sys.executable, str(SCRIPT), service.address, *map(str, numbers)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def service_of(size):
    return xla_client.get_distributed_runtime_service(
        "localhost:0",
        size,
        heartbeat_timeout=LONG,
        cluster_register_timeout=LONG,
        shutdown_timeout=LONG,
    )


def outcomes(process, count):
    """Return what each process printed."""
    return [json.loads(process.stdout.readline()) for _ in range(count)]


@pytest.mark.parametrize(("size", "_"), SIZES)
def test_all_connect_meet_and_leave(processes, size, _):
    with service_of(size) as service:
        found = outcomes(processes(service, range(size)), size)
        assert found == [{"error": None}] * size
        assert {row["state"] for row in service.status()["processes"]} == {"left"}


@pytest.mark.parametrize(("size", "absent"), SIZES)
def test_those_that_do_not_come_are_named_to_all_others(processes, size, absent):
    missing = [7 + number * (size // absent) for number in range(absent)]
    present = [number for number in range(size) if number not in missing]
    with service_of(size) as service:
        came = threading.Semaphore(0)
        service._cluster.on_change = lambda node: came.release()
        process = processes(service, present)
        for _ in present:
            assert came.acquire(timeout=LONG)
        service._cluster.clock = lambda: time.monotonic() + LONG  # the time is over
        found = outcomes(process, len(present))
    expected = {"error": "DeadlineExceededError", "missing": missing}
    assert found == [expected] * len(present)
