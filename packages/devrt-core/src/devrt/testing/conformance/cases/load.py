"""Loading: what the plugin says of itself before anybody uses it, and its client's first facts."""

from __future__ import annotations

import time

from devrt.contract import Client, Device, Memory
from devrt.records import Available, Unavailable
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, expect_equal
from devrt.testing.conformance.subject import Subject

_PROBE_SECONDS = 0.5


@case("load", "its probe answers in time, with a record", contract="ClientFactory.probe")
def probe_answers(subject: Subject) -> None:
    """Call the probe, which the first call of may read files that are not cached."""
    factory = subject.backend.factory
    seconds, answer = [], None
    for _ in range(3):
        started = time.perf_counter()
        answer = factory.probe()
        seconds.append(time.perf_counter() - started)
    expect(
        isinstance(answer, Available | Unavailable),
        expected="Available or Unavailable",
        came=type(answer).__name__,
    )
    if isinstance(answer, Unavailable):
        words = answer.reason and answer.remedy
        expect(words, expected="a reason and a remedy", came=answer)
    expect(
        min(seconds) < _PROBE_SECONDS,
        expected=f"an answer within {_PROBE_SECONDS} s",
        came=f"{min(seconds):.3f} s, the best of {len(seconds)}",
    )


@case("load", "its client is the contract's, of its platform", contract="ClientFactory.factory")
def client_is_of_its_platform(subject: Subject) -> None:
    """Make the client."""
    client = subject.client
    expect(isinstance(client, Client), expected="a devrt.contract.Client", came=type(client))
    expect_equal(client.platform, subject.platform, "Client.platform")
    for device in client.devices():
        expect(isinstance(device, Device), expected="a devrt.contract.Device", came=type(device))
        expect_equal(device.platform, subject.platform, f"platform of device {device.id}")
        expect(device.client is client, expected="the device's client", came=device.client)


@case("load", "ids are unique and in order", contract="Device.id")
def ids_are_unique_and_ordered(subject: Subject) -> None:
    """Compare the ids with themselves, sorted."""
    for name, devices in _lists(subject).items():
        ids = [device.id for device in devices]
        expect(all(type(i) is int for i in ids), expected=f"integers as ids in {name}", came=ids)
        expect_equal(ids, sorted(set(ids)), f"ids of {name}")


@case("load", "a device is one object for as long as its client lives", contract="Device")
def devices_are_the_same_objects(subject: Subject) -> None:
    """Ask twice."""
    for name, devices in _lists(subject).items():
        again = _lists(subject)[name]
        same = len(again) == len(devices) and all(map(lambda a, b: a is b, devices, again))
        expect(same, expected=f"the same objects from {name}", came="others at the second call")
        expect(all(d() is d for d in devices), expected="a device called is itself", came="another")


@case("load", "local devices are among the devices, and counts agree", contract="Client.devices")
def local_devices_are_among_them(subject: Subject) -> None:
    """Compare both lists, and their lengths with the counts."""
    client = subject.client
    devices, local = client.devices(), client.local_devices()
    expect(local, expected="a device of this process", came="none")
    strange = [device.id for device in local if not any(device is other for other in devices)]
    expect_equal(strange, [], "local devices that devices() has not")
    expect_equal(client.device_count(), len(devices), "device_count()")
    expect_equal(client.local_device_count(), len(local), "local_device_count()")
    here = [device for device in devices if device.process_index == client.process_index()]
    expect_equal([d.id for d in local], [d.id for d in here], "ids of the devices of this process")


@case("load", "each memory is found by its kind, the default one first", contract="Device.memory")
def memories_are_found(subject: Subject) -> None:
    """Look each memory up by its kind."""
    for device in subject.devices:
        memories = device.addressable_memories()
        for memory in memories:
            expect(isinstance(memory, Memory), expected="a devrt.contract.Memory", came=memory)
            found = device.memory(memory.kind)
            expect(found is memory, expected=f"memory({memory.kind!r}) is that memory", came=found)
            here = any(device is other for other in memory.addressable_by_devices())
            expect(here, expected=f"{device} among the devices of its memory", came="it is not")
        default = device.default_memory()
        expect(memories[:1] == [default], expected="the default memory first", came=memories)
        kinds = [memory.kind for memory in memories]
        expect_equal(kinds, list(dict.fromkeys(kinds)), f"memory kinds of {device}, each once")


def _lists(subject: Subject) -> dict[str, list[Device]]:
    client = subject.client
    return {"devices()": client.devices(), "local_devices()": client.local_devices()}
