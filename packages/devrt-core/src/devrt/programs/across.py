"""Programs on the devices of several processes.

Each process runs a program of its own devices, the same in every process. Where a client's
compiler knows the devices of all processes, it is the program of all of them. Elsewhere it is that
of one device (`devrt.tracing.local_program`), which runs on each with its blocks, and whose
collectives are calls of the host (`devrt.distributed.collectives`).
"""

from __future__ import annotations

import atexit
import contextlib
import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from devrt._support import caches
from devrt.arrays import Array
from devrt.errors import DevrtError, InvalidArgumentError
from devrt.programs.launch import Launch
from devrt.programs.own_targets import answered
from devrt.programs.sdy import over_mesh
from devrt.runtime.plugin_errors import check_count
from devrt.sharding import NamedSharding, PartitionSpec, Sharding, is_addressable
from devrt.tracing import (
    COLLECTIVE_BEGIN,
    COLLECTIVE_END,
    COLLECTIVE_TARGET,
    Division,
    Meshes,
    local_program,
    print_module,
)

if TYPE_CHECKING:
    from devrt.contract import Buffer, Client, Device, LoadedExecutable
    from devrt.distributed.agreeing import Fact
    from devrt.distributed.collectives.in_programs import ProgramDevices
    from devrt.programs.leaves import Kind
    from devrt.programs.placement import Placement
    from devrt.programs.traced import Trace
    from devrt.tracing import Printed

__all__ = ["Across", "answer_collectives", "by_calls"]

_PLAN = re.compile(r'\bplan = "([^"]*)"')


def by_calls(devices: Sequence[Device]) -> bool:
    """Return whether a program on some devices exchanges data by calls of the host.

    That is so where they are of several processes, and their client's compiler knows those of this
    one only. This is the one place where it is decided.
    """
    remote = [device for device in devices if not is_addressable(device)]
    return bool(remote) and not devices[0].client.capabilities.programs_across_processes


def _raise_elsewhere(name: str, device: Device) -> NoReturn:
    msg = (
        f"program '{name}' cannot run here: {device} belongs to process {device.process_index}, "
        "and none of its devices to this one. Run it there, or on one of devrt.local_devices()."
    )
    raise InvalidArgumentError(msg, operation="execute", device=str(device))


def answer_collectives(text: str, devices: Sequence[Device]) -> str:
    """Let a program of this process's devices reach the collectives; return what is compiled."""
    if COLLECTIVE_TARGET not in text or not devices:
        return text
    from devrt.distributed.collectives.in_programs import answer, begin, end

    client = devices[0].client
    for target, function in (
        (COLLECTIVE_TARGET, answer),
        (COLLECTIVE_BEGIN, begin),
        (COLLECTIVE_END, end),
    ):
        text = answered(text, client, target, function, "device")
    return text


class Across(NamedTuple):
    """A traced function as the program of one device.

    Attributes
    ----------
    text : Printed
        The program.
    hidden, arguments, results : sequence of Sharding
        How the whole arrays lie: those that it closes over, its arguments and its results.
    plans : tuple of str
        What its calls exchange.
    """

    text: Printed
    hidden: tuple[Sharding, ...]
    arguments: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    plans: tuple[str, ...]

    @classmethod
    def of(
        cls, trace: Trace, placement: Placement, hidden: Sequence[Any], donors: Sequence[str]
    ) -> Across:
        """Return the program of a trace.

        Parameters
        ----------
        trace, placement
            The trace, and where it runs.
        hidden
            How the arrays lie that it closes over.
        donors
            The attribute of each argument whose memory the program may take, else nothing.

        Raises
        ------
        InvalidArgumentError
            If none of its devices is this process's.
        UnimplementedError
            If it needs more than collectives to exchange data.
        """
        if not placement.local_devices:
            _raise_elsewhere(trace.name, placement.devices[0])
        whole = NamedSharding(placement.meshes[0], PartitionSpec())
        given = [each or whole for each in (*hidden, *placement.arguments)]
        named = [over_mesh(s).mesh for s in (*given, *placement.results) if s is not None]
        meshes = Meshes([*placement.meshes, *named, *trace.meshes], placement.devices)
        avals = _avals(trace)
        made = local_program(
            trace.graph,
            meshes,
            [_division(s, a.ndim, meshes) for s, a in zip(given, avals, strict=True)],
            [
                None if s is None else _division(s, a.ndim, meshes)
                for s, a in zip(placement.results, trace.out_avals, strict=True)
            ],
        )
        text = print_module(
            made.graph,
            f"jit_{trace.name}",
            arguments=[*[""] * len(trace.hidden), *donors, "", ""],
            replicas=len(placement.local_devices),
        )
        for callback, division in made.inspected:
            callback(_sharding(division, whole))
        results = [
            wanted or _sharding(division, whole)
            for wanted, division in zip(placement.results, made.results, strict=True)
        ]
        count = len(trace.hidden)
        places = tuple(given[:count]), tuple(given[count:]), tuple(results)
        return cls(text, *places, made.plans)

    def launch(
        self, executable: LoadedExecutable, trace: Trace, kinds: Sequence[Kind], place: Placement
    ) -> Launch:
        """Return the program as calls use it."""
        return _Launch(executable, trace, kinds, place, self)

    def facts(self, trace: Trace, place: Placement) -> list[Fact]:
        """Return what of the program must be equal in all processes."""
        if not self.plans:
            return []
        places = zip((*self.hidden, *self.arguments), _avals(trace), strict=True)
        facts = [("its devices", str([device.id for device in place.devices]), "")]
        facts += [(f"argument {i}", f"{aval}, {lies}", "") for i, (lies, aval) in enumerate(places)]
        lines = [
            (line.strip(), self._user_line(number))
            for number, line in enumerate(self.text.text.splitlines(), 1)
        ][1:]  # the first counts this process's devices
        calls = [
            (f"{plan[1]} of {line.rpartition(' : ')[2]}", at)
            for line, at in lines
            if (plan := _PLAN.search(line))
        ]
        facts += [(f"collective {i}", *call) for i, call in enumerate(calls)]
        return [*facts, *((f"operation {i}", *line) for i, line in enumerate(lines))]

    def _user_line(self, number: int) -> str:
        frame = self.text.frames.get(number)
        return str(frame) if frame is not None and frame.line else ""


