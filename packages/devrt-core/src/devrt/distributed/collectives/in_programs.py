"""What answers the collectives of programs that run on the devices of several processes.

A program's devices run at once, each in a thread of the compiler's. The last one that comes to a
collective exchanges with the other processes for all of them. Programs begin their collectives one
after the other, each with the next number, by which those of several devices are the same one.
A call that only begins one leaves the exchange to a lane, a thread with connections of its own, and
waits for nothing: so no order in which a compiler runs calls keeps processes waiting for ever.
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

from devrt._support import caches
from devrt.distributed.agreeing import Fact, agree
from devrt.distributed.collectives.among_devices import (
    Exchange,
    Plan,
    is_in_place,
    result_shape,
)
from devrt.distributed.collectives.host import HostCollectives
from devrt.distributed.collectives.lanes import Lane
from devrt.errors import DeadlineExceededError, InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from devrt.contract import Client, CpuCollectives, Device, DeviceCall, RawBuffer

__all__ = ["ProgramDevices", "answer", "collectives_of", "use_collectives"]

_given: weakref.WeakKeyDictionary[Any, CpuCollectives] = weakref.WeakKeyDictionary()
_communicators: weakref.WeakKeyDictionary[Any, dict[tuple[tuple[int, ...], int], HostCollectives]]
_communicators = weakref.WeakKeyDictionary()
_running: weakref.WeakValueDictionary[int, ProgramDevices] = weakref.WeakValueDictionary()
_numbers = itertools.count()
_WAIT_SECONDS = 600.0  # beyond the deadline of any exchange that another device is in
_LARGE, _KEPT = 64 << 10, 256 << 20  # bytes

Array = np.ndarray[Any, np.dtype[Any]]
_Number = ctypes.c_int32
_Pair = _Number * 2


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
        self._rounds: dict[int, _Round] = {}
        self._lanes: dict[int, Lane] = {}
        self._exchanges: dict[str, _Planned] = {}
        self.key = next(_numbers)
        _running[self.key] = self

    def check_exchanges(self) -> None:
        """Check that the devices can exchange data with other processes.

        Raises
        ------
        UnimplementedError
            If the client has no collectives, or what programs call gets memory that is not the
            host's.
        """
        client = self._client
        is_visible = self.local[0].default_memory().is_host_visible
        if not (is_visible or client.capabilities.calls_on_host):
            msg = (
                f"programs of the {client.platform} client cannot exchange data between processes: "
                "its compiler knows the devices of this process only, and their memory is not the "
                "host's. Call devrt.distributed.initialize() in every process before the first use "
                "of devices, or exchange the data outside of programs by "
                "client.collectives(devices)."
            )
            raise UnimplementedError(msg, operation="execute", platform=client.platform)
        collectives_of(client)

    def agree(self, name: str, facts: Sequence[Fact]) -> None:
        """Check that the devices' processes run the same program; see `agreeing.agree`."""
        agree(name, facts, sorted(set(self._owners)), self._me)

    def connect(self, plans: Sequence[str]) -> None:
        """Connect the processes of a program's calls; each of them does, before the first one.

        Parameters
        ----------
        plans
            What the calls exchange, in the program's order, which is one for all processes.
        """
        for text in plans:
            if text in self._exchanges:
                continue
            plan, number = _plan(text)
            connect = functools.partial(self._peers, lane=number)
            exchange = Exchange(plan, self._owners, self._me, connect)
            lane = self._lanes.setdefault(number, Lane())
            self._exchanges[text] = _Planned(plan, exchange, lane)

    def answer(self, call: DeviceCall, device: int) -> None:
        """Answer a call of one device: wait for the others, and exchange."""
        ticket = _number(call.arguments[1])
        given, result = _array(call.arguments[2]), _array(call.results[1])
        if len(self.numbers) == 1:
            planned = self._exchanges[call.attributes["plan"]]
            planned.lane.run(lambda: planned.exchange.run({device: given}, {device: result}))
        else:
            self._meet(call, ticket, device, given, result)
        _set_number(call.results[0], ticket + 1)

    def _meet(
        self, call: DeviceCall, ticket: int, device: int, given: Array, result: Array
    ) -> None:
        """Have the last device that comes exchange for all."""
        round_, is_last = self._come(call, ticket, device, given, result)
        if is_last:
            round_.planned.lane.run(round_.exchange)
        self._wait(round_, device)
        self._leave(round_, ticket, device)

    def begin(self, call: DeviceCall, device: int) -> None:
        """Take what a device gives; the last device's lets the exchange begin."""
        ticket = _number(call.arguments[1])
        x = _array(call.arguments[2])
        plan = self._exchanges[call.attributes["plan"]].plan
        given = _staging.take(x.shape, x.dtype)
        given[...] = x
        result = given if is_in_place(plan) else _staging.take(result_shape(plan, x.shape), x.dtype)
        round_, is_last = self._come(call, ticket, device, given, result)
        if is_last:
            round_.planned.lane.submit(round_.exchange)
        _set_number(call.results[0], ticket + 1)

    def end(self, call: DeviceCall, device: int) -> None:
        """Give a device what an exchange that it began has brought."""
        order, ticket = _number(call.arguments[1]), _number(call.arguments[2]) - 1
        round_ = self._rounds[_wrapped(ticket)]
        self._wait(round_, device)
        result = round_.results[device]
        _array(call.results[1])[...] = result
        _staging.give(result)
        if round_.given[device] is not result:
            _staging.give(round_.given[device])
        self._leave(round_, ticket, device)
        _set_number(call.results[0], order)

    def _come(
        self, call: DeviceCall, ticket: int, device: int, given: Array, result: Array
    ) -> tuple[_Round, bool]:
        """Add a device to a collective; return that, and whether all devices have come."""
        text = call.attributes["plan"]
        with self._lock:
            round_ = self._rounds.get(_wrapped(ticket))
            if round_ is None:
                round_ = self._rounds[_wrapped(ticket)] = _Round(text, self._exchanges[text])
            if round_.text != text:
                msg = f"devices of one program are at different collectives: {text}, {round_.text}."
                raise InvalidArgumentError(msg, operation="collective")
            round_.given[device], round_.results[device] = given, result
            return round_, len(round_.given) == len(self.numbers)

    def _leave(self, round_: _Round, ticket: int, device: int) -> None:
        with self._lock:
            round_.left.add(device)
            if len(round_.left) == len(self.numbers):
                del self._rounds[_wrapped(ticket)]

    def _wait(self, round_: _Round, device: int) -> None:
        if not round_.done.wait(_WAIT_SECONDS):
            missing = sorted(set(self.numbers) - round_.given.keys())
            msg = (
                f"device {device} of a program waited {_WAIT_SECONDS:g} s at a collective for "
                f"devices {missing} of its own process. Look for their errors."
            )
            raise DeadlineExceededError(msg, operation="collective")
        if round_.error is not None:
            raise round_.error

    def _peers(self, processes: tuple[int, ...], lane: int) -> HostCollectives:
        known = _communicators.setdefault(self._client, {})
        found = known.get((processes, lane))
        if found is None:
            found = collectives_of(self._client).make_communicator(
                processes, processes.index(self._me)
            )
            known[processes, lane] = found
        return found


