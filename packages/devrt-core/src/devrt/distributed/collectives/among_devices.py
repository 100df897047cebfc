"""Collectives between the devices of several processes, each of which has some of them.

What a process's own devices have is put together here, so that one exchange between processes
serves all of them. Groups of devices that span the same processes are exchanged together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from devrt._support.record import record
from devrt.distributed.collectives.host import HostCollectives
from devrt.distributed.collectives.reductions import (
    finished,
    is_native,
    prepared,
    reduce_into,
    reduced,
)
from devrt.errors import UnimplementedError

__all__ = ["Connect", "Exchange", "Plan", "is_in_place", "result_shape"]

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[int, Array]
"""By the numbers of devices."""

Connect = Callable[[tuple[int, ...]], HostCollectives]
"""Returns the communicator of some processes, in ascending order; each is one rank."""

_REDUCTIONS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod"}


@record(frozen=True, slots=True)
class Plan:
    """What the devices of a program exchange.

    Attributes
    ----------
    kind : str
        The operation, by StableHLO's name.
    op : str
        What a reduction does with two elements, by StableHLO's name.
    groups : tuple of tuple of int
        The devices that exchange with each other, in order; of a permutation pairs of a source and
        a target.
    axis, other : int
        The dimension that is divided or joined; that along which an all-to-all joins.
    """

    kind: str
    op: str
    groups: tuple[tuple[int, ...], ...]
    axis: int
    other: int


class _Part:
    """The groups that span the same processes, as one of these sees them."""

    def __init__(
        self,
        plan: Plan,
        processes: tuple[int, ...],
        groups: tuple[tuple[int, ...], ...],
        owners: Sequence[int],
        me: int,
        peers: HostCollectives | None,
    ) -> None:
        self.plan = plan
        self.processes = processes
        self.groups = groups
        self.owners = owners
        self.peers = peers
        self.mine = [self.members(group, me) for group in groups]

    def members(self, group: Sequence[int], process: int) -> list[int]:
        """Return the devices of a group that a process has."""
        return [device for device in group if self.owners[device] == process]

    @functools.cached_property
    def most(self) -> int:
        """How many devices a process has in a group at most: blocks are padded to it."""
        return max(len(self.members(g, p)) for g in self.groups for p in self.processes)

    @functools.cached_property
    def is_even(self) -> bool:
        """Whether every process has as many devices in each group as any other."""
        most = self.most
        return all(len(self.members(g, p)) == most for g in self.groups for p in self.processes)


class Exchange:
    """What a process does for a plan; prepared once, and run as often as a program does it.

    Every process that has some of the devices makes one, and runs it as often as the others.

    Parameters
    ----------
    plan
        What is exchanged.
    owners
        The process of each device.
    me
        This process.
    connect
        Returns a communicator; processes that come for several come for them in one order.

    Raises
    ------
    UnimplementedError
        If no processes can exchange so. What ``connect`` raises goes through.
    """

    def __init__(self, plan: Plan, owners: Sequence[int], me: int, connect: Connect) -> None:
        run = _KINDS.get(plan.kind)
        if run is None or (plan.kind in _REDUCING and plan.op not in _REDUCTIONS):
            msg = f"{plan.kind} {plan.op} cannot be done between processes. Use psum, pmax or pmin."
            raise UnimplementedError(msg, operation=plan.kind)
        self._run = run
        self._fills = plan.kind == "collective_permute"  # who gets nothing has zeros
        self._parts = [
            _Part(plan, of, groups, owners, me, connect(of) if len(of) > 1 else None)
            for of, groups in _by_processes(plan, owners)
            if me in of
        ]

    def run(self, given: Arrays, results: Arrays) -> None:
        """Exchange what each device of this process gives; results are filled.

        Parameters
        ----------
        given, results
            Dense arrays, by the devices' numbers; those of a plan that is done in place may be the
            same.
        """
        if self._fills:
            for result in results.values():
                result[...] = 0
        for part in self._parts:
            self._run(part, given, results)


def result_shape(plan: Plan, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of what a device gets for an array of some shape."""
    made, count = list(shape), len(plan.groups[0]) if plan.groups else 1
    if plan.kind == "all_gather":
        made[plan.axis] *= count
    elif plan.kind in ("all_to_all", "reduce_scatter"):
        made[plan.axis] //= count
    if plan.kind == "all_to_all":
        made[plan.other] *= count
    return tuple(made)


