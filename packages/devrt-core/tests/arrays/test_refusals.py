"""Deleted arrays, devices of other processes, endless trees: what failed, and at which leaf."""

import pickle

import numpy as np
import pytest

import devrt
from devrt.errors import ClosedError, DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.sharding import DeviceList, Mesh, NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P

devrt_cpu = pytest.importorskip("devrt_cpu")

X = np.arange(8, dtype=np.float32)

# What is done with an array on one device, and how the error must begin.
USES = {
    "pickle": pickle.dumps,
    "copy": devrt.Array.copy,
    "device_put": devrt.device_put,
    r"leaf x\['a'\]\[1\]: device_put": lambda a: devrt.device_put({"a": [1.0, a]}),
    r"leaf x\['a'\]\[1\]: block_until_ready": lambda a: devrt.block_until_ready({"a": [1.0, a]}),
    "leaf x: device_get": lambda a: devrt.device_get(a, out=np.zeros_like(X)),
    "leaf x: device_put_replicated": lambda a: devrt.device_put_replicated(a, devrt.devices("cpu")),
    "make_array_from_process_local_data": lambda a: devrt.make_array_from_process_local_data(
        SingleDeviceSharding(devrt.devices("cpu")[0]), a
    ),
    "make_array_from_single_device_arrays": lambda a: devrt.make_array_from_single_device_arrays(
        [a], SingleDeviceSharding(devrt.devices("cpu")[0])
    ),
}


@pytest.mark.parametrize("what", USES)
def test_what_is_done_with_an_array_that_is_gone_is_named(cpu, what):
    a = devrt.device_put(X, cpu[0])
    a.delete()
    with pytest.raises(DeletedError, match=rf"^{what} failed: this array of shape \(8,\)"):
        USES[what](a)
    client = devrt_cpu.make_cpu_client(num_devices=1)
    b = devrt.device_put(X, client.devices()[0])
    client.close()
    with pytest.raises(ClosedError, match=rf"^{what} failed: the client of this array"):
        USES[what](b)


def test_waiting_for_a_sharded_array_that_is_gone(cpu):
    a = devrt.device_put(X, NamedSharding(Mesh(np.array(cpu, dtype=object), ("x",)), P("x")))
    assert a.block_until_ready() is a
    a.delete()
    with pytest.raises(DeletedError, match=r"^block_until_ready failed: this array"):
        a.block_until_ready()


def test_a_callback_that_returns_an_array_that_is_gone(cpu):
    a = devrt.device_put(X, cpu[0])
    a.delete()
    with pytest.raises(DeletedError, match=r"^the callback's part"):
        devrt.make_array_from_callback((8,), SingleDeviceSharding(cpu[0]), lambda index: a)


@pytest.fixture(scope="module")
def two_processes():
    client = devrt_cpu.make_cpu_client(num_devices=2, node_id=0, num_nodes=2)
    yield client
    client.close()


def test_a_device_of_another_process_is_refused(two_processes):
    here = two_processes.local_devices()[0]
    there = next(d for d in two_processes.devices() if d.process_index)
    held = devrt.device_put(X, here)
    words = rf"device_put cannot place on {there}: it belongs to process 1"
    for value in (1.0, X, held, devrt.device_put(X)):
        for target in (there, SingleDeviceSharding(there)):
            with pytest.raises(InvalidArgumentError, match=f"^{words}"):
                devrt.device_put(value, target)
            with pytest.raises(InvalidArgumentError, match=rf"^leaf x\['a'\]: {words}"):
                devrt.device_put({"a": value}, target)


def test_parts_for_devices_of_other_processes_alone(two_processes, cpu):
    others = [d for d in two_processes.devices() if d.process_index]
    sharding = NamedSharding(Mesh(np.array(others, dtype=object), ("x",)), P("x"))
    with pytest.raises(InvalidArgumentError, match=r"no part.*arrays on cpu:0.*Pass an empty list"):
        devrt.make_array_from_single_device_arrays((8,), sharding, [devrt.device_put(X, cpu[0])])


@pytest.mark.parametrize("devices", [None, 5, [5], "cpu"], ids=repr)
def test_what_are_no_devices(cpu, devices):
    with pytest.raises(InvalidTypeError, match="device_put_replicated takes a sequence of devices"):
        devrt.device_put_replicated(1, devices)
    with pytest.raises(InvalidTypeError, match="device_put_sharded takes a sequence of devices"):
        devrt.device_put_sharded([1], devices)


def test_a_device_list_are_devices(cpu):
    assert devrt.device_put_replicated(1, DeviceList(cpu)).shape == (len(cpu),)


def endless_list():
    tree = []
    tree.append(tree)
    return tree


def nested(wrap, depth=100_000):
    tree = 1.0
    for _ in range(depth):
        tree = wrap(tree)
    return tree


TREES = {
    "endless list": endless_list,
    "lists": lambda: nested(lambda x: [x]),
    "dicts": lambda: nested(lambda x: {"a": x}),
}


@pytest.mark.parametrize("tree", TREES)
def test_a_tree_without_an_end(cpu, tree):
    made = TREES[tree]()
    uses = [
        devrt.device_put,
        devrt.device_get,
        devrt.block_until_ready,
        lambda x: devrt.device_put(x, cpu[0]),
        lambda x: devrt.device_put(x, progress=lambda progress: None),
        lambda x: devrt.device_put([1.0], x if isinstance(x, list) else [x]),
        lambda x: devrt.device_put_sharded([x], cpu[:1]),
        lambda x: devrt.device_put_replicated(x, cpu),
        lambda x: devrt.copy_to_host_async(x).result(60),
    ]
    for use in uses:
        with pytest.raises(InvalidArgumentError, match="contains itself, or is nested"):
            use(made)
    with pytest.raises(InvalidArgumentError, match="out"):
        devrt.device_get([devrt.device_put(1.0)], out=[made])


class Unreadable:
    """What says that it is an array, and is none."""

    def __init__(self, error=None):
        self.error = error

    def __array__(self, *arguments, **named):
        if self.error:
            raise self.error("of its own")
        return 5


@pytest.mark.parametrize("error", [None, TypeError, ValueError])
def test_a_value_that_cannot_be_read_is_named_by_its_path(cpu, error):
    value = Unreadable(error)
    over = NamedSharding(Mesh(np.array(cpu, dtype=object), ("x",)), P("x"))
    words = "a value of type Unreadable cannot be read as an array"
    for target in (None, cpu[1], over, "pinned_host", cpu[0].default_memory()):
        with pytest.raises(InvalidTypeError, match=f"^{words}"):
            devrt.device_put(value, target)
        with pytest.raises(InvalidTypeError, match=rf"^leaf x\['a'\]\[1\]: {words}"):
            devrt.device_put({"a": [X, value]}, target)
    with pytest.raises(InvalidTypeError, match=rf"^leaf x\['a'\]: {words}"):
        devrt.device_get({"a": value})


def test_what_a_value_raises_of_its_own_stays(cpu):
    with pytest.raises(OSError, match="of its own"):
        devrt.device_put([Unreadable(OSError)])


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("cpu", "devrt.devices('cpu')[0]"),
        ("cpu:1", "devrt.devices('cpu')[1]"),
    ],
)
def test_a_text_that_means_a_device_is_answered_with_what_gives_it(name, device):
    with pytest.raises(InvalidArgumentError) as hit:
        devrt.device_put(1, name)
    assert str(hit.value).endswith(f"pass {device}.")