def _avals(trace: Trace) -> list[Any]:
    """Return the types of the arrays that a function closes over, and of its arguments."""
    return [*(value.aval for _, value in trace.graph.hidden.values()), *trace.avals]


def _division(sharding: Sharding, ndim: int, meshes: Meshes) -> Division:
    named = over_mesh(sharding)
    return Division.of(named.mesh, named.spec, ndim, meshes)


def _sharding(division: Division, whole: NamedSharding) -> NamedSharding:
    if division.spec is None:
        return whole
    return NamedSharding(division.mesh, division.spec)


class _Launch(Launch):
    """A program whose devices exchange data by calls of the host; see `Launch`."""

    def __init__(
        self,
        executable: LoadedExecutable,
        trace: Trace,
        kinds: Sequence[Kind],
        placement: Placement,
        across: Across,
    ) -> None:
        client = executable.client
        self._group = _group_of(client, placement.devices)
        if across.plans:
            self._group.check_exchanges()
        self._plans = across.plans
        self._name = trace.name
        self._facts: Sequence[Fact] = across.facts(trace, placement)
        self._is_connected = not across.plans
        # What exchanges nothing need not wait, nor be waited for.
        self._order = _order_of(client) if across.plans else _Order()
        pairs = zip(self._group.numbers, self._group.local, strict=True)
        self._places = [_scalar([n, self._group.key], device) for n, device in pairs]
        places = across.hidden, across.arguments, across.results
        super().__init__(executable, trace, kinds, placement, *places)

    def caller(self, *, gives_one: bool) -> None:
        """Return None: a call takes what the one before it gave."""
        return

    def _executed(self, arrays: Sequence[Array]) -> list[Array]:
        """Run the program on this process's devices, after the one that was started last."""
        rows: list[Sequence[Buffer]] = [*self._hidden]
        rows += [p.shards(array) for p, array in zip(self._parameters, arrays, strict=True)]
        order = self._order
        with order.lock:
            if not self._is_connected:
                self._group.agree(self._name, self._facts)
                self._group.connect(self._plans)
                self._facts = ()
                self._is_connected = True
            rows += [self._places, order.ends(self._group.local)]
            results = self.executable.execute_sharded(rows)
            if self._plans:
                order.last = dict(zip(self._group.local, results[-1], strict=True))
        check_count(results[:-1], len(self._gives), self.executable.client, "execute")
        return self._arrays(results[:-1])


class _Order:
    """The order of a client's programs: each begins its collectives after the one before it.

    So all processes are at the same collective, as they start the same programs in one order. What
    has failed stays failed: its processes are no longer at the same one.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last: dict[Device, Buffer] = {}

    def ends(self, devices: Sequence[Device]) -> list[Buffer]:
        """Return the end of the last program, on each device."""
        if self.last.keys() != set(devices):
            self.wait()
            self.last = {device: _scalar(0, device) for device in devices}
        return [self.last[device] for device in devices]

    def wait(self) -> None:
        """Wait for the last program; raise its error."""
        for end in self.last.values():
            end.block_until_ready()


_orders: dict[Client, _Order] = {}
_groups: dict[tuple[Device, ...], ProgramDevices] = {}
"""Programs call by them when their functions are gone."""

_lock = threading.Lock()


def _group_of(client: Client, devices: tuple[Device, ...]) -> ProgramDevices:
    from devrt.distributed.collectives.in_programs import ProgramDevices

    with _lock:
        if devices not in _groups:
            _groups[devices] = ProgramDevices(client, devices)
        return _groups[devices]


def _order_of(client: Client) -> _Order:
    with _lock:
        return _orders.setdefault(client, _Order())


@atexit.register  # before the clients are closed that they run on
@caches.register
def _forget_orders() -> None:
    """Wait for the programs that run, and forget them: who asks for their results has the error."""
    with _lock:
        orders, groups = list(_orders.values()), dict(_groups)
        _orders.clear()
        _groups.clear()
    for order in orders:
        with contextlib.suppress(DevrtError):
            order.wait()
    groups.clear()  # not before the programs have ended that call by them


@caches.register_of_clients
def _forget_closed() -> None:
    with _lock:
        for client in [each for each in _orders if each.is_closed]:
            del _orders[client]
        for devices in [each for each in _groups if each[0].client.is_closed]:
            del _groups[devices]


def _scalar(value: Any, device: Device) -> Buffer:
    buffer: Buffer = device.client.buffer_from_pyval(np.array(value, np.int32), device)
    return buffer
