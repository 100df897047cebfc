"""A fake platform in plain Python: devices with memories and coordinates that hold nothing."""

import pytest

from devrt.contract import Client, Device, Memory
from devrt.errors import InvalidArgumentError, UnimplementedError


class FakeMemory(Memory):
    def __init__(self, device, kind):
        self._device, self._kind = device, kind

    kind = property(lambda self: self._kind)
    platform = property(lambda self: self._device.platform)
    process_index = property(lambda self: self._device.process_index)

    def addressable_by_devices(self):
        return [self._device]


class FakeDevice(Device):
    def __init__(self, client, number, process_index, coords=None, core_on_chip=0):
        self._client, self._id, self._process = client, number, process_index
        self._memories = [FakeMemory(self, kind) for kind in client.kinds]
        if coords is not None:
            self.coords, self.core_on_chip = coords, core_on_chip

    id = property(lambda self: self._id)
    process_index = property(lambda self: self._process)
    local_hardware_id = property(lambda self: self._id)
    platform = property(lambda self: self._client.platform)
    device_kind = property(lambda self: self._client.device_kind)
    client = property(lambda self: self._client)

    def memory(self, kind):
        for memory in self._memories:
            if memory.kind == kind:
                return memory
        raise InvalidArgumentError(kind)

    def default_memory(self):
        return self._memories[0]

    def addressable_memories(self):
        return list(self._memories)

    def live_buffers(self):
        return []

    def memory_stats(self):
        return {}

    def __str__(self):
        return f"{self.platform}:{self._id}"

    def __repr__(self):
        return f"FakeDevice(id={self._id})"

    def __reduce__(self):
        return _shared_device, (self._client.platform, self._id)


class TopologyDevice(FakeDevice):
    """A device that is described only: it has no client."""

    @property
    def client(self):
        raise UnimplementedError("a device of a topology has no client")


class FakeClient(Client):
    def __init__(
        self,
        platform="fake",
        processes=(0,) * 8,
        *,
        process_index=0,
        kinds=("device", "pinned_host"),
        device_kind="Fake 1",
        coords=None,
        device_type=FakeDevice,
    ):
        self._platform, self._process = platform, process_index
        self.kinds, self.device_kind = kinds, device_kind
        coords = coords or [()] * len(processes)
        self._devices = [
            device_type(self, number, process, *place)
            for number, (process, place) in enumerate(zip(processes, coords, strict=True))
        ]

    platform = property(lambda self: self._platform)
    platform_version = property(lambda self: "fake 1")
    runtime_type = property(lambda self: "fake")
    is_closed = property(lambda self: False)

    def process_index(self):
        return self._process

    def devices(self):
        return list(self._devices)

    def local_devices(self):
        return [d for d in self._devices if d.process_index == self._process]

    def buffer_from_pyval(self, *args, **kwargs):
        raise UnimplementedError("the fake holds no data")

    def live_buffers(self):
        return []

    def close(self):
        pass


_SHARED = {"fake": FakeClient(processes=(0,) * 16)}


def _shared_device(platform, number):
    return _SHARED[platform].devices()[number]


@pytest.fixture(scope="session")
def devices():
    """Sixteen devices of one process, which pickle to themselves."""
    return _SHARED["fake"].devices()


@pytest.fixture(scope="session")
def make_client():
    return FakeClient


@pytest.fixture(scope="session")
def topology_device():
    return TopologyDevice