class _Planned:
    """What a program's calls of one kind exchange, and on which lane."""

    def __init__(self, plan: Plan, exchange: Exchange, lane: Lane) -> None:
        self.plan = plan
        self.exchange = exchange
        self.lane = lane


class _Round:
    """One collective of a program, as its devices of this process come to it."""

    def __init__(self, text: str, planned: _Planned) -> None:
        self.text = text
        self.planned = planned
        self.given: dict[int, Array] = {}
        self.results: dict[int, Array] = {}
        self.left: set[int] = set()
        self.done = threading.Event()
        self.error: BaseException | None = None

    def exchange(self) -> None:
        """Exchange for all devices; an error is theirs."""
        try:
            self.planned.exchange.run(self.given, self.results)
        except BaseException as error:  # noqa: BLE001  the other devices must not wait for ever
            self.error = error
        finally:
            self.done.set()


class _Staging:
    """Memory of the host for what is under way; large blocks are kept for the next time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: dict[int, list[Array]] = {}
        self._bytes = 0

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array."""
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            blocks = self._blocks.get(size)
            block = blocks.pop() if blocks else None
            self._bytes -= 0 if block is None else size
        found: Array = np.empty(size, np.uint8) if block is None else block
        return found.view(dtype).reshape(shape)

    def give(self, array: Array) -> None:
        """Take an array back, which nobody uses any more."""
        size = array.nbytes
        with self._lock:
            if size >= _LARGE and self._bytes + size <= _KEPT:
                self._blocks.setdefault(size, []).append(array.reshape(-1).view(np.uint8))
                self._bytes += size

    def clear(self) -> None:
        """Release what is kept."""
        with self._lock:
            self._blocks.clear()
            self._bytes = 0


_staging = _Staging()
caches.register(_staging.clear)


def answer(call: DeviceCall) -> None:
    """Answer a custom call of a program; its first argument says of which, and of which device."""
    device, devices = _caller(call)
    devices.answer(call, device)


def begin(call: DeviceCall) -> None:
    """Answer the custom call that begins a collective."""
    device, devices = _caller(call)
    devices.begin(call, device)


def end(call: DeviceCall) -> None:
    """Answer the custom call that ends a collective."""
    device, devices = _caller(call)
    devices.end(call, device)


def _caller(call: DeviceCall) -> tuple[int, ProgramDevices]:
    device, key = _Pair.from_address(call.arguments[0].address)
    devices = _running.get(key)
    if devices is None:
        msg = "the program that calls a collective is gone."
        raise InvalidArgumentError(msg, operation="collective")
    return device, devices


def _plan(text: str) -> tuple[Plan, int]:
    """Return what a call exchanges, and on which lane."""
    lane, kind, op, axis, other, width, *numbers = text.split()
    step, devices = int(width), tuple(map(int, numbers))
    rows = [devices[i : i + step] for i in range(0, len(devices), step)]
    members = tuple(tuple(device for device in row if device >= 0) for row in rows)
    return Plan(kind, op, members, int(axis), int(other)), int(lane)


def _number(buffer: RawBuffer) -> int:
    return _Number.from_address(buffer.address).value


def _set_number(buffer: RawBuffer, value: int) -> None:
    _Number.from_address(buffer.address).value = value  # which wraps around


def _wrapped(ticket: int) -> int:
    """Return a ticket as the key of its collective, of numbers that wrap around."""
    return ticket & 0xFFFFFFFF


def _array(buffer: RawBuffer) -> Array:
    """Return a program's memory as an array; it is dense, in row-major order."""
    size = math.prod(buffer.shape) * buffer.dtype.itemsize
    if not size:
        return np.empty(buffer.shape, buffer.dtype)
    raw: Any = (ctypes.c_uint8 * size).from_address(buffer.address)
    return np.ndarray(buffer.shape, buffer.dtype, raw)
