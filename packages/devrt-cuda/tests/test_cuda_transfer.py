"""Arrays of simulated devices that one transfer server offers and another pulls."""

import numpy as np
import pytest

import devrt
from devrt.contract import transfer_server_of
from devrt.experimental import transfer
from devrt.experimental.transfer import landing
from devrt.sharding import Mesh, NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P
from devrt.xla_client import make_cpu_client, make_gpu_client


@pytest.fixture(scope="module")
def cpu():
    with make_cpu_client(num_devices=1) as client:
        yield client.devices()[0]


@pytest.fixture(scope="module")
def pair(devices):
    server = transfer.start_transfer_server(devices[0].client)
    with server, server.connect(server.address()) as connection:
        yield server, connection


@pytest.mark.parametrize("size", [30, 3 << 20])
@pytest.mark.parametrize("route", ["device to device", "device to host", "host to device"])
def test_elements_arrive(devices, cpu, pair, route, size, monkeypatch):
    server, connection = pair
    pinned = []
    made = landing._PinnedBlock.__init__
    monkeypatch.setattr(
        landing._PinnedBlock, "__init__", lambda *args: (pinned.append(args), made(*args))[1]
    )
    rows = NamedSharding(Mesh(np.array(devices), ("rows",)), P("rows"))
    source, target = {
        "device to device": (rows, SingleDeviceSharding(devices[1])),
        "device to host": (rows, SingleDeviceSharding(cpu)),
        "host to device": (SingleDeviceSharding(cpu), rows),
    }[route]
    values = np.arange(size, dtype=np.float32).reshape(2, -1)
    server.await_pull(1, devrt.device_put(values, source))
    pulled = connection.pull(1, devrt.ShapeDtypeStruct(values.shape, np.float32, sharding=target))
    assert pulled.sharding == target
    np.testing.assert_array_equal(np.asarray(pulled), values)
    assert len(pinned) == {"device to device": 1, "device to host": 0, "host to device": 2}[route]


def test_an_array_of_a_device_is_replaced(devices, pair):
    server, connection = pair
    x, former = (devrt.device_put(np.full(8, value), devices[0]) for value in (1.0, 2.0))
    server.await_pull(2, x)
    taken = connection.pull_into(2, former)
    assert former.is_deleted()
    assert taken.device == devices[0]
    assert np.asarray(taken).tolist() == [1.0] * 8


def test_where_no_page_locked_memory_is_left_elements_come_through_the_host(devices, pair):
    server, connection = pair
    x = devrt.device_put(np.arange(4.0), devices[0])
    server.await_pull(3, x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landing, "pinned_memory", lambda device: None)
        assert np.asarray(connection.pull(3, x)).tolist() == [0, 1, 2, 3]


def test_a_client_of_gpus_comes_with_its_server(devices):
    factory = transfer.make_transfer_server_interface_factory()
    made = make_gpu_client(platform_name="cuda", transfer_server_factory=factory)
    with made as client:
        assert isinstance(transfer_server_of(client), transfer.TransferServer)
