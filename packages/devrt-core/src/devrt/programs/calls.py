"""The calls of a function that runs as a compiled program."""

from __future__ import annotations

import atexit
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from devrt._pytree import array_trees
from devrt._support import caches
from devrt._support.context import Context
from devrt.arrays.dispatch_key import DispatchKey
from devrt.errors import InvalidArgumentError
from devrt.programs.arguments import Arguments, Call
from devrt.programs.launch import Launch
from devrt.programs.leaves import Kind, aval_of, described_kinds, kinds_of
from devrt.programs.options import Options
from devrt.programs.stages import Lowered, Traced
from devrt.programs.start import Start, Starts
from devrt.programs.tracebacks import shorten
from devrt.programs.traced import Trace, trace, values_of
from devrt.runtime import default_runtime
from devrt.sharding import current_mesh, mesh_context
from devrt.tracing import at_user_line, is_tracing

if TYPE_CHECKING:
    from devrt.contract import Device
    from devrt.programs.jit import JitFunction

__all__ = ["Calls"]

_LEAF = array_trees.tree_structure(0)


class _Programs:
    """The traces and programs of a function: one for all that trace it with equal options."""

    def __init__(self) -> None:
        self.entries: dict[Any, tuple[Launch, Any]] = {}
        self.traces: dict[Any, Trace] = {}
        self.executables: dict[Any, Any] = {}
        self.making: dict[Any, threading.Lock] = {}
        self.starts = Starts()

    def clear(self) -> None:
        """Forget them."""
        for each in (self.entries, self.traces, self.executables, self.starts):
            each.clear()

    def forget_closed(self) -> None:
        """Forget those of closed clients."""
        for key, (launch, _) in list(self.entries.items()):
            if launch.executable.client.is_closed:
                self.entries.pop(key, None)
        for key, executable in list(self.executables.items()):
            if executable.client.is_closed:
                self.executables.pop(key, None)
        self.starts.forget_closed()


_all: weakref.WeakSet[_Programs] = weakref.WeakSet()
_of_functions: weakref.WeakKeyDictionary[Any, dict[Any, _Programs]] = weakref.WeakKeyDictionary()


@atexit.register  # before the clients are closed that they run on
@caches.register
def clear_programs() -> None:
    """Forget the programs of all functions."""
    for programs in list(_all):
        programs.clear()


def _default_for(kinds: Sequence[Kind]) -> Device | None:
    """Return the device for what lies nowhere; None where an argument says where a program runs.

    Requesting it would make the default client, and other processes wait for that of each.
    """
    if any(isinstance(kind, DispatchKey) and kind.committed for kind in kinds):
        return None
    return default_runtime().default_device()


@caches.register_of_clients
def _forget_closed() -> None:
    for programs in list(_all):
        programs.forget_closed()


