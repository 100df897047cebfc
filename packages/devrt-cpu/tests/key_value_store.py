"""A small key-value store for several processes, and a program that is one of them.

It is a `multiprocessing` manager: the store lives in a server process, and what a node holds is a
proxy that speaks to it over a socket. It has the three methods that
`devrt.contract.DistributedRuntimeClient` asks for.

    python key_value_store.py serve
    python key_value_store.py node PORT JSON
"""

import json
import sys
import threading
import time
from multiprocessing.managers import BaseManager

AUTHKEY = b"test"
METHODS = ("key_value_set", "blocking_key_value_get", "wait_at_barrier")


class Store:
    """Keys and values, with waiting; usable from any number of threads."""

    def __init__(self):
        self._changed = threading.Condition()
        self._values = {}
        self._waiting = {}

    def key_value_set(self, key, value, allow_overwrite=False):
        with self._changed:
            if key in self._values and not allow_overwrite:
                raise KeyError(f"ALREADY_EXISTS: {key}")
            self._values[key] = value
            self._changed.notify_all()

    def blocking_key_value_get(self, key, timeout_in_ms):
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, timeout_in_ms / 1000):
                raise TimeoutError(f"DEADLINE_EXCEEDED: {key} after {timeout_in_ms} ms")
            return self._values[key]

    def wait_at_barrier(self, barrier_id, timeout_in_ms, process_ids=None):
        deadline = time.monotonic() + timeout_in_ms / 1000
        for process in process_ids or []:
            left = max(0, deadline - time.monotonic())
            self.blocking_key_value_get(f"{barrier_id}/{process}", round(left * 1000))


STORE = Store()


class Manager(BaseManager):
    """Serves `STORE`."""


Manager.register("store", callable=lambda: STORE, exposed=METHODS)


def say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def serve():
    server = Manager(("127.0.0.1", 0), AUTHKEY).get_server()
    say(server.address[1])
    server.serve_forever()


def node(port, options):
    from devrt import xla_client
    from devrt.errors import DevrtError

    manager = Manager(("127.0.0.1", port), AUTHKEY)
    manager.connect()
    store = manager.store()  # type: ignore[attr-defined]
    try:
        clients = [
            xla_client.make_cpu_client(distributed_client=store, **(options | {"num_devices": n}))
            for n in options.pop("rounds")
        ]
    except DevrtError as error:
        missing = getattr(error, "missing_nodes", None)
        say({"error": type(error).__name__, "message": str(error), "missing": missing})
        return
    say([described(client) for client in clients])


def described(client):
    buffer = client.buffer_from_pyval(7, client.local_devices()[-1])
    return {
        "process": client.process_index(),
        "devices": [(d.id, d.process_index, d.local_hardware_id) for d in client.devices()],
        "local": [d.id for d in client.local_devices()],
        "addressable": [d.id for d in client.devices() if d.addressable_memories()],
        "buffer": [buffer.device.id, int(buffer.__array__())],
    }


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        node(int(sys.argv[2]), json.loads(sys.argv[3]))
