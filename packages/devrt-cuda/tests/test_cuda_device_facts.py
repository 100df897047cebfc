"""What simulated devices say of themselves, as attributes too, as JAX's devices do."""

import pytest

import devrt
from devrt.runtime import default_runtime

VENDOR = {"cuda": "NVIDIA Corporation", "rocm": "Advanced Micro Devices, Inc"}
CAPABILITY = {"cuda": "9.0", "rocm": "9.4"}  # of ROCm's the kernel driver knows the name


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


@pytest.mark.parametrize("name", ["coords", "slice_index", "no_such_fact", "__array__"])
def test_what_is_no_fact_is_no_attribute(device, name):
    assert not hasattr(device, name)
    with pytest.raises(AttributeError, match=f"Device' object has no attribute '{name}'"):
        getattr(device, name)


def test_devices_of_the_host_have_none():
    pytest.importorskip("devrt_cpu")
    device = devrt.devices("cpu")[0]
    assert not hasattr(device, "compute_capability")
