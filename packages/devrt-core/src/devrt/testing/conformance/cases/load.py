"""The client's first facts: its devices, their memories, its topology, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.contract import Capabilities, Client, Device, Memory, Topology
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, expect_equal, expect_error
from devrt.testing.conformance.subject import Subject

CLOSE = "Client.close: wait for the work in flight and give all memory back. Idempotent."


def _lists(subject: Subject) -> dict[str, list[Device]]:
    client = subject.client
    return {"devices()": client.devices(), "local_devices()": client.local_devices()}


def _expect_type(value: object, kind: type | tuple[type, ...], what: str) -> None:
    expect(isinstance(value, kind), expected=f"{what}: {kind}", came=f"{type(value)}: {value!r}")


@case("load", "its client is the contract's, of its platform", contract="ClientFactory.factory")
def client_is_of_its_platform(subject: Subject) -> None:
    client = subject.client
    _expect_type(client, Client, "what the factory returns")
    expect_equal(client.platform, subject.platform, "Client.platform")
    for device in client.devices():
        _expect_type(device, Device, "a device")
        expect_equal(device.platform, subject.platform, f"platform of device {device.id}")
        expect(device.client is client, expected="Device.client: the client", came=device.client)


def _expect_text(value: object, what: str, besides: str = "") -> None:
    _expect_type(value, str, what)
    wrong = [c for c in str(value) if not c.isprintable() and c not in besides]
    expect(not wrong, expected=f"{what}: printable text", came=ascii(value))


@case("load", "what describes client and devices is of the contract's types, and can be printed",
      contract="Client")  # fmt: skip
def descriptions_have_their_types(subject: Subject) -> None:
    client = subject.client
    for name in ("platform_version", "runtime_type"):
        _expect_text(getattr(client, name), f"Client.{name}", besides="\n\t")
    _expect_type(client.program_formats, tuple, "Client.program_formats")
    _expect_type(client.capabilities, Capabilities, "Client.capabilities")
    _expect_type(client.is_closed, bool, "Client.is_closed")
    for name in ("process_index", "host_id", "task_id"):
        _expect_type(getattr(client, name)(), int, f"Client.{name}()")
    for device in client.devices():
        _expect_text(device.device_kind, "Device.device_kind")
        _expect_type(device.process_index, int, "Device.process_index")
        _expect_type(device.local_hardware_id, (int, type(None)), "Device.local_hardware_id")
        expect_equal(device.host_id, device.process_index, "Device.host_id")
        expect(str(device) and repr(device), expected="a device that can be shown", came="nothing")
        _expect_type(dict(device.attributes), dict, "Device.attributes")


@case("load", "ids are unique and in order", contract="Device.id")
def ids_are_unique_and_ordered(subject: Subject) -> None:
    for name, devices in _lists(subject).items():
        ids = [device.id for device in devices]
        expect(all(type(i) is int for i in ids), expected=f"integers as ids in {name}", came=ids)
        expect_equal(ids, sorted(set(ids)), f"ids of {name}")


@case("load", "a device is one object for as long as its client lives", contract="Device")
def devices_are_the_same_objects(subject: Subject) -> None:
    for name, devices in _lists(subject).items():
        again = _lists(subject)[name]
        same = len(again) == len(devices) and all(map(lambda a, b: a is b, devices, again))
        expect(same, expected=f"the same objects from {name}", came="others at the second call")
        expect(all(d() is d for d in devices), expected="a device called is itself", came="another")
        numbers = {device: number for number, device in enumerate(devices)}
        expect_equal(len(numbers), len(devices), "devices as keys of a dictionary")


@case("load", "lists of devices are the caller's to change", contract="Client.devices")
def lists_are_copies(subject: Subject) -> None:
    before = {name: list(devices) for name, devices in _lists(subject).items()}
    for devices in _lists(subject).values():
        devices.clear()
    expect_equal(_lists(subject), before, "devices after a list of them was cleared")


@case("load", "local devices are among the devices, and counts agree", contract="Client.devices")
def local_devices_are_among_them(subject: Subject) -> None:
    client = subject.client
    devices, local = client.devices(), client.local_devices()
    expect(local, expected="a device of this process", came="none")
    unknown = [device.id for device in local if not any(device is other for other in devices)]
    expect_equal(unknown, [], "local devices that devices() has not")
    expect_equal(client.device_count(), len(devices), "device_count()")
    expect_equal(client.local_device_count(), len(local), "local_device_count()")
    here = [device for device in devices if device.process_index == client.process_index()]
    expect_equal([d.id for d in local], [d.id for d in here], "ids of the devices of this process")


@case("load", "a device is found by the driver's number",
      contract="Client.device_from_local_hardware_id")  # fmt: skip
def devices_are_found_by_hardware_id(subject: Subject) -> None:
    known = [device.local_hardware_id for device in subject.devices]
    for device in subject.devices:
        number = device.local_hardware_id
        if number is not None and known.count(number) == 1:
            found = subject.client.device_from_local_hardware_id(number)
            expect(found is device, expected=f"{device} for number {number}", came=found)
    with expect_error(InvalidArgumentError):
        subject.client.device_from_local_hardware_id(1 << 20)


@case("load", "devices are assigned by replica, then by partition",
      contract="Client.get_default_device_assignment")  # fmt: skip
def devices_are_assigned(subject: Subject) -> None:
    client, count = subject.client, len(subject.devices)
    assigned = client.get_default_device_assignment(1, count)
    expect_equal([len(row) for row in assigned], [count], "devices of one replica")
    expect_equal(len(set(assigned[0])), count, "different devices")
    expect_equal(
        [len(row) for row in client.get_default_device_assignment(count)], [1] * count, "replicas"
    )
    for wrong in ((count + 1, 1), (0, 1)):
        with expect_error(InvalidArgumentError):
            client.get_default_device_assignment(*wrong)


@case("load", "each memory is found by its kind, the default one first", contract="Device.memory")
def memories_are_found(subject: Subject) -> None:
    for device in subject.devices:
        memories = device.addressable_memories()
        for memory in memories:
            _expect_type(memory, Memory, "a memory")
            found = device.memory(memory.kind)
            expect(found is memory, expected=f"memory({memory.kind!r}) is that memory", came=found)
            here = any(device is other for other in memory.addressable_by_devices())
            expect(here, expected=f"{device} among the devices of its memory", came="it is not")
            expect_equal(memory.platform, subject.platform, "Memory.platform")
        default = device.default_memory()
        expect(memories[:1] == [default], expected="the default memory first", came=memories)
        kinds = [memory.kind for memory in memories]
        expect_equal(kinds, list(dict.fromkeys(kinds)), f"memory kinds of {device}, each once")


@case("load", "the default memory has the name 'default' too", contract="Device.memory")
def default_memory_is_named(subject: Subject) -> None:
    for device in subject.devices:
        found = device.memory("default")
        default = device.default_memory()
        expect(found is default, expected=f"memory('default') is {default}", came=found)


@case("load", "a kind that is not there is refused, and those that are there are named",
      contract="Device.memory")  # fmt: skip
def absent_memory_is_refused(subject: Subject) -> None:
    for device in subject.devices:
        kinds = [memory.kind for memory in device.addressable_memories()]
        with expect_error(InvalidArgumentError, "no_such_kind", *kinds):
            device.memory("no_such_kind")


@case("load", "its topology says what the client says, and goes through bytes",
      contract="Client.topology, Topology.serialize")  # fmt: skip
def topology_round_trips(subject: Subject) -> None:
    client = subject.client
    topology = client.topology()
    _expect_type(topology, Topology, "Client.topology()")
    expect_equal(topology.platform, subject.platform, "Topology.platform")
    data = topology.serialize()
    _expect_type(data, bytes, "Topology.serialize()")
    expect(data, expected="bytes that describe the devices", came=data)
    expect_equal(client.topology().serialize(), data, "the same bytes at the second call")
    with contextlib.suppress(UnimplementedError):  # an older PJRT library has none
        expect_equal(client.topology().fingerprint(), topology.fingerprint(), "its fingerprint")
    _expect_type(dict(topology.get_attributes()), dict, "Topology.get_attributes()")
    described = topology._make_compile_only_devices()
    for name in ("id", "process_index", "device_kind"):
        found = sorted(getattr(device, name) for device in described)
        expect_equal(found, sorted(getattr(device, name) for device in client.devices()), name)
    if (again := _rebuilt(topology, data)) is not None:
        expect_equal(again.serialize(), data, "bytes of the topology that was read from bytes")


def _rebuilt(topology: Topology, data: bytes) -> Topology | None:
    read: Callable[[bytes], Topology] | None = getattr(type(topology), "deserialize", None)
    return None if read is None else read(data)


@case("load", "a platform whose client was closed has a new one, time and again", contract=CLOSE,
      alone=True)  # fmt: skip
def client_is_made_again(subject: Subject) -> None:
    from devrt.runtime import default_runtime

    value = np.arange(5, dtype=np.float32)
    seen = [subject.client]
    for _ in range(3):
        default_runtime().clear_backends()
        expect_equal(seen[-1].is_closed, True, "is_closed of the former client")
        seen.append(default_runtime().get_backend(subject.reference.name))
        buffer = seen[-1].buffer_from_pyval(value)
        expect_equal(np.asarray(buffer), value, "what a new client gives back")
    expect_equal(len(set(map(id, seen))), len(seen), "clients")


@case("load", "making a client leaves the process as it was",
      contract="ClientFactory.factory: the process is the user's", alone=True)  # fmt: skip
def process_is_left_alone(subject: Subject) -> None:
    _ = subject.backend
    before, variables, handlers = _process(), dict(os.environ), _handlers()
    _ = subject.client
    after = _process()
    for name, value in before.items():
        expect_equal(after[name], value, name)
    # By name alone: a value may be a secret, and a report leaves the machine.
    changed = [
        f"{name} is {'changed' if name in os.environ else 'gone'}"
        for name, value in variables.items()
        if os.environ.get(name) != value
    ]
    expect(not changed, expected="the environment as it was", came=", ".join(changed))
    for number, handler in _handlers().items():
        expect(
            handler == handlers[number],
            expected=f"the handler of signal {number} as it was: {handlers[number]!r}",
            came=repr(handler),
        )


def _handlers() -> dict[int, Any]:
    return {int(number): signal.getsignal(number) for number in signal.valid_signals()}


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "one that has been deleted"


def _process() -> dict[str, Any]:
    threads = [thread.name for thread in threading.enumerate() if not thread.daemon]
    mask = os.umask(0)
    os.umask(mask)
    return {
        "working directory": _working_directory(),
        "umask": mask,
        "sys.excepthook": repr(sys.excepthook),
        "sys.path": list(sys.path),
        "standard streams": [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "recursion limit": sys.getrecursionlimit(),
        "threads that are no daemons, which the end of the process waits for": sorted(threads),
    }


@case("load", "the doctor can examine it in a child process", contract="devrt doctor",
      deadline=90.0)  # fmt: skip
def doctor_examines_it(subject: Subject) -> None:
    from devrt.probing.isolated import Level, probe_isolated

    _ = subject.client
    level = Level.LOAD if subject.backend.manifest.exclusive else Level.CLIENT
    report = probe_isolated(subject.reference, level, timeout=80.0)
    expect(report.is_ok, expected="a plugin that works", came=f"it {report.sentence()}")
