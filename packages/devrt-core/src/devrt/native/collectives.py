"""Collectives between GPUs, of a process or of several: ``client.collectives()``.

The native half, which orders them and sees to their ends, is ``src/client/collectives.cpp`` and
``src/gpu/communicator.cpp``.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt._support.record import record
from devrt.contract import REDUCTIONS, Buffer, Collectives
from devrt.errors import (
    BackendUnavailableError,
    DevrtError,
    InvalidArgumentError,
    InvalidTypeError,
    StatusCode,
)
from devrt.native.gpu_simulation import is_simulated
from devrt.native.references import resolve
from devrt.native.timeouts import checked_milliseconds

if TYPE_CHECKING:
    from devrt.contract import Device
    from devrt.native.group_span import GroupSpan
    from devrt.native.wheel_libraries import VendorLibrary

__all__ = ["CollectiveLibrary", "DeviceCollectives"]


@record(frozen=True, slots=True, kw_only=True)
class CollectiveLibrary:
    """A vendor's library for collectives.

    Attributes
    ----------
    prefix : str
        What the names of its functions begin with (``"accl"``).
    library : VendorLibrary
        Where it is.
    """

    prefix: str
    library: VendorLibrary


class DeviceCollectives(Collectives):
    """The group of some devices of one client; made by ``client.collectives``.

    Its members take arrays of one device each (`devrt.Array` or `devrt.contract.Buffer`), or one
    array that has a shard on each of the devices, and return arrays of one device. The caller waits
    for nothing: a collective begins behind what fills its arguments.

    Where devices are of other processes, these give and get the arrays of their own devices, and
    make the same calls in the same order.

    Attributes
    ----------
    devices : tuple of Device
        The device of each rank.
    version : str
        Of the vendor's library.
    """

    def __init__(
        self, group: Any, devices: Sequence[Device], span: GroupSpan | None = None
    ) -> None:
        self._group = group
        self._span = span
        self.devices = tuple(devices)
        self._ranks = tuple(range(len(devices))) if span is None else span.ranks
        self._local = tuple(self.devices[rank] for rank in self._ranks)

    @property
    def size(self) -> int:
        """How many ranks the group has."""
        return len(self.devices)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Those of this process's devices."""
        return self._ranks

    @property
    def version(self) -> str:
        """The version of the vendor's library."""
        return str(self._group.version)

    def all_reduce(
        self, values: Sequence[Any], op: str = "sum", *, donate: bool = False
    ) -> list[Any]:
        """Combine the elements of all ranks; see `devrt.contract.Collectives.all_reduce`."""
        buffers = self._buffers(values, "all_reduce")
        return self._run("all_reduce", buffers, buffers[0].shape, op=op, donate=donate)

    def all_gather(self, values: Sequence[Any], *, tiled: bool = False) -> list[Any]:
        """Give every rank the arrays of all; see `devrt.contract.Collectives.all_gather`."""
        _check_truth(tiled, "tiled", "all_gather")
        buffers = self._buffers(values, "all_gather")
        shape = tuple(buffers[0].shape)
        if not tiled:
            return self._run("all_gather", buffers, (self.size, *shape))
        return self._run(
            "all_gather", buffers, (self.size * _first(shape, "all_gather"), *shape[1:])
        )

    def reduce_scatter(
        self, values: Sequence[Any], op: str = "sum", *, tiled: bool = False
    ) -> list[Any]:
        """Combine, and divide the result; see `devrt.contract.Collectives.reduce_scatter`."""
        _check_truth(tiled, "tiled", "reduce_scatter")
        buffers = self._buffers(values, "reduce_scatter")
        shape = tuple(buffers[0].shape)
        part = self._part(shape, "reduce_scatter")
        if not tiled and part != 1:
            msg = (
                f"reduce_scatter failed: the first axis of {shape} must have {self.size} elements, "
                "one for each rank. With tiled=True it may have a multiple."
            )
            raise InvalidArgumentError(msg, operation="reduce_scatter")
        result = (part, *shape[1:]) if tiled else shape[1:]
        return self._run("reduce_scatter", buffers, result, op=op)

    def all_to_all(self, values: Sequence[Any]) -> list[Any]:
        """Give each rank its part of all; see `devrt.contract.Collectives.all_to_all`."""
        buffers = self._buffers(values, "all_to_all")
        shape = tuple(buffers[0].shape)
        self._part(shape, "all_to_all")
        return self._run("all_to_all", buffers, shape)

    def broadcast(self, values: Sequence[Any], root: int = 0) -> list[Any]:
        """Give every rank the array of one; see `devrt.contract.Collectives.broadcast`."""
        root = _whole(root, "broadcast")
        self._check_ranks((root,), "broadcast")
        buffers = self._buffers(values, "broadcast", allows_none=True)
        is_here = root in self._ranks
        shaped = buffers[self._ranks.index(root)] if is_here else next(filter(None, buffers), None)
        if shaped is None:
            why = (
                f"rank {root}, whose array it is, gives none"
                if is_here
                else f"rank {root} is of another process, and a rank of this one must give an "
                "array of its shape and dtype"
            )
            raise InvalidArgumentError(f"broadcast failed: {why}.", operation="broadcast")
        return self._run("broadcast", buffers, shaped.shape, root=root)

    def permute(self, values: Sequence[Any], pairs: Iterable[tuple[int, int]]) -> list[Any]:
        """Send arrays to other ranks; see `devrt.contract.Collectives.permute`."""
        listed = _pairs(pairs)
        for side in zip(*listed, strict=True):
            self._check_ranks(side, "permute")
            if len({*side}) != len(side):
                msg = f"permute failed: a rank sends, or receives, more than once in {listed}."
                raise InvalidArgumentError(msg, operation="permute")
        buffers = self._buffers(values, "permute")
        return self._run("permute", buffers, buffers[0].shape, pairs=listed)

    def barrier(self) -> None:
        """Wait until every rank has come here; see `devrt.contract.Collectives.barrier`."""
        one = np.ones((), np.uint8)
        client: Any = self.devices[0].client
        for result in self.all_reduce([client.buffer_from_pyval(one, to) for to in self._local]):
            result.block_until_ready()

    def __repr__(self) -> str:
        listed = ", ".join(str(device) for device in self.devices)
        return f"DeviceCollectives({listed}; version {self.version})"

    def _run(
        self,
        kind: str,
        buffers: Sequence[Any],
        shape: Sequence[int],
        *,
        op: str = "sum",
        root: int = 0,
        pairs: Sequence[tuple[int, int]] = (),
        donate: bool = False,
    ) -> list[Any]:
        from devrt.arrays import Array

        if op not in REDUCTIONS:
            msg = f"{kind} failed: {op!r} is no reduction; use one of {', '.join(REDUCTIONS)}."
            raise InvalidArgumentError(msg, operation=kind)
        made = self._group.run(kind, buffers, shape, REDUCTIONS.index(op), root, pairs, donate)
        if self._span is not None:
            self._span.watch()
        return [Array((buffer,)) for buffer in made]

    def _buffers(self, values: Any, kind: str, *, allows_none: bool = False) -> list[Any]:
        """Return the buffer of each rank."""
        from devrt.arrays import Array

        if isinstance(values, Array):
            by_device = {each.device: each for each in values._buffers}
            if by_device.keys() != {*self._local}:
                listed = ", ".join(str(device) for device in self._local)
                msg = (
                    f"{kind} failed: the array must have a shard on each of {listed}, and no other."
                )
                raise InvalidArgumentError(msg, operation=kind)
            values = [by_device[device] for device in self._local]
        if not isinstance(values, Iterable):
            msg = f"{kind} failed: it takes a list with an array of each rank, not {values!r}."
            raise InvalidTypeError(msg, operation=kind)
        given = list(values)
        if len(given) != len(self._ranks):
            whose = "" if self._span is None else " of this process"
            msg = (
                f"{kind} failed: {len(given)} arrays are given for the {len(self._ranks)} "
                f"ranks{whose}."
            )
            raise InvalidArgumentError(msg, operation=kind)
        buffers = [
            _buffer(value, rank, kind, allows_none)
            for rank, value in zip(self._ranks, given, strict=True)
        ]
        self._check_clients(buffers, kind)
        return buffers

    def _check_clients(self, buffers: Sequence[Any], kind: str) -> None:
        for rank, buffer in zip(self._ranks, buffers, strict=True):
            if buffer is None or buffer.is_deleted():
                continue  # what was deleted has no device, and the native half says that
            if buffer.device.client is not self.devices[rank].client:
                msg = (
                    f"{kind} failed: the array of rank {rank} is another client's, on its "
                    f"{buffer.device}. Put it on {self.devices[rank]} of the group's client."
                )
                raise InvalidArgumentError(msg, operation=kind)

    def _check_ranks(self, ranks: Iterable[int], kind: str) -> None:
        for rank in ranks:
            if not 0 <= rank < self.size:
                msg = f"{kind} failed: the group has ranks 0 to {self.size - 1}, and none {rank}."
                raise InvalidArgumentError(msg, operation=kind)

    def _part(self, shape: tuple[int, ...], kind: str) -> int:
        """Return a rank's part of the first axis."""
        part, rest = divmod(_first(shape, kind), self.size)
        if rest:
            msg = (
                f"{kind} failed: the first axis of {shape} is divided among {self.size} ranks, "
                "and must be a multiple of that."
            )
            raise InvalidArgumentError(msg, operation=kind)
        return part


