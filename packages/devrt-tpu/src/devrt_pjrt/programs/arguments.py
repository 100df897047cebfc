"""The arguments of programs: every one is checked here, as plugins do not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from devrt.errors import DeletedError, InvalidArgumentError
from devrt.layout import row_major
from devrt_pjrt.buffers.buffer import PjrtBuffer, handles_of
from devrt_pjrt.buffers.layout import are_alike, is_dense
from devrt_pjrt.buffers.spec import Spec
from devrt_pjrt.library.checks import listed

if TYPE_CHECKING:
    from devrt.compiling.hlo import HloArray
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.device import PjrtDevice

__all__ = ["Arguments"]


class Arguments:
    """What a program takes, and the refusing of what it would take for something else.

    ``specs`` are dtype and shape of each argument on each device, None where nobody knows;
    ``takes`` is the same as the optimised form says it, with layouts. ``are_dense`` tells whether
    buffers that were put without a layout are what it takes.
    """

    def __init__(
        self,
        connection: Connection,
        label: str,
        specs: list[Spec] | None,
        takes: Sequence[HloArray],
    ) -> None:
        self._connection = connection
        self._label = label
        self.specs = specs
        self._takes = takes if specs is not None else ()
        self._dense = [is_dense(p) for p in self._takes]
        self.are_dense = all(self._dense)

    def check_count(self, count: int) -> None:
        """Refuse another number of arguments than the program takes."""
        if self.specs is not None and count != len(self.specs):
            msg = (
                f"execute failed: {self._label} takes {len(self.specs)} argument(s), and got "
                f"{count}."
            )
            raise InvalidArgumentError(msg, operation="execute")

    def check(self, arguments: Sequence[Sequence[Any]], devices: Sequence[PjrtDevice]) -> None:
        """Refuse what the plugin would take for something else, or hang on for good.

        There is for each parameter a buffer on each device, in the order of the devices.
        """
        self.check_count(len(arguments))
        if self.specs is not None and self.are_dense:
            columns, specs = zip(*arguments, strict=True), self.specs
            if all(map(handles_of, columns, itertools.repeat(specs), devices)):
                return
        for at, shards in enumerate(arguments):
            for buffer, device in zip(shards, devices, strict=True):
                # Deleted ones are found where they are pinned, all of them before the call.
                if not self._fits(at, buffer, device):
                    self._refuse(at, buffer, device)

    def _fits(self, at: int, buffer: Any, device: PjrtDevice) -> bool:
        if not isinstance(buffer, PjrtBuffer) or buffer.device is not device:
            return False
        if self.specs is None:
            return buffer.given_layout is None
        spec = self.specs[at]
        if buffer.spec is not spec and buffer.spec != spec:
            return False
        if buffer.given_layout is not None:
            return are_alike(buffer.given_layout, self._takes[at].layout, spec.shape)
        return self._dense[at]

    def by_device(
        self, at: int, shards: Sequence[Any], devices: Sequence[PjrtDevice]
    ) -> Sequence[Any]:
        """Return one argument's buffers in the order of the devices."""
        shards = listed(shards, "execute_sharded", f"argument {at}")
        if len(shards) == len(devices):
            for shard, device in zip(shards, devices, strict=True):
                if shard.__class__ is not PjrtBuffer or shard.device is not device:
                    break
            else:
                return shards
        found = {s.device: s for s in shards if isinstance(s, PjrtBuffer)}
        if len(shards) != len(devices) or found.keys() != set(devices):
            for shard in shards:
                self._check_owner(at, shard, "execute_sharded")
            names = ", ".join(map(str, devices))
            msg = (
                f"execute_sharded failed: argument {at} of {self._label} needs one buffer on each "
                f"of {names}, and has {list(shards)!r}."
            )
            raise InvalidArgumentError(msg, operation="execute_sharded", argument=at)
        return [found[device] for device in devices]

    def _refuse(self, at: int, buffer: Any, device: PjrtDevice) -> NoReturn:
        facts: dict[str, Any] = {"operation": "execute", "argument": at, "device": str(device)}
        head = f"execute failed: argument {at} of {self._label}"
        if not isinstance(buffer, PjrtBuffer):
            msg = f"{head} must be a buffer on {device}, and is of type {type(buffer).__name__}."
            raise InvalidArgumentError(msg, **facts)
        self._check_owner(at, buffer, "execute")
        if buffer.device is not device:
            msg = f"{head} must lie on {device}, and lies on {buffer.device}. Copy it there."
            raise InvalidArgumentError(msg, **facts)
        wanted = None if self.specs is None else self.specs[at]
        if wanted is not None and buffer.spec != wanted:
            msg = f"{head} must be {wanted}, and is {buffer.spec}. Convert or reshape it."
            raise InvalidArgumentError(msg, **facts)
        if buffer.is_deleted():
            raise DeletedError(f"{head} was deleted or donated. Put it again.", **facts)
        self._refuse_layout(head, at, buffer, facts)

    def _check_owner(self, at: int, buffer: Any, operation: str) -> None:
        """Refuse a buffer of another client, whose devices may have the same names."""
        if isinstance(buffer, PjrtBuffer) and buffer.connection is not self._connection:
            owner, mine = buffer.connection.client, self._connection.client
            msg = (
                f"{operation} failed: argument {at} of {self._label} is another client's: it lies "
                f"on {buffer.device} of {owner!r}. Put numpy.asarray(buffer) on one of {mine!r}."
            )
            raise InvalidArgumentError(msg, operation=operation, argument=at)

    def _refuse_layout(
        self, head: str, at: int, buffer: PjrtBuffer, facts: dict[str, Any]
    ) -> NoReturn:
        default = row_major(len(buffer.shape))
        lies = buffer.given_layout or default
        wanted, dense = default, True
        if self.specs is not None:
            wanted, dense = self._takes[at].layout, self._dense[at]
        how = "without a layout" if dense else f'with layout="{wanted}"'
        msg = (
            f"{head} must lie in layout {wanted}, and lies in {lies}. Put it again {how}: its "
            "value is numpy.asarray(buffer)."
        )
        raise InvalidArgumentError(msg, layout=str(lies), **facts)
