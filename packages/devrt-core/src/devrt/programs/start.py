"""The shortest way to a program: for calls that need no more than to be started."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from devrt._support.context import Context
from devrt.arrays import Array, device_put
from devrt.arrays.dispatch_key import DispatchKey
from devrt.arrays.guards import Config
from devrt.arrays.put import COPY
from devrt.programs.call_pattern import Matcher, builder, matcher
from devrt.programs.tracebacks import shortened
from devrt.runtime import default_runtime
from devrt.sharding import mesh_context
from devrt.tracing import is_tracing

if TYPE_CHECKING:
    from devrt.contract import CallTable, Device
    from devrt.programs.arguments import Call
    from devrt.programs.launch import Launch
    from devrt.sharding import Sharding

__all__ = ["Start", "Starts"]


class Start:
    """A program, and what of its context calls depend on.

    Parameters
    ----------
    launch
        The program.
    caller
        Its executable's own way to call it with arrays.
    build
        Makes what the function returns of the arrays; None where that is the only one.
    default
        The default device that it was made under; None where it does not depend on one.
    """

    __slots__ = (
        *("_default", "_device", "_epoch", "_has_numbers", "_meshes"),
        *("build", "caller", "launch"),
    )

    def __init__(
        self,
        launch: Launch,
        caller: Callable[[Sequence[Any]], Any],
        build: Callable[[Sequence[Any]], Any] | None,
        default: Device | None,
    ) -> None:
        self.launch = launch
        self.caller = caller
        self.build = build
        self._default = default
        self._device = launch.devices[0] if len(launch.devices) == 1 else None
        self._has_numbers = False
        self._meshes = mesh_context()
        self._epoch = -1 if _is_overridden() else Context.epoch

    @classmethod
    def of(cls, launch: Launch, tree: Any, default: Device | None) -> Start | None:
        """Return the start of a program that needs nothing else; None for another one."""
        caller = launch.caller(gives_one=tree is None) if launch.is_direct else None
        if caller is None or (tree is not None and not tree.num_leaves):
            return None
        return cls(launch, caller, None if tree is None else builder(tree), default)

    def is_current(self) -> bool:
        """Return whether default device and meshes are those that it was made under."""
        if self._meshes != mesh_context():
            return False
        if self._epoch == Context.epoch and not _is_overridden():
            return True
        epoch = Context.epoch
        default = self._default
        if default is not None and default_runtime().default_device() is not default:
            return False
        if not _is_overridden():
            self._epoch = epoch
        return True

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Call the program with arrays and numbers; returns None, and does nothing, for others."""
        try:
            # What it is called with has numbers in each call or in none.
            made = None if self._has_numbers else self.caller(leaves)
            if made is None and not Config.guards_are_set:
                placed = [
                    x if type(x) is Array else self._put(x, sharding)
                    for x, sharding in zip(leaves, self.launch.takes, strict=True)
                ]
                made = self.caller(placed)
        except Exception as error:  # noqa: BLE001  plugin code
            self.launch.raise_explained(leaves, error)
        return made if self.build is None or made is None else self.build(made)

    def _put(self, number: Any, sharding: Sharding) -> Any:
        """Return a number as an array, or as the one buffer, where the program takes it."""
        self._has_numbers = True
        if self._device is None:
            return device_put(number, sharding)
        return self._device.client.buffer_from_pyval(number, self._device, False, COPY)


MOST_PATTERNS = 8
"""How many structures of calls a function recognises; what is called with more is slower."""


_NO_STAMP = object()


def _is_overridden() -> bool:
    """Return whether this thread or task overrides an option."""
    return Context.was_overridden and default_runtime().config.overridden


def _find_nothing(args: tuple[Any, ...]) -> None:
    del args


