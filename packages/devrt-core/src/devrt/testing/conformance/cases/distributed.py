"""Several processes with one set of devices: who has which, and what only their owner may do."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import threading
from collections.abc import Iterator
from multiprocessing.managers import BaseManager
from typing import Any

from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import (
    Failure,
    expect,
    expect_equal,
    not_applicable,
    require,
)
from devrt.testing.conformance.material import in_process, together
from devrt.testing.conformance.store import METHODS, Store
from devrt.testing.conformance.subject import Subject

DEVICES = "Client.devices: every device of every process, ordered by id"
LOCAL = "Client.local_devices: the devices that this process addresses, ordered by id"
NODES = 3
_MOST_NODES = 8
_LONGEST = 600  # characters of what came of one process


@contextlib.contextmanager
def _served_store() -> Iterator[tuple[int, str]]:
    """Serve a key-value store; yield its port and the key to it."""
    store, key = Store(), secrets.token_hex(8)

    class Manager(BaseManager):
        """Serves the store to other processes."""

    Manager.register("store", callable=lambda: store, exposed=METHODS)
    server: Any = Manager(("127.0.0.1", 0), key.encode()).get_server()
    server.stop_event = threading.Event()
    accepting = threading.Thread(target=server.accepter, daemon=True)
    accepting.start()
    try:
        yield server.address[1], key
    finally:
        server.listener.close()


_NODE = """
from multiprocessing.managers import BaseManager
from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError
from devrt.testing.conformance.store import METHODS
class Manager(BaseManager): pass
Manager.register("store", exposed=METHODS)
manager = Manager(("127.0.0.1", PORT), KEY); manager.connect(); store = manager.store()
def say(**what): print(json.dumps(what), flush=True)
try:
    client = subject.make_client(node_id=NODE, num_nodes=NODES, distributed_client=store)
except DevrtError as error:
    names = ("num_nodes", "node_id", "distributed_client")
    is_about_them = any(name in str(error) for name in names)
    found = (error, error.__cause__)  # the runtime wraps what a factory raises
    is_typed = any(isinstance(each, UnimplementedError) for each in found) or (
        isinstance(error, InvalidArgumentError) and is_about_them)
    say(refused=f"{type(error).__name__}: {error}", is_typed=is_typed); sys.exit()
local = client.local_devices()
"""

_DESCRIBED = """
def refused(call):
    try: call()
    except DevrtError as error: return "DevrtError"
    except BaseException as error: return type(error).__name__
    return "no error"