class Calls:
    """The calls of a function that runs as a compiled program.

    It is apart from what the user holds, which it only knows weakly: that holds a backend's way to
    call, which holds this, and no cycle keeps the programs of a function that is gone.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        holder: weakref.ref[JitFunction],
        *,
        in_shardings: Any = None,
        out_shardings: Any = None,
        static_argnums: Any = None,
        static_argnames: Any = None,
        donate_argnums: Any = None,
        donate_argnames: Any = None,
        device: Any = None,
        backend: Any = None,
        compiler_options: dict[str, Any] | None = None,
    ) -> None:
        self._function = function
        self._holder = holder
        self._arguments = Arguments(
            function, static_argnums, static_argnames, donate_argnums, donate_argnames
        )
        self._options = Options(in_shardings, out_shardings, device, backend)
        self._compiler_options = dict(compiler_options or {})
        self.programs = self._shared()
        self._table: Any = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments; in a trace, add its operations. Does not wait."""
        # The common case, first: a call like one before, with arrays by position.
        starts = self.programs.starts
        try:
            if not kwargs and (starts.stamp is Context.stamp or starts.is_current()):
                try:
                    made = starts.find(args)
                except Exception as error:  # noqa: BLE001  plugin code
                    starts.raise_explained(args, error)
                if made is not None:
                    if starts.table is not self._table:
                        self._take_shortcut(starts)
                    return made
            if is_tracing():
                return self._inlined(args, kwargs)
            if (made := starts.started(args, kwargs)) is not None:
                return made
            return self._called(args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the program for these arguments, which is looked for, or made."""
        call = self._arguments.taken_apart(args, kwargs)
        kinds = kinds_of(call.leaves, lambda: self._paths(call))
        default = _default_for(kinds)
        key = (call.tree, kinds, call.statics, call.kinds, default, mesh_context())
        try:
            found = self.programs.entries.get(key)
        except TypeError as error:
            self._arguments.refuse_unhashable(call.statics, error)
            raise
        launch, tree = found or self._made(key, call, kinds, default)
        made = launch(call.leaves)
        self.programs.starts.remember(call, args, kwargs, Start.of(launch, tree, default))
        return made[0] if tree is None else tree.unflatten(made)

    def traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        """Return the trace for arguments, which may be `ShapeDtypeStruct`."""
        return self._traced(*self._described(args, kwargs))

    def _take_shortcut(self, starts: Starts) -> None:
        """Let who calls the function reach the backend's table at once."""
        holder, shortcut = self._holder(), starts.shortcut(self.run)
        if holder is not None and shortcut is not None:
            self._table, holder.__call__ = starts.table, shortcut

    def _shared(self) -> _Programs:
        """Return the function's programs: one object for all that trace it with equal options."""
        made, arguments = _Programs(), self._arguments
        _all.add(made)
        if not isinstance(self._function, types.FunctionType) or self._compiler_options:
            return made
        key = (
            *(arguments.static_nums, arguments.static_names),
            *(arguments.donate_nums, arguments.donate_names),
            self._options.key(),
        )
        return _of_functions.setdefault(self._function, {}).setdefault(key, made)

    def _inlined(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the function's operations to the current trace."""
        call, name = self._arguments.taken_apart(args, kwargs), self._arguments.name
        if self._compiler_options:
            msg = (
                f"compiler_options of {name} are {self._compiler_options}, and it is called in "
                f"another traced function{at_user_line()}, whose program is compiled as one. Give "
                "them to the outermost jit."
            )
            raise InvalidArgumentError(msg, compiler_options=self._compiler_options)
        leaves, _ = values_of(call.leaves, name)
        leaves = self._options.constrained_arguments(leaves, call.tree, name)
        args_, kwargs_ = self._arguments.put_together(leaves, call.tree, call.statics)
        returned = self._function(*args_, **kwargs_)
        results, tree = values_of(returned, name)
        return self._options.constrained_results(tree.unflatten(results), name)

    def _paths(self, call: Call) -> list[str]:
        return self._arguments.paths(call.tree, call.statics)

    def _described(self, args: Any, kwargs: Any) -> tuple[Call, tuple[Kind, ...]]:
        call = self._arguments.taken_apart(args, kwargs)
        return call, described_kinds(call.leaves, lambda: self._paths(call))

    def _traced(self, call: Call, kinds: tuple[Kind, ...]) -> Traced:
        avals = tuple(aval_of(kind) for kind in kinds)
        key = (call.tree, avals, call.statics, call.kinds, current_mesh())
        traces = self.programs.traces
        try:
            found = traces.get(key)
        except TypeError as error:
            self._arguments.refuse_unhashable(call.statics, error)
            raise
        if found is None:
            found = traces[key] = trace(self._arguments, call, avals)
        default = _default_for(kinds)
        requests = self._options.requests(found)
        return Traced(found, kinds, requests, default, self._compiler_options)

    def _made(
        self, key: Any, call: Call, kinds: tuple[Kind, ...], default: Any
    ) -> tuple[Launch, Any]:
        """Return the program for a call: threads that need the same one make it once."""
        programs = self.programs
        with programs.making.setdefault(key, threading.Lock()):
            try:
                found = programs.entries.get(key)
                if found is None:
                    lowered = self._traced(call, kinds).lower()
                    launch = lowered.launch(lambda text: self._compiled(lowered, text))
                    tree = None if lowered.out_tree == _LEAF else lowered.out_tree
                    found = programs.entries[key] = (launch, tree)
            finally:
                programs.making.pop(key, None)
        return found

    def _compiled(self, lowered: Lowered, text: Any) -> Any:
        """Return what a text compiles to; once for arguments that lead to the same text."""
        key = (text.text, lowered._placement.devices)
        executables = self.programs.executables
        found = executables.get(key)
        if found is None or found.is_deleted():
            found = executables[key] = lowered.compiled(text)
        return found
