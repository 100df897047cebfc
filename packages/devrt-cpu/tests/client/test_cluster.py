"""Clients of several processes that tell each other of their devices."""

import gc
import importlib.util
import json
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import devrt_cpu
from devrt import xla_client
from devrt.errors import (
    DeadlineExceededError,
    DevrtError,
    DistributedError,
    InvalidArgumentError,
    InvalidTypeError,
)
from devrt_cpu import make_cpu_client
from support import python, together

FILE = Path(__file__).parents[1] / "key_value_store.py"
SOON = 0.005  # minutes


def _load():
    spec = importlib.util.spec_from_file_location("devrt_key_value_store", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Store = _load().Store


@pytest.fixture
def port():
    command = [sys.executable, str(FILE), "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.terminate()


def run_nodes(port, nodes):
    """Run one process for each node; return what each printed."""
    children = [
        subprocess.Popen(
            [sys.executable, str(FILE), "node", str(port), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for options in nodes
    ]
    outputs = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * len(nodes), outputs
    return [json.loads(out) for out, _ in outputs]


@pytest.mark.parametrize("counts", [(2, 2), (3, 1, 2)])
def test_processes_see_each_others_devices(port, counts):
    nodes = [
        {"node_id": node, "num_nodes": len(counts), "rounds": [count, 1]}
        for node, count in enumerate(counts)
    ]
    expected = [
        [sum(counts[:node]) + local, node, local]
        for node, count in enumerate(counts)
        for local in range(count)
    ]
    for node, (first, second) in enumerate(run_nodes(port, nodes)):
        mine = [device for device, process, _ in expected if process == node]
        assert first["process"] == node
        assert first["devices"] == expected
        assert first["local"] == first["addressable"] == mine
        assert first["buffer"] == [mine[-1], 7]
        # Another client of the same processes reads its own keys, not the first client's.
        assert second["devices"] == [[n, n, 0] for n in range(len(counts))]


def test_missing_processes_are_named_by_those_that_came(port):
    timeouts = {
        "get_local_topology_timeout_minutes": 0.05,
        "get_global_topology_timeout_minutes": 1,
    }
    nodes = [{"node_id": node, "num_nodes": 4, "rounds": [1]} | timeouts for node in (0, 2)]
    for answer in run_nodes(port, nodes):
        assert answer["error"] == "DeadlineExceededError"
        assert answer["missing"] == [1, 3]
        assert "node 1, 3 did not publish" in answer["message"]


def in_threads(store, nodes):
    """Make one client for each node, each in a thread of its own; return clients and errors."""
    answers = [None] * len(nodes)

    def make(index):
        try:
            answers[index] = make_cpu_client(distributed_client=_Own(store), **nodes[index])
        except DevrtError as error:
            answers[index] = error

    together(make, range(len(nodes)))
    return answers


class _Own:
    """One process's own object for a store that several share."""

    def __init__(self, store):
        self.key_value_set = store.key_value_set
        self.blocking_key_value_get = store.blocking_key_value_get
        self.wait_at_barrier = store.wait_at_barrier


def test_without_node_0_the_others_name_it():
    (error,) = in_threads(
        Store(), [{"node_id": 1, "num_nodes": 3, "get_global_topology_timeout_minutes": SOON}]
    )
    assert isinstance(error, DeadlineExceededError)
    assert error.data["missing_nodes"] == (0, 2)
    assert isinstance(error, TimeoutError)


def test_processes_that_do_not_agree_are_reported(port):
    answers = in_threads(
        Store(),
        [
            {"node_id": 0, "num_nodes": 2, "get_local_topology_timeout_minutes": 5},
            {"node_id": 1, "num_nodes": 3, "get_global_topology_timeout_minutes": 5},
        ],
    )
    for error in answers:
        assert isinstance(error, DistributedError)
        assert "node 1 was made with num_nodes=3, node 0 with 2" in str(error)


@pytest.mark.parametrize(("name", "value"), [("version", "0.0.9"), ("platform", "gpu")])
def test_a_process_of_another_kind_is_named_to_all(name, value):
    store = Store()
    facts = {
        "nodes": 2,
        "platform": "cpu",
        "version": devrt_cpu.__version__,
        "devices": [[0, "cpu"]],
    }
    other = json.dumps(facts | {name: value})
    store.key_value_set("devrt/cpu/topology/0/node/1", other)
    for node in (0, 1):  # the second one reads what process 0 published
        with pytest.raises(DistributedError, match=f"node 1 has {name} '{value}'") as caught:
            make_cpu_client(distributed_client=_Own(store), node_id=node, num_nodes=2)
        assert caught.value.data["process"] == 1


HEAD = f'"platform": "cpu", "version": "{devrt_cpu.__version__}"'


@pytest.mark.parametrize(
    "value",
    [
        "",
        "[]",
        "\x00",
        *(
            '{"nodes": 1, ' + HEAD + ', "devices": ' + devices + "}"
            for devices in ("0", "[]", "[[0]]", '[[-1, "cpu"]]', '[["0", "cpu"]]', "[[0, 1]]", "{}")
        ),
    ],
)
def test_what_another_program_wrote_is_refused(value):
    class Lying(Store):  # type: ignore[misc,valid-type]
        def blocking_key_value_get(self, key, timeout_in_ms):
            return value

    for node in (0, 1):
        with pytest.raises(DistributedError, match="published"):
            make_cpu_client(distributed_client=Lying(), node_id=node, num_nodes=2 if node else 1)


@pytest.mark.parametrize("method", ["key_value_set", "blocking_key_value_get"])
def test_a_store_that_fails_is_reported_with_its_error(method):
    store = Store()

    def fail(*_, **__):
        raise OSError("connection refused")

    setattr(store, method, fail)
    with pytest.raises(DistributedError, match="OSError: connection refused") as caught:
        xla_client.make_cpu_client(distributed_client=store)
    assert isinstance(caught.value.__cause__, OSError)


def test_errors_of_a_foreign_store_count_as_deadlines_by_code_or_text():
    class Foreign(Store):  # type: ignore[misc,valid-type]
        def blocking_key_value_get(self, key, timeout_in_ms):
            if key not in self._values:
                raise RuntimeError("DEADLINE_EXCEEDED: no such key")
            return self._values[key].encode()  # some stores return bytes

    with pytest.raises(DeadlineExceededError) as caught:
        xla_client.make_cpu_client(distributed_client=Foreign(), num_nodes=2)
    assert caught.value.data["missing_nodes"] == (1,)
    with make_cpu_client(distributed_client=Foreign(), num_devices=3) as client:
        assert client.device_count() == 3


def test_a_store_without_the_methods_is_refused():
    with pytest.raises(InvalidTypeError, match="distributed_client") as caught:
        xla_client.make_cpu_client(distributed_client=object())  # type: ignore[arg-type]
    assert caught.value.data["missing"]


def test_what_would_be_ignored_is_refused():
    with pytest.raises(InvalidTypeError, match=r"make_communicator.*builtin_function"):
        xla_client.make_cpu_client(collectives=print)


@pytest.mark.parametrize(
    ("value", "error"),
    [(0, InvalidArgumentError), (-1, InvalidArgumentError), ("2", InvalidTypeError)],
)
@pytest.mark.parametrize("which", ["local", "global"])
def test_timeouts_that_are_none(which, value, error):
    name = f"get_{which}_topology_timeout_minutes"
    with pytest.raises(error, match=name):
        make_cpu_client(distributed_client=Store(), **{name: value})


def test_a_wrong_number_is_refused_before_the_others_are_reported():
    store = Store()
    with pytest.raises(InvalidArgumentError, match="node_id"):
        make_cpu_client(distributed_client=store, node_id=2, num_nodes=2)
    assert store._values == {}


def test_the_store_is_kept_and_let_go():
    store = Store()
    client = xla_client.make_cpu_client(distributed_client=store)
    assert client.distributed_client is store
    plain = xla_client.make_cpu_client()
    assert plain.distributed_client is None

    device = client.devices()[0]
    alive = weakref.ref(store)
    del client, store
    gc.collect()
    assert alive() is device.client.distributed_client  # a device keeps its client
    del device
    gc.collect()
    plain.buffer_from_pyval(1)  # releases what native code queued
    assert alive() is None


def test_a_store_that_refers_to_its_client_is_collected():
    store = Store()
    store.client = xla_client.make_cpu_client(distributed_client=store)
    alive = weakref.ref(store)
    del store
    gc.collect()
    assert alive() is None


def test_a_store_whose_client_a_buffer_keeps_is_not_cleared():
    store = Store()
    store.client = xla_client.make_cpu_client(distributed_client=store)
    buffer = store.client.buffer_from_pyval(1.0)
    del store
    gc.collect()
    kept = buffer.device.client.distributed_client
    assert isinstance(kept, Store)
    assert kept._values is not None


LEAKS = """
from devrt import xla_client
class Store:
    def __init__(self): self.values = {}
    def key_value_set(self, key, value, allow_overwrite=False): self.values[key] = value
    def blocking_key_value_get(self, key, timeout_in_ms): return self.values[key]
    def wait_at_barrier(self, *arguments): pass
    def __del__(self): print("released")
client = xla_client.make_cpu_client(distributed_client=Store())
buffer, devices = client.buffer_from_pyval(1.0), client.devices()
"""


PROGRAM = "func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"


@pytest.mark.parametrize(
    "last",
    [
        "",
        "del client, devices",
        "del client, buffer",
        f"program = client.compile_and_load('{PROGRAM}'); del client, buffer, devices",
    ],
)
def test_a_store_of_a_users_script_leaks_nothing_at_exit(last):
    done = python(LEAKS + last)
    assert (done.returncode, done.stdout, done.stderr) == (0, "released\n", "")


def test_without_a_store_every_node_is_taken_to_be_alike():
    client = xla_client.make_cpu_client(node_id=1, num_nodes=3, num_devices=2)
    assert [d.process_index for d in client.devices()] == [0, 0, 1, 1, 2, 2]
    assert [d.id for d in client.local_devices()] == [2, 3]
    client.close()