one = np.ones(1, np.float32)
others = [d for d in client.devices() if d.process_index != client.process_index()]
buffer = client.buffer_from_pyval(np.arange(4, dtype=np.int32) + NODE, local[-1])
what = dict(
    index=client.process_index(), count=client.device_count(),
    devices=[[d.id, d.process_index] for d in client.devices()],
    local=[d.id for d in local], read=np.asarray(buffer).tolist(),
    foreign=sorted({refused(lambda: client.buffer_from_pyval(one, d)) for d in others}),
    copied=sorted({refused(lambda: client.batched_copy_to_memory([buffer], [d])) for d in others}),
    memories=sum(len(d.addressable_memories()) for d in others),
    topology=len(client.topology()._make_compile_only_devices()),
)
client.close()
again = subject.make_client(node_id=NODE, num_nodes=NODES, distributed_client=store)
say(**what, again=[again.process_index(), again.device_count()])
store.key_value_set(f"end/{NODE}", "1")
for node in range(NODES): store.blocking_key_value_get(f"end/{node}", 20_000)
again.close()
"""


_COUNTED = """
client = subject.make_client()
print(1 + max(device.process_index for device in client.devices()), flush=True)
client.close()
"""


def _nodes(subject: Subject) -> list[dict[str, Any]]:
    """Return what each of several processes has seen.

    Not applicable where there are none, as the factory of each says by a typed refusal: a factory
    that breaks makes no clients either.
    """
    came = _answers(subject, NODES)
    if _are_all_refused(came) and (configured := _configured(subject)) not in (1, NODES):
        came = _answers(subject, configured)
    refusals = [each for each in came if "refused" in each]
    if _are_all_refused(came):
        why = refusals[0]["refused"]
        not_applicable(f"its factory makes no clients of {len(came)} processes: {why}")
    if refusals:
        wanted = f"clients of {len(came)} processes; or in each UnimplementedError, or "
        wanted += "InvalidArgumentError that names num_nodes"
        raise Failure(wanted, f"{len(refusals)} refusals: {refusals[0]['refused']}")
    if all(each.get("index") == 0 for each in came):
        not_applicable("its factory knows no num_nodes: each process is by itself")
    return came


def _are_all_refused(came: list[dict[str, Any]]) -> bool:
    return all("refused" in each and each["is_typed"] for each in came)


@functools.cache
def _configured(subject: Subject) -> int:
    """Return of how many processes the devices are that its options describe, as simulated ones."""
    count = int(in_process(subject, _COUNTED, 40, has_client=False))
    found = f"its options describe devices of {count} processes; a case starts {_MOST_NODES}"
    require(count <= _MOST_NODES, found)
    return count


@functools.cache  # the cases look at one run
def _answers(subject: Subject, nodes: int) -> list[dict[str, Any]]:
    came: list[dict[str, Any]] = [{} for _ in range(nodes)]
    failures: dict[int, Failure] = {}
    with _served_store() as (port, key):

        def run(node: int) -> None:
            facts = f"PORT, KEY, NODE, NODES = {port}, {key.encode()!r}, {node}, {nodes}\n"
            try:
                out = in_process(subject, facts + _NODE + _DESCRIBED, 40, has_client=False)
            except Failure as failure:
                failures[node] = failure
                return
            lines = out.splitlines()
            came[node] = json.loads(lines[-1]) if lines else {}

        together(run, nodes, None)
    if failures:  # of one that fails others may wait: what each did belongs together
        each = [f"process {n}: {failures[n].came[:_LONGEST]}" for n in sorted(failures)]
        raise Failure(f"{nodes} processes that end well", "; ".join(each))
    return came


@case("distributed", "each process sees the devices of all, and has its own", contract=DEVICES,
      deadline=60)  # fmt: skip
def devices_of_all_processes(subject: Subject) -> None:
    came = _nodes(subject)
    expect_equal([each["index"] for each in came], list(range(len(came))), "process_index()")
    for each in came:
        expect_equal(each["devices"], came[0]["devices"], "devices(), in each process")
        expect_equal(each["count"], len(each["devices"]), "device_count()")
        expect_equal(each["topology"], each["count"], "devices of the topology")
        mine = [number for number, process in each["devices"] if process == each["index"]]
        expect_equal(each["local"], mine, "local_devices(), by their process_index")
        expect(bool(mine), expected="a device of its own", came="none")
    ids = [number for number, _ in came[0]["devices"]]
    expect_equal(ids, sorted(set(ids)), "ids, each once and in order")


@case("distributed", "devices of another process take no buffer, and nothing hangs",
      contract=LOCAL, deadline=60)  # fmt: skip
def devices_of_others_take_nothing(subject: Subject) -> None:
    for each in _nodes(subject):
        number = each["index"]
        expect_equal(each["read"], [number, number + 1, number + 2, number + 3], "its own buffer")
        expect_equal(each["foreign"], ["DevrtError"], "what a put on each of them raises")
        expect_equal(each["copied"], ["DevrtError"], "what a copy to each of them raises")
        expect_equal(each["memories"], 0, "memories of other processes' devices")


@case(
    "distributed",
    "a second client of the same processes finds the others again",
    contract="Client.close: give all memory back; ClientFactory.factory: a new client each time",
    deadline=60,
)
def clients_are_made_again(subject: Subject) -> None:
    came = _nodes(subject)
    first = [[each["index"], each["count"]] for each in came]
    again = [each["again"] for each in came]
    expect_equal(again, first, "process_index() and device_count() of the second clients")
