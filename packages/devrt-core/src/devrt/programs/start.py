"""The shortest way to a program: for calls that need no more than to be started."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from devrt._config.layers import Config
from devrt.arrays import Array, device_put
from devrt.arrays.dispatch_key import DispatchKey
from devrt.programs.call_pattern import Matcher, builder, matcher
from devrt.runtime import default_runtime
from devrt.sharding import current_mesh

if TYPE_CHECKING:
    from devrt.contract import Device
    from devrt.programs.arguments import Call
    from devrt.programs.launch import Launch

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
        The default device that it was made under.
    """

    __slots__ = ("_default", "_epoch", "_mesh", "build", "caller", "launch")

    def __init__(
        self,
        launch: Launch,
        caller: Callable[[Sequence[Any]], Any],
        build: Callable[[Sequence[Any]], Any] | None,
        default: Device,
    ) -> None:
        self.launch = launch
        self.caller = caller
        self.build = build
        self._default = default
        self._mesh = current_mesh()
        self._epoch = Config.epoch

    @classmethod
    def of(cls, launch: Launch, tree: Any, default: Device) -> Start | None:
        """Return the start of a program that needs nothing else; None for another one."""
        caller = launch.caller(gives_one=tree is None) if launch.is_direct else None
        if caller is None or (tree is not None and not tree.num_leaves):
            return None
        return cls(launch, caller, None if tree is None else builder(tree), default)

    def is_current(self) -> bool:
        """Return whether default device and mesh are those that it was made under."""
        if self._mesh is not current_mesh():
            return False
        if self._epoch == Config.epoch and not Config.active_overrides:
            return True
        return self._is_still_current()

    def _is_still_current(self) -> bool:
        epoch = Config.epoch
        if default_runtime().default_device() is not self._default:
            return False
        if not Config.active_overrides:
            self._epoch = epoch
        return True

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Call the program with arrays and numbers; returns None, and does nothing, for others."""
        try:
            made = self.caller(leaves)
            if made is None:
                made = self.caller([x if type(x) is Array else device_put(x) for x in leaves])
        except Exception as error:  # noqa: BLE001  plugin code
            self.launch.raise_explained(leaves, error)
        return made if self.build is None or made is None else self.build(made)


MOST_PATTERNS = 8
"""How many structures of calls a function recognises; what is called with more is slower."""


def _find_nothing(args: tuple[Any, ...]) -> None:
    del args


class Starts:
    """The starts of a function's programs, by its calls.

    Attributes
    ----------
    find : callable
        Starts the program for arguments that are arrays, by position; returns what the function
        does, or None, with nothing done, where it knows none. Holds in one context only:
    epoch : int
        That of the configuration,
    mesh : Mesh or None
        and the current mesh, outside of any override of an option.
    """

    def __init__(self) -> None:
        self._patterns: list[tuple[Matcher, dict[Any, Start]]] = []
        self.clear()

    def clear(self) -> None:
        """Forget them."""
        self._patterns.clear()
        self._forget_table()

    def _forget_table(self) -> None:
        self.find: Callable[[tuple[Any, ...]], Any] = _find_nothing
        self._add: Callable[[Any, Any, Any], None] | None = None
        self.epoch = -1
        self.mesh: Any = None

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

    def raise_explained(self, args: tuple[Any, ...], error: Exception) -> NoReturn:
        """Raise the error of a call by `find`."""
        start, leaves, _ = self._of(args, {})
        assert start is not None
        start.launch.raise_explained(leaves, error)

    def remember(self, call: Call, args: Any, kwargs: Any, start: Start | None) -> None:
        """Let the next call like this one be started at once, where there is a way."""
        if start is None:
            return
        for match, starts in self._patterns:
            if found := match(args, kwargs):
                starts[found[1]] = start
                return
        if len(self._patterns) < MOST_PATTERNS and (match := matcher(call.tree, call.statics)):
            if found := match(args, kwargs):
                self._patterns.append((match, {found[1]: start}))

    def _of(self, args: Any, kwargs: Any) -> tuple[Start | None, Sequence[Any], Any]:
        """Return the start for a call, its leaves, and their keys."""
        for match, starts in self._patterns:
            if found := match(args, kwargs):
                return starts.get(found[1]), *found
        return None, (), None

    def _to_table(self, key: Any, start: Start) -> None:
        """Let `find` know a call with arrays alone."""
        epoch, mesh = Config.epoch, current_mesh()
        if Config.active_overrides or not all(type(each) is DispatchKey for each in key):
            return
        if (self.epoch, self.mesh) != (epoch, mesh) or self._add is None:
            table = start.launch.executable.call_table(Array)
            if table is None:
                return
            self.find, self._add = table
            self.epoch, self.mesh = epoch, mesh
        self._add(key, start.caller, start.build)