def is_in_place(plan: Plan) -> bool:
    """Return whether a result may lie where its device's array does."""
    return plan.kind == "all_reduce"


def _by_processes(
    plan: Plan, owners: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]]:
    """Yield sets of processes and their groups.

    All processes go through them in one order, so that they never wait for each other in a circle.
    """
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    if plan.kind == "collective_permute":
        crossing = [pair for pair in plan.groups if owners[pair[0]] != owners[pair[1]]]
        inside = [pair for pair in plan.groups if pair not in crossing]
        for pair in inside:
            found.setdefault((owners[pair[0]],), []).append(pair)
        processes = tuple(sorted({owners[device] for pair in crossing for device in pair}))
        if crossing:
            found[processes] = crossing
    else:
        for group in plan.groups:
            processes = tuple(sorted({owners[device] for device in group}))
            found.setdefault(processes, []).append(group)
    for processes in sorted(found):
        yield processes, tuple(found[processes])


# -- reductions -----------------------------------------------------------------------------------


def _totals(part: _Part, given: Arrays) -> list[Array]:
    """Return the reduction of each group, in the dtype that is reduced in."""
    op = _REDUCTIONS[part.plan.op]
    mine = [
        reduced([prepared(given[device]).reshape(-1) for device in devices], op)
        for devices in part.mine
    ]
    if part.peers is None:
        return mine
    flat = mine[0] if len(mine) == 1 else np.concatenate(mine)
    total = part.peers.all_reduce([flat], op)[0]
    return list(total.reshape(len(part.groups), -1))


def _all_reduce(part: _Part, given: Arrays, results: Arrays) -> None:
    op = _REDUCTIONS[part.plan.op]
    if len(part.groups) == 1 and is_native(results[part.mine[0][0]].dtype):
        _all_reduce_in_place(part, op, given, results)
        return
    for devices, total in zip(part.mine, _totals(part, given), strict=True):
        for device in devices:
            result = results[device]
            result[...] = finished(total, result.dtype, op, 1).reshape(result.shape)


def _all_reduce_in_place(part: _Part, op: str, given: Arrays, results: Arrays) -> None:
    """Reduce in the memory of a result: large arrays are copied once."""
    first, *rest = part.mine[0]
    total = results[first]
    reduce_into(total, [given[device] for device in (first, *rest)], op)
    if part.peers is not None:
        part.peers.all_reduce_in_place(total, op)
    for device in rest:
        results[device][...] = total


def _reduce_scatter(part: _Part, given: Arrays, results: Arrays) -> None:
    if part.peers is not None and part.is_even:
        _reduce_scatter_even(part, part.peers, given, results)
        return
    op, axis = _REDUCTIONS[part.plan.op], part.plan.axis
    totals = zip(part.groups, part.mine, _totals(part, given), strict=True)
    for group, devices, total in totals:
        for device in devices:
            result = results[device]
            whole = finished(total, result.dtype, op, 1).reshape(given[device].shape)
            result[...] = np.split(whole, len(group), axis)[group.index(device)]


def _reduce_scatter_even(
    part: _Part, peers: HostCollectives, given: Arrays, results: Arrays
) -> None:
    """Reduce where each process gets no more than what its devices do."""
    op, axis = _REDUCTIONS[part.plan.op], part.plan.axis
    count = len(part.groups)
    sent: Array | None = None
    for number, group in enumerate(part.groups):
        total = reduced([prepared(given[device]) for device in part.mine[number]], op)
        pieces = np.split(total, len(group), axis)
        if sent is None:
            shape = (len(part.processes), count, part.most, *pieces[0].shape)
            sent = np.empty(shape, total.dtype)
        for device, piece in zip(group, pieces, strict=True):
            rank, at = _place(part, group, device)
            sent[rank, number, at] = piece
    found = peers.reduce_scatter([sent], op)[0]
    for number, devices in enumerate(part.mine):
        for at, device in enumerate(devices):
            result = results[device]
            result[...] = finished(found[number, at], result.dtype, op, 1)


# -- movements ------------------------------------------------------------------------------------


