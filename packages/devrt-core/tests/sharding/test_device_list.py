"""Device lists and memory kinds."""

import pickle

import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import DeviceList, check_and_canonicalize_memory_kind, is_addressable


def test_is_a_sequence(devices):
    listed = DeviceList(tuple(devices[:4]))
    assert len(listed) == 4
    assert listed[1] is devices[1]
    assert listed[1:3] == (devices[1], devices[2])
    assert list(listed) == devices[:4]
    assert devices[0] in listed
    assert repr(DeviceList(devices[:1])) == "DeviceList((FakeDevice(id=0),))"


def test_equality_and_hash_follow_devices_and_order(devices):
    one, same = DeviceList(devices), DeviceList(devices)
    assert one == same
    assert hash(one) == hash(same)
    assert one != DeviceList(devices[::-1])
    assert one != tuple(devices)
    assert pickle.loads(pickle.dumps(one)) == one


def test_of_one_process(devices):
    listed = DeviceList(devices)
    assert listed.is_fully_addressable
    assert listed.addressable_device_list is listed
    assert listed.process_indices == {0}
    assert listed.memory_kinds == ("device", "pinned_host")
    assert listed.default_memory_kind == "device"
    assert listed.device_kind == "Fake 1"


def test_of_several_processes(make_client):
    devices = make_client(processes=(0, 0, 1, 1), process_index=1).devices()
    listed = DeviceList(devices)
    assert not listed.is_fully_addressable
    assert list(listed.addressable_device_list) == devices[2:]
    assert listed.process_indices == {0, 1}
    assert listed.default_memory_kind == "device"


def test_without_addressable_devices_nothing_is_known_of_memories(make_client, topology_device):
    listed = DeviceList(make_client(device_type=topology_device).devices())
    assert not is_addressable(listed[0])
    assert listed.memory_kinds == ()
    assert listed.default_memory_kind is None
    assert check_and_canonicalize_memory_kind(None, listed) is None
    assert check_and_canonicalize_memory_kind("device", listed) == "device"


def test_memory_kinds_are_those_that_all_devices_have(make_client):
    one = make_client(kinds=("device", "pinned_host")).devices()
    other = make_client(kinds=("pinned_host", "unpinned_host")).devices()
    assert DeviceList([one[0], other[0]]).memory_kinds == ("pinned_host",)


def test_device_kind_must_be_one(make_client):
    mixed = [make_client().devices()[0], make_client(device_kind="Fake 2").devices()[0]]
    with pytest.raises(InvalidArgumentError, match="several kinds: Fake 1, Fake 2"):
        _ = DeviceList(mixed).device_kind
    with pytest.raises(InvalidArgumentError, match="is empty"):
        _ = DeviceList(()).device_kind


def test_canonical_memory_kind(devices):
    listed = DeviceList(devices)
    assert check_and_canonicalize_memory_kind(None, listed) == "device"
    assert check_and_canonicalize_memory_kind("pinned_host", listed) == "pinned_host"
    assert check_and_canonicalize_memory_kind(None, devices) == "device"


def test_unknown_memory_kind_names_those_there_are(devices):
    with pytest.raises(InvalidArgumentError, match=r"'hbm'.*fake:0.*'device', 'pinned_host'") as e:
        check_and_canonicalize_memory_kind("hbm", DeviceList(devices))
    assert e.value.memory_kind == "hbm"
    assert e.value.memory_kinds == ("device", "pinned_host")


@pytest.mark.parametrize(
    ("given", "says"),
    [((1, 2), "got 1 of type int"), ("ab", "got 'a'"), (3, "not of 3"), (None, "not of None")],
)
def test_it_is_made_of_devices_only(given, says):
    with pytest.raises(InvalidTypeError, match=says):
        DeviceList(given)
