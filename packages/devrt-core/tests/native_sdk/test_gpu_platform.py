"""What a vendor's platform of GPUs must have, and what it may leave out."""

import sys
import types

import pytest

from devrt.errors import PluginContractError
from devrt.native import gpu
from devrt.native.gpu import GpuPlatform

PLATFORM = GpuPlatform(
    name="acme", module="devrt_acme9._ext", prefix="Acme", visible_variable="A", libraries=()
)


@pytest.mark.parametrize(("own", "found"), [({}, "unknown"), ({"__version__": "1.5"}, "1.5")])
def test_a_package_needs_no_version(monkeypatch, own, found):
    module = types.ModuleType("devrt_acme9")
    vars(module).update(own)
    monkeypatch.setitem(sys.modules, "devrt_acme9", module)
    assert gpu._version_of("devrt_acme9") == found


def test_the_version_is_the_distributions():
    assert gpu._version_of("devrt_core") == gpu.metadata.version("devrt-core")


class Fake:
    """A client of one device."""

    def __init__(self, kind):
        self.device_kind = kind
        self.is_closed = False

    def local_devices(self):
        return [self]

    def close(self):
        self.is_closed = True


def test_simulated_devices_must_say_that_they_are():
    PLATFORM._check_simulated(Fake("Acme One (simulated)"))
    client = Fake("Acme One")
    with pytest.raises(PluginContractError, match="names a device 'Acme One', without"):
        PLATFORM._check_simulated(client)
    assert client.is_closed