def collectives_member(reference: str, simulator: str) -> Callable[..., Any]:
    """Return the method ``collectives`` of a vendor's clients.

    Parameters
    ----------
    reference
        Where its `CollectiveLibrary` is: ``"module:name"``.
    simulator
        The simulator's library, which simulated devices have in place of the vendor's.
    """

    def collectives(
        self: Any, devices: Sequence[Device] | None = None, *, timeout: float = 300.0
    ) -> DeviceCollectives:
        """Return the group of some devices; see `devrt.contract.Client.collectives`."""
        milliseconds = checked_milliseconds(timeout)
        library: CollectiveLibrary = resolve(reference)
        chosen = self.local_devices() if devices is None else _own(self, devices)
        named = library.library.named()
        is_real = bool(named) or not is_simulated(self.local_devices())
        path = library.library.path("collectives") if is_real else simulator
        native = importlib.import_module(type(self).__module__)
        try:
            if any(device.process_index != self.process_index() for device in chosen):
                from devrt.native.group_span import join  # not at the top: few processes need it

                group, span = join(native, self, chosen, (path, library.prefix), milliseconds)
                return DeviceCollectives(group, chosen, span)
            group = native._connect(chosen, path, library.prefix)
        except DevrtError as error:
            is_absent = error.code is StatusCode.UNAVAILABLE and type(error) is DevrtError
            kind = BackendUnavailableError if is_absent else type(error)
            remedy = f"{library.library.variable} names it: correct that, or unset it."
            msg = f"{error.message} {remedy}" if path == named else error.message
            raise kind(msg, code=error.code, **error.data) from None
        return DeviceCollectives(group, chosen)

    return collectives


