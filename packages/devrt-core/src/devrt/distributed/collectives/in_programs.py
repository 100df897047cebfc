"""What answers the collectives of programs that run on the devices of several processes.

A program's devices run at once, each in a thread of the compiler's. The last one that comes to a
collective exchanges with the other processes for all of them. Programs call their collectives one
after the other, so devices of one program are at the same one.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.distributed.collectives.among_devices import Plan, exchange
from devrt.distributed.collectives.host import HostCollectives
from devrt.errors import DeadlineExceededError, InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from devrt.contract import Client, CpuCollectives, Device, DeviceCall, RawBuffer

__all__ = ["ProgramDevices", "answer", "collectives_of", "use_collectives"]

_given: weakref.WeakKeyDictionary[Any, CpuCollectives] = weakref.WeakKeyDictionary()
_communicators: weakref.WeakKeyDictionary[Any, dict[tuple[int, ...], HostCollectives]]
_communicators = weakref.WeakKeyDictionary()
_running: weakref.WeakValueDictionary[int, ProgramDevices] = weakref.WeakValueDictionary()
_numbers = itertools.count()
_WAIT_SECONDS = 600.0  # beyond the deadline of any exchange that another device is in


def use_collectives(client: Client, collectives: CpuCollectives) -> None:
    """Have a client's programs exchange data with other processes by these collectives."""
    _given[client] = collectives


def collectives_of(client: Client) -> CpuCollectives:
    """Return how a client's programs exchange data with other processes.

    Raises
    ------
    UnimplementedError
        If there is no way.
    """
    found = _given.get(client)
    if found is None:
        from devrt.distributed.collectives.factories import of_configuration

        found = _given[client] = of_configuration(client)
    return found


class ProgramDevices:
    """The devices of a program, some of which are this process's.

    Parameters
    ----------
    client
        Whose devices they are.
    devices
        All of them, by the numbers that the program gives them.

    Attributes
    ----------
    key : int
        What calls name it by.
    local : list of Device
        Those of this process.

    Raises
    ------
    InvalidArgumentError
        If none of the devices is this process's.
    """

    def __init__(self, client: Client, devices: Sequence[Device]) -> None:
        self._client = client
        self._owners = [device.process_index for device in devices]
        self._me = client.process_index()
        numbers = [i for i, owner in enumerate(self._owners) if owner == self._me]
        self.local = [devices[i] for i in numbers]
        self.numbers = numbers
        if not numbers:
            msg = (
                f"process {self._me} has none of the program's devices, {list(devices)}. Call the "
                "program in the processes that have some."
            )
            raise InvalidArgumentError(msg, operation="execute")
        self._lock = threading.Lock()
        self._round = _Round()
        self.key = next(_numbers)
        _running[self.key] = self

    def check_exchanges(self) -> None:
        """Check that the devices can exchange data with other processes.

        Raises
        ------
        UnimplementedError
            If the client has no collectives, or its memory is not the host's.
        """
        client = self._client
        if not self.local[0].default_memory().is_host_visible:
            msg = (
                f"programs of the {client.platform} client cannot exchange data between processes, "
                "as their memory is not the host's. Use devrt.distributed.collectives outside of "
                "programs."
            )
            raise UnimplementedError(msg, operation="execute", platform=client.platform)
        collectives_of(client)

    def answer(self, call: DeviceCall, device: int) -> None:
        """Answer a call of one device: wait for the others, and exchange."""
        with self._lock:
            round_ = self._round
            round_.calls[device] = call
            is_last = len(round_.calls) == len(self.numbers)
            if is_last:
                self._round = _Round()
        if is_last:
            self._exchange(round_)
        elif not round_.done.wait(_WAIT_SECONDS):
            missing = sorted(set(self.numbers) - round_.calls.keys())
            msg = (
                f"device {device} of a program waited {_WAIT_SECONDS:g} s at a collective for "
                f"devices {missing} of its own process. Look for their errors."
            )
            raise DeadlineExceededError(msg, operation="collective")
        if round_.error is not None:
            raise round_.error

    def _exchange(self, round_: _Round) -> None:
        try:
            self._run(round_.calls)
        except BaseException as error:  # noqa: BLE001  the other devices must not wait for ever
            round_.error = error
        finally:
            round_.done.set()

    def _run(self, calls: dict[int, DeviceCall]) -> None:
        plans = {device: _plan(**_frozen(call.attributes)) for device, call in calls.items()}
        plan, *others = plans.values()
        if any(other != plan for other in others):
            msg = f"devices of one program are at different collectives: {plans}."
            raise InvalidArgumentError(msg, operation="collective")
        given = {device: _array(call.arguments[2]) for device, call in calls.items()}
        results = {device: _array(call.results[1]) for device, call in calls.items()}
        exchange(plan, given, results, self._owners, self._me, self._connected)
        for call in calls.values():
            _array(call.results[0])[...] = 0

    def _connected(self, processes: tuple[int, ...]) -> HostCollectives:
        known = _communicators.setdefault(self._client, {})
        found = known.get(processes)
        if found is None:
            found = known[processes] = collectives_of(self._client).make_communicator(
                processes, processes.index(self._me)
            )
        return found


class _Round:
    """One collective of a program, as its devices of this process come to it."""

    def __init__(self) -> None:
        self.calls: dict[int, DeviceCall] = {}
        self.done = threading.Event()
        self.error: BaseException | None = None


def answer(call: DeviceCall) -> None:
    """Answer a custom call of a program; its first argument says of which, and of which device."""
    device, key = _array(call.arguments[0]).tolist()
    devices = _running.get(key)
    if devices is None:
        msg = "the program that calls a collective is gone."
        raise InvalidArgumentError(msg, operation="collective")
    devices.answer(call, device)


@functools.lru_cache(maxsize=1024)
def _plan(kind: str, op: str, groups: tuple[int, ...], width: int, axis: int, other: int) -> Plan:
    rows = [groups[i : i + width] for i in range(0, len(groups), width)]
    members = tuple(tuple(device for device in row if device >= 0) for row in rows)
    return Plan(kind, op, members, axis, other)


def _frozen(attributes: dict[str, Any]) -> dict[str, Any]:
    return {**attributes, "groups": tuple(np.asarray(attributes["groups"]).tolist())}


def _array(buffer: RawBuffer) -> np.ndarray[Any, Any]:
    """Return a program's memory as an array; it is dense, in row-major order."""
    size = math.prod(buffer.shape) * buffer.dtype.itemsize
    if not size:
        return np.empty(buffer.shape, buffer.dtype)
    raw: Any = (ctypes.c_uint8 * size).from_address(buffer.address)
    made: np.ndarray[Any, Any] = np.frombuffer(raw, np.uint8)
    return made.view(buffer.dtype).reshape(buffer.shape)