def _all_gather(part: _Part, given: Arrays, results: Arrays) -> None:
    found = _gathered(part, given)
    for number, group in enumerate(part.groups):
        places = [_place(part, group, device) for device in group]
        blocks = [found[rank, number, at] for rank, at in places]
        first, *rest = part.mine[number]
        np.concatenate(blocks, part.plan.axis, out=results[first])
        for device in rest:
            results[device][...] = results[first]


def _gathered(part: _Part, given: Arrays) -> Array:
    """Return all blocks, by process, group and place among the process's devices of the group."""
    sample = given[part.mine[0][0]]
    mine = np.zeros((len(part.groups), part.most, *sample.shape), sample.dtype)
    for number, devices in enumerate(part.mine):
        for at, device in enumerate(devices):
            mine[number, at] = given[device]
    return mine[np.newaxis] if part.peers is None else part.peers.all_gather([mine])[0]


def _place(part: _Part, group: Sequence[int], device: int) -> tuple[int, int]:
    """Return the rank of a device's process, and its place among its devices of the group."""
    process = part.owners[device]
    return part.processes.index(process), part.members(group, process).index(device)


def _all_to_all(part: _Part, given: Arrays, results: Arrays) -> None:
    plan, most = part.plan, part.most
    pieces = {
        device: np.split(given[device], len(group), plan.axis)
        for group, devices in zip(part.groups, part.mine, strict=True)
        for device in devices
    }
    sample = next(iter(pieces.values()))[0]
    shape = (len(part.processes), len(part.groups), most, most, *sample.shape)
    sent = np.zeros(shape, sample.dtype)
    for number, group in enumerate(part.groups):
        for i, device in enumerate(part.mine[number]):
            for target, piece in zip(group, pieces[device], strict=True):
                rank, j = _place(part, group, target)
                sent[rank, number, i, j] = piece
    found = sent if part.peers is None else part.peers.all_to_all([sent])[0]
    for number, group in enumerate(part.groups):
        sources = [_place(part, group, device) for device in group]
        for j, device in enumerate(part.mine[number]):
            blocks = [found[rank, number, i, j] for rank, i in sources]
            np.concatenate(blocks, plan.other, out=results[device])


def _permute(part: _Part, given: Arrays, results: Arrays) -> None:
    if part.peers is None:
        for source, target in part.groups:
            results[target][...] = given[source]
        return
    ranks = [
        tuple(part.processes.index(part.owners[device]) for device in pair) for pair in part.groups
    ]
    is_simple = all(len(set(ends)) == len(ends) for ends in zip(*ranks, strict=True))
    move = _permute_one if is_simple else _permute_several
    move(part, ranks, given, results)


def _permute_one(part: _Part, ranks: list[tuple[int, ...]], given: Arrays, results: Arrays) -> None:
    """Send at most one block from each process, and to each."""
    assert part.peers is not None
    out = [source for source, _ in part.groups if source in given]
    into = [target for _, target in part.groups if target in results]
    x = given[out[0]] if out else np.zeros_like(next(iter(given.values())))
    found = part.peers.permute([x], [(a, b) for a, b in ranks])[0]
    if into:
        results[into[0]][...] = found


def _permute_several(
    part: _Part, ranks: list[tuple[int, ...]], given: Arrays, results: Arrays
) -> None:
    """Send the blocks for each process together, padded to the most that any two exchange."""
    assert part.peers is not None
    sample = next(iter(given.values()))
    most = max(ranks.count(pair) for pair in ranks)
    sent = np.zeros((len(part.processes), most, *sample.shape), sample.dtype)
    counts: dict[tuple[int, ...], int] = {}
    slots = []
    for pair in ranks:
        slots.append(counts.get(pair, 0))
        counts[pair] = slots[-1] + 1
    for (source, _), (_, rank), slot in zip(part.groups, ranks, slots, strict=True):
        if source in given:
            sent[rank, slot] = given[source]
    found = part.peers.all_to_all([sent])[0]
    for (_, target), (rank, _), slot in zip(part.groups, ranks, slots, strict=True):
        if target in results:
            results[target][...] = found[rank, slot]


_REDUCING = ("all_reduce", "reduce_scatter")
_KINDS: dict[str, Callable[[_Part, Arrays, Arrays], None]] = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "collective_permute": _permute,
    "reduce_scatter": _reduce_scatter,
}