def _own(client: Any, devices: Any) -> list[Device]:
    known = client.devices()
    if not isinstance(devices, Iterable) or isinstance(devices, Set | Mapping):  # ranks have order
        msg = f"collectives failed: devices must be a list of devices, not {devices!r}."
        raise InvalidTypeError(msg, operation="collectives", platform=client.platform)
    chosen = list(devices)
    if chosen and all(device in known for device in chosen):
        if twice := [device for device in chosen if chosen.count(device) > 1]:
            msg = (
                f"collectives failed: {twice[0]} is given twice: a device has one rank of a group."
            )
            raise InvalidArgumentError(msg, operation="collectives", platform=client.platform)
        if any(device in client.local_devices() for device in chosen):
            return chosen
        listed = ", ".join(str(device) for device in chosen)
        msg = f"collectives failed: all of {listed} are of other processes, which call it alone."
        raise InvalidArgumentError(msg, operation="collectives", platform=client.platform)
    listed = ", ".join(str(device) for device in known)
    msg = f"collectives failed: a group is made of devices of this client ({listed})."
    raise InvalidArgumentError(msg, operation="collectives", platform=client.platform)


def _check_truth(given: Any, name: str, kind: str) -> None:
    if not isinstance(given, bool | np.bool_):
        msg = f"{kind} failed: {name} is True or False, not {given!r}."
        raise InvalidTypeError(msg, operation=kind)


def _whole(number: Any, kind: str) -> int:
    if hasattr(number, "__index__") and not isinstance(number, bool):
        return operator.index(number)
    msg = f"{kind} failed: a rank is a whole number, not {number!r}."
    raise InvalidTypeError(msg, operation=kind)


def _pairs(pairs: Any) -> list[tuple[int, int]]:
    listed = list(pairs) if isinstance(pairs, Iterable) else [pairs]
    if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in listed):
        msg = f"permute failed: pairs are a list of (sender, receiver), not {pairs!r}."
        raise InvalidTypeError(msg, operation="permute")
    return [(_whole(pair[0], "permute"), _whole(pair[1], "permute")) for pair in listed]


def _first(shape: tuple[int, ...], kind: str) -> int:
    if shape:
        return shape[0]
    msg = f"{kind} failed: the arrays have no axis that could be divided or joined."
    raise InvalidArgumentError(msg, operation=kind)


def _buffer(value: Any, rank: int, kind: str, allows_none: bool) -> Any:
    from devrt.arrays import Array

    if isinstance(value, Array) and len(value._buffers) == 1:
        return value._buffers[0]
    if isinstance(value, Buffer) or (value is None and allows_none):
        return value
    msg = (
        f"{kind} failed: rank {rank} is given a value of type {type(value).__name__}, and needs an "
        "array that lies on its device alone."
    )
    raise InvalidTypeError(msg, operation=kind)
