"""One process of a job that works until its input ends, and reports each call in a line of JSON."""

import faulthandler
import json
import random
import signal
import sys
import threading
import time

from devrt import xla_client
from devrt.errors import PeerLostError

address, number, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
draw = random.Random(f"{seed}/{number}")
stop, is_over = threading.Event(), threading.Event()
faulthandler.register(signal.SIGUSR1, all_threads=True)


def watch_input():
    sys.stdin.read()
    stop.set()


def note_loss(error):
    report("callback", type(error).__name__)
    if not isinstance(error, PeerLostError):
        is_over.set()  # the service was away for longer than this process waits


def connected():
    client = xla_client.get_distributed_runtime_client(
        address,
        number,
        rpc_timeout=20,
        init_timeout=20,
        shutdown_timeout=5,
        heartbeat_timeout=4,
        missed_heartbeat_callback=note_loss,
    )
    client.connect()
    return client


lock = threading.Lock()


def report(what, error=None, seconds=0.0, **more):
    row = json.dumps({"what": what, "error": error, "seconds": seconds, **more})
    with lock:
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()


def violated(words):
    report("violation", words)


class Work:
    """Calls that are drawn; what was acknowledged is checked by later ones."""

    def __init__(self, client):
        self.client = client
        self.mark = f"{number}-{time.time_ns()}"  # of this process
        self.written = []

    def set(self):
        key = f"keys/{self.mark}/{len(self.written)}"
        self.client.key_value_set(key, key)
        self.written.append(key)

    def get(self):
        if self.written:
            key = draw.choice(self.written)
            if self.client.key_value_try_get(key) != key:
                violated(f"{key} has another value")

    def directory(self):
        expected = set(self.written)
        found = {key for key, _ in self.client.key_value_dir_get(f"keys/{self.mark}")}
        if not expected <= found:
            violated(f"{sorted(expected - found)} were acknowledged and are lost")

    def increment(self):
        self.client.key_value_increment("count", 1)

    def barrier(self):
        self.client.wait_at_barrier("all", 1500)

    def awaited(self):
        self.client.blocking_key_value_get("never", 200)


def main():
    threading.Thread(target=watch_input, daemon=True).start()
    work = Work(connected())
    report("connected")
    names = ["set"] * 4 + ["get"] * 3 + ["directory", "increment", "barrier", "barrier", "awaited"]
    while not stop.wait(0.01):
        name, began, lost = draw.choice(names), time.monotonic(), []
        try:
            getattr(work, name)()
            error = None
        except RuntimeError as caught:
            error, lost = type(caught).__name__, getattr(caught, "processes", [])
            if "NOT_FOUND" in str(caught) and name == "get":
                violated(str(caught))
        report(name, error, time.monotonic() - began)
        if number in lost or is_over.is_set():
            return  # this process was lost to the others; another is started in its place
    try:
        work.directory()
        work.client.shutdown()
    except RuntimeError as caught:
        report("shutdown", type(caught).__name__)
    report("end")


main()
