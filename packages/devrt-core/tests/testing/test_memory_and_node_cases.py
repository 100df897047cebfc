"""Clients whose memory does not end as out of memory, whose looks wait, whose factories break."""

import textwrap

import pytest

from devrt.testing.conformance import Status, conform

pytest.importorskip("devrt_acme", reason="needs the example backend")

ACME = """
import time

import numpy as np

from devrt.contract import Capabilities
from devrt.errors import InternalError, InvalidArgumentError, OutOfMemoryError, UnimplementedError
from devrt_acme.client import AcmeBuffer, AcmeClient, AcmeDevice

class Small(AcmeClient):
    platform = "one"
    ERROR, KEPT = OutOfMemoryError, False

    def buffer_from_pyval(self, argument, device=None, *given, **named):
        total = sum(buffer.nbytes for buffer in self._live())
        size = np.asarray(argument).nbytes
        if total + size > 1 << 20:
            raise self.ERROR("the memory is full.")
        made = super().buffer_from_pyval(argument, device, *given, **named)
        if self.KEPT:  # as where nothing that is released is given back
            self.__dict__.setdefault("_kept", []).append(made.clone())
        return made

def memory_stats(self):
    return {"bytes_in_use": 0, "bytes_limit": 1 << 20}

AcmeDevice.memory_stats = memory_stats

class Slow(AcmeClient):
    platform = "one"
    capabilities = property(lambda self: Capabilities.of(self, asynchronous=True))

def is_ready(self):
    time.sleep(self.LOOK)
    return True

def block_until_ready(self):
    time.sleep(max(0.0, 0.1 - self.LOOK))
    return self

AcmeBuffer.is_ready, AcmeBuffer.block_until_ready = is_ready, block_until_ready
AcmeBuffer.LOOK = 0.0
"""


def result(plugins, case, make, platform="one"):
    body = textwrap.dedent(make)
    plugins.add(platform, extra=ACME, make=body)
    (found,) = conform(f"{platform}@fake-{platform}", cases=[case]).results
    return found


@pytest.mark.parametrize(
    ("fault", "came"),
    [
        ("pass", ""),
        ("Small.ERROR = InternalError", "InternalError: the memory is full"),
        ("Small.KEPT = True", " of 16"),
    ],
    ids=["none", "another error", "nothing comes back"],
)
def test_memory_that_is_filled_piece_by_piece(plugins, fault, came):
    found = result(plugins, "memory.filled_memory_is_of_use_again", f"{fault}; return Small(1)")
    assert (found.status is Status.PASSED) == (not came), found.came
    assert came in found.came


@pytest.mark.parametrize("look", [0.0, 0.1])
def test_a_look_that_waits_is_found(plugins, look):
    make = f"AcmeBuffer.LOOK = {look}; return Slow(1)"
    found = result(plugins, "transfer.looking_does_not_wait", make)
    assert (found.status is Status.PASSED) == (not look), found.came
    assert found.status.is_failure == bool(look)


STATISTICS = ("memory.statistics_follow_buffers", "memory.deleting_twice",
              "memory.out_of_memory_leaves_nothing")  # fmt: skip


@pytest.mark.parametrize("case", STATISTICS)
@pytest.mark.parametrize("stats", ["{}", "{'num_allocs': 1}", "{'bytes_in_use': '0'}", "5"])
def test_statistics_without_bytes_in_use_are_a_failure(plugins, stats, case):
    make = f"AcmeDevice.memory_stats = lambda self: {stats}; return Slow(1)"
    found = result(plugins, case, make)
    assert found.status is Status.FAILED, found.reason
    assert "with an integer for bytes_in_use, or None" in found.expected


def test_a_device_may_have_no_statistics(plugins):
    make = "AcmeDevice.memory_stats = lambda self: None; return Slow(1)"
    found = result(plugins, "memory.statistics_follow_buffers", make)
    assert found.status is Status.NOT_APPLICABLE
    assert found.reason.endswith("memory_stats() is None")


REFUSALS = {
    "a crash": ("raise AttributeError('module has no attribute __version__')", Status.FAILED),
    "an error of another thing": ("raise InvalidArgumentError('no such card.')", Status.FAILED),
    "an unknown option": ("raise InvalidArgumentError('no option num_nodes.')", None),
    "nothing of the kind": ("raise UnimplementedError('one process.')", None),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_only_a_typed_refusal_means_that_there_are_no_several_processes(plugins, case):
    refusal, failed = REFUSALS[case]
    make = f"if 'num_nodes' in context.options: {refusal}\n    return AcmeClient(1)"
    found = result(plugins, "distributed.devices_of_all_processes", make, "acme")
    assert found.status is (failed or Status.NOT_APPLICABLE), (found.came, found.reason)


MOCK = """
if context.options.get('num_nodes') not in (None, 2):
    raise InvalidArgumentError('num_nodes is 3, and the simulated devices are of 2 nodes.')
if 'num_nodes' in context.options and context.options['distributed_client'] is None:
    raise InternalError('nobody to share devices with')
return OfNodes(context.options.get('node_id', 0), NODES)
"""
OF_NODES = (
    ACME
    + """
from devrt.errors import InvalidArgumentError as Refused

class Elsewhere(AcmeDevice):
    process_index = property(lambda self: self._number)
    local_hardware_id = property(lambda self: None)

    def addressable_memories(self):
        return [] if self._number != self._client._node else super().addressable_memories()

class OfNodes(AcmeClient):
    platform = "acme"

    def __init__(self, node, nodes):
        self._node = node
        super().__init__(nodes)
        self._devices = [Elsewhere(self, number) for number in range(nodes)]

    def process_index(self):
        return self._node

    def devices(self):
        return list(self._devices)

    def local_devices(self):
        return [self._devices[self._node]]

    def buffer_from_pyval(self, argument, device=None, *given, **named):
        if device is not None and device is not self._devices[self._node]:
            raise Refused("the device is of another process")
        return super().buffer_from_pyval(argument, device, *given, **named)

NODES = {nodes}
"""
)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (2, ""),
        (1, "its factory makes no clients of 3 processes: InvalidArgumentError: num_nodes is 3"),
        (9, "its options describe devices of 9 processes; a case starts 8"),
    ],
)
def test_simulated_nodes_say_of_how_many_processes_the_devices_are(plugins, nodes, reason):
    make = textwrap.dedent(MOCK).replace("\n", "\n    ")
    plugins.add("acme", extra=OF_NODES.replace("{nodes}", str(nodes)), make=make)
    (found,) = conform("acme@fake-acme", cases=["distributed.devices_of_all_processes"]).results
    wanted = Status.NOT_APPLICABLE if reason else Status.PASSED
    assert found.status is wanted, (found.came, found.reason)
    assert found.reason.startswith(reason)