class Starts:
    """The starts of a function's programs, by its calls.

    Attributes
    ----------
    find : callable
        Starts the program for arguments that are arrays, by position; returns what the function
        does, or None, with nothing done, where it knows none. To be called if `stamp` is
        `Context.stamp`, or `is_current` says so.
    stamp : object
        That of the context that `find` is for.
    table : CallTable or None
        The backend's table behind `find`.
    """

    def __init__(self) -> None:
        self._patterns: list[tuple[Matcher, dict[Any, Start]]] = []
        self._forget_table()

    def clear(self) -> None:
        """Forget them."""
        self._patterns.clear()
        if self.table is not None:
            self.table.clear()  # shortcuts still have it
        self._forget_table()

    def forget_closed(self) -> None:
        """Forget those of closed clients."""
        had = sum(len(starts) for _, starts in self._patterns)
        for _, starts in self._patterns:
            for key, start in list(starts.items()):
                if start.launch.executable.client.is_closed:
                    starts.pop(key, None)
        if sum(len(starts) for _, starts in self._patterns) < had and self.table is not None:
            self.table.clear()  # it fills again with the next calls
            self._forget_table()

    def _forget_table(self) -> None:
        self.find: Callable[[tuple[Any, ...]], Any] = _find_nothing
        self.stamp: object = _NO_STAMP
        self.table: CallTable | None = None
        self._epoch = -1
        self._meshes: Any = None

    def is_current(self) -> bool:
        """Return whether `find` is for the context that this thread or task is in."""
        if self._epoch != Context.epoch or is_tracing():
            return False
        if self._meshes != mesh_context() or _is_overridden():
            return False
        self.stamp = Context.stamp or _NO_STAMP
        return True

    def started(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Start the program for a call; returns None, with nothing done, if there is none yet."""
        start, leaves, key = self._of(args, kwargs)
        if start is None or not start.is_current():
            return None
        made = start(leaves)
        is_flat = not kwargs and len(leaves) == len(args) and all(map(operator.is_, leaves, args))
        if made is not None and is_flat:
            self._to_table(key, start)
        return made

    def shortcut(self, otherwise: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the backend's own function that calls by its table; None if there is none.

        Where the table does not know a call, or the context changed, it calls ``otherwise``.
        """
        if self.table is None or self.stamp is _NO_STAMP:
            return None
        return self.table.shortcut(Context, self.stamp, otherwise, self.raise_explained)

    @shortened  # a backend's shortcut calls it
    def raise_explained(self, args: tuple[Any, ...], error: Exception) -> NoReturn:
        """Raise the error of a call by `find`."""
        start, leaves, _ = self._of(args, {})
        if start is None:  # forgotten meanwhile, as its client was closed
            raise error
        start.launch.raise_explained(leaves, error)

    def remember(self, call: Call, args: Any, kwargs: Any, start: Start | None) -> None:
        """Let the next call like this one be started at once, where there is a way."""
        if start is None:
            return
        for match, starts in self._patterns:
            if found := match(args, kwargs):
                starts[found[1]] = start
                return
        if len(self._patterns) < MOST_PATTERNS:
            made = matcher(call.tree, call.statics)
            if made is not None and (found := made(args, kwargs)):
                self._patterns.append((made, {found[1]: start}))

    def _of(self, args: Any, kwargs: Any) -> tuple[Start | None, Sequence[Any], Any]:
        """Return the start for a call, its leaves, and their keys."""
        for match, starts in self._patterns:
            if found := match(args, kwargs):
                return starts.get(found[1]), *found
        return None, (), None

    def _to_table(self, key: Any, start: Start) -> None:
        """Let `find` know a call with arrays alone."""
        if _is_overridden() or not all(type(each) is DispatchKey for each in key):
            return
        if self.table is None or not self.is_current():
            table = start.launch.executable.key_table(Array)
            if table is None:
                return
            if self.table is not None:
                self.table.clear()
            self._epoch, self._meshes = Context.epoch, mesh_context()
            self.table, self.find = table, table.find
            self.stamp = Context.stamp or _NO_STAMP
        self.table.add(key, start.caller, start.build)
