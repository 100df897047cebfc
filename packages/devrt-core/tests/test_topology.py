"""Descriptions of devices: as bytes, from bytes, and as devices that only compile."""

import copy
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from devrt.contract import Device, Topology
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.topology import DeviceTopology, get_topology_for_devices
from devrt_acme.client import AcmeClient

NUMBERS = st.integers(0, 2**40)
TEXT = st.text(max_size=8)

fields = st.fixed_dictionaries(
    {
        "id": NUMBERS,
        "process_index": NUMBERS,
        "local_hardware_id": st.none() | NUMBERS,
        "device_kind": TEXT,
    },
    optional={
        "coords": st.lists(st.integers(-5, 99), max_size=4).map(tuple),
        "core_on_chip": NUMBERS,
        "slice_index": NUMBERS,
    },
)
topologies = st.builds(DeviceTopology, TEXT, TEXT, st.lists(fields, max_size=4))

ONE = {"id": 3, "process_index": 1, "local_hardware_id": None, "device_kind": "Chip 1"}
TORUS = DeviceTopology("acme", "acme 1", [ONE | {"coords": (0, 1, 2), "core_on_chip": 1}])


def document(**changes):
    return json.loads(TORUS.serialize()) | changes


def encoded(value):
    return json.dumps(value).encode()


@given(topologies)
def test_bytes_and_back(topology):
    data = topology.serialize()
    again = DeviceTopology.deserialize(data)
    assert again == topology
    assert hash(again) == hash(topology)
    assert again.serialize() == data
    assert (again.platform, again.platform_version) == (
        topology.platform,
        topology.platform_version,
    )
    for one, other in zip(
        topology._make_compile_only_devices(), again._make_compile_only_devices(), strict=True
    ):
        for name in (*ONE, "coords", "core_on_chip", "slice_index"):
            assert getattr(one, name, None) == getattr(other, name, None)


def test_the_format_is_fixed():
    assert TORUS.serialize() == (
        b'{"devices":[{"coords":[0,1,2],"core_on_chip":1,"device_kind":"Chip 1","id":3,'
        b'"local_hardware_id":null,"process_index":1}],"format":"devrt-topology",'
        b'"platform":"acme","platform_version":"acme 1","version":1}'
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b"5",
        b'"text"',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        encoded(document(version=2)),
        encoded(document(format="other")),
        encoded(document(platform=5)),
        encoded(document(platform_version=None)),
        encoded(document(devices="abc")),
        encoded(document(devices={})),
        encoded(document(devices=[5])),
        encoded(document(devices=["ab"])),
        encoded(document(devices=[[]])),
        *[encoded(document(devices=[{k: v for k, v in ONE.items() if k != n}])) for n in ONE],
        encoded(document(devices=[ONE | {"id": "3"}])),
        encoded(document(devices=[ONE | {"id": True}])),
        encoded(document(devices=[ONE | {"id": 3.5}])),
        encoded(document(devices=[ONE | {"local_hardware_id": "0"}])),
        encoded(document(devices=[ONE | {"device_kind": None}])),
        encoded(document(devices=[ONE | {"coords": "012"}])),
        encoded(document(devices=[ONE | {"coords": [0, [1]]}])),
        encoded(document(devices=[ONE | {"core_on_chip": None}])),
        None,
        5,
    ],
    ids=lambda data: repr(data)[:60],
)
def test_what_is_no_topology(data):
    with pytest.raises(InvalidArgumentError, match="no device topology of version 1"):
        DeviceTopology.deserialize(data)


@given(st.integers(0, len(TORUS.serialize()) - 1))
def test_cut_off_bytes_are_refused(length):
    with pytest.raises(InvalidArgumentError):
        DeviceTopology.deserialize(TORUS.serialize()[:length])


@given(st.integers(0, len(TORUS.serialize()) - 1), st.integers(0, 255))
@example(TORUS.serialize().index(b"id"), ord("x"))
def test_a_changed_byte_is_refused_or_still_describes_devices(position, byte):
    data = bytearray(TORUS.serialize())
    data[position] = byte
    try:
        topology = DeviceTopology.deserialize(bytes(data))
    except InvalidArgumentError:
        return
    for device in topology._make_compile_only_devices():
        assert isinstance(device.id, int)
        assert isinstance(device.process_index, int)
        assert isinstance(device.device_kind, str)
    assert topology.get_attributes()["num_devices"] == 1


@given(st.binary())
def test_any_bytes_give_a_typed_error(data):
    with pytest.raises(InvalidArgumentError):
        DeviceTopology.deserialize(data)


def test_live_devices_are_described_in_their_order():
    from devrt_acme.client import AcmeClient

    client = AcmeClient(3)
    devices = client.devices()[::-1]
    topology = get_topology_for_devices(devices)
    assert isinstance(topology, Topology)
    assert (topology.platform, topology.platform_version) == ("acme", "acme simulator 1")
    assert topology.get_attributes() == {"num_devices": 3, "num_processes": 1}
    described = DeviceTopology.deserialize(topology.serialize())._make_compile_only_devices()
    assert [device.id for device in described] == [2, 1, 0]
    assert {device.device_kind for device in described} == {"Acme Simulator 1"}
    with pytest.raises(InvalidArgumentError, match="belong to one client"):
        get_topology_for_devices([devices[0], AcmeClient(1).devices()[0]])
    with pytest.raises(InvalidArgumentError, match="at least one device"):
        get_topology_for_devices([])


def test_a_compile_only_device_says_what_it_is_and_holds_nothing():
    (device,) = TORUS._make_compile_only_devices()
    assert isinstance(device, Device)
    assert (device.id, device.process_index, device.host_id) == (3, 1, 1)
    assert (device.local_hardware_id, device.platform) == (None, "acme")
    assert (device.device_kind, device.coords, device.core_on_chip) == ("Chip 1", (0, 1, 2), 1)
    assert device() is device
    assert repr(device) == "CompileOnlyDevice(acme:3)"
    assert (device.addressable_memories(), device.live_buffers()) == ([], [])
    assert device.memory_stats() is None
    assert not hasattr(device, "slice_index")
    with pytest.raises(AttributeError, match="'colour'"):
        _ = device.colour
    assert copy.copy(device).coords == (0, 1, 2)


@pytest.mark.parametrize(
    "use",
    [
        lambda device: device.client,
        lambda device: device.memory("device"),
        lambda device: device.default_memory(),
        lambda device: device.get_stream_for_external_ready_events(),
    ],
    ids=["client", "memory", "default_memory", "stream"],
)
def test_what_a_compile_only_device_cannot_do(use):
    (device,) = TORUS._make_compile_only_devices()
    with pytest.raises(UnimplementedError, match="CompileOnlyDevice"):
        use(device)


def test_topologies_compare_by_what_they_say():
    same = DeviceTopology.deserialize(TORUS.serialize())
    other = DeviceTopology("acme", "acme 2", [ONE])
    assert same == TORUS
    assert other != TORUS
    assert TORUS != 5
    assert len({TORUS, same, other}) == 2
    assert repr(TORUS) == "DeviceTopology(platform='acme', devices=1)"


@pytest.mark.parametrize(
    ("devices", "says"),
    [([1], "got 1 of type int"), ("cpu", "not of 'cpu'"), (None, "not of None")],
)
def test_a_topology_is_made_of_devices_only(devices, says):
    with pytest.raises(InvalidTypeError, match=says):
        get_topology_for_devices(devices)


def test_a_topology_has_each_device_once():
    first, second = AcmeClient(2).devices()
    with pytest.raises(InvalidArgumentError, match="given twice"):
        get_topology_for_devices([first, second, first])
