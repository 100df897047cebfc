"""What simulated devices say of themselves, as attributes too, as JAX's devices do."""

import re

import pytest

import devrt
from devrt.experimental import mesh_utils
from devrt.runtime import default_runtime

VENDOR = {"cuda": "NVIDIA Corporation", "rocm": "Advanced Micro Devices, Inc"}
CAPABILITY = {"cuda": "9.0", "rocm": "gfx942"}
UUID = {"cuda": "GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "rocm": "GPU-[0-9a-f]{16}"}


@pytest.fixture
def device(vendor):
    client = default_runtime().make_client(vendor.platform, {"mock_num_gpus": 1})
    yield client.local_devices()[0]
    client.close()


def test_each_fact_is_an_attribute(device):
    assert len(device.attributes) > 10
    for name, value in device.attributes.items():
        assert getattr(device, name) == value


def test_they_have_what_jax_reads(device):
    assert device.device_vendor == VENDOR[device.platform]
    assert device.compute_capability == CAPABILITY[device.platform]
    assert device.core_count > 100


def test_a_uuid_is_what_the_vendor_s_tools_write(device):
    assert re.fullmatch(UUID[device.platform], device.uuid)


def test_each_device_has_a_uuid_of_its_own(vendor):
    client = default_runtime().make_client(vendor.platform, {"mock_num_gpus": 3})
    assert len({device.uuid for device in client.devices()}) == 3
    client.close()


def test_the_devices_of_one_process_are_in_one_partition(vendor):
    client = default_runtime().make_client(vendor.platform, {"mock_num_gpus": 2})
    places = [(d.partition_index, d.slice_index, list(d.coords)) for d in client.devices()]
    client.close()
    assert places == [(0, 0, [0, 0, 0]), (0, 0, [0, 0, 1])]


def test_devices_of_simulated_slices(vendor):
    client = default_runtime().make_client(
        vendor.platform, {"mock_gpu_topology": "2x2x2", "node_id": 3}
    )
    devices = client.devices()
    coords = [list(device.coords) for device in devices]
    sliced = mesh_utils.create_hybrid_device_mesh((2, 2), (2, 1), devices)
    client.close()
    assert coords == [[s, n, d] for s in range(2) for n in range(2) for d in range(2)]
    assert [[device.id for device in row] for row in sliced] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert all(device.device_kind == devices[-1].device_kind for device in devices)


def test_a_process_says_its_partition(vendor):
    client = default_runtime().make_client(
        vendor.platform, {"mock_num_gpus": 1, "partition_index": 5}
    )
    assert client.devices()[0].slice_index == 5
    client.close()


@pytest.mark.parametrize("name", ["core_on_chip", "no_such_fact", "__array__"])
def test_what_is_no_fact_is_no_attribute(device, name):
    assert not hasattr(device, name)
    with pytest.raises(AttributeError, match=f"Device' object has no attribute '{name}'"):
        getattr(device, name)


def test_devices_of_the_host_have_none():
    pytest.importorskip("devrt_cpu")
    device = devrt.devices("cpu")[0]
    assert not hasattr(device, "compute_capability")
