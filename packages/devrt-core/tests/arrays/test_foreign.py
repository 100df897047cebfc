"""Devices, shardings and specs of another library, under the names that devrt has too."""

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from devrt_acme.client import AcmeClient


@pytest.fixture
def acme():
    """A simulated backend's client, closed afterwards."""
    client = AcmeClient(2)
    yield client
    client.close()


def foreign(name, module="jaxlib._jax"):
    return type(name, (), {"__module__": module})()


@pytest.mark.parametrize(
    "call",
    [
        lambda other: devrt.device_put(1.0, other("Device")),
        lambda other: devrt.device_put(1.0, other("NamedSharding", "jax._src.named_sharding")),
        lambda other: SingleDeviceSharding(other("Device")),
        lambda other: NamedSharding(other("Mesh", "jax._src.mesh"), PartitionSpec()),
        lambda other: Mesh(np.array([other("Device")]), ("x",)),
    ],
)
def test_an_object_of_jax_is_named_as_jax_s(call):
    with pytest.raises(InvalidTypeError, match="which is jax's and not devrt's"):
        call(foreign)


def test_a_spec_of_jax_is_too(acme):
    mesh = Mesh(np.array(acme.devices()[:1]), ("x",))
    with pytest.raises(InvalidTypeError, match="of type PartitionSpec, which is jax's"):
        NamedSharding(mesh, foreign("PartitionSpec", "jax._src.partition_spec"))


def test_what_is_of_no_library_is_only_of_a_type():
    with pytest.raises(InvalidTypeError, match=r"of type int\. Give a device of devrt\.dev"):
        devrt.device_put(1.0, 3)


def test_a_platform_and_number_is_no_target(acme):
    words = r"pass devrt.devices\('cpu'\)\[1\]"
    with (
        devrt.default_device(acme.devices()[0]),
        pytest.raises(InvalidArgumentError, match=words),
    ):
        devrt.device_put(1.0, "cpu:1")
