"""`jit`: a Python function, compiled for the shapes and places of its arguments."""

from __future__ import annotations

import atexit
import functools
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from devrt._pytree import array_trees
from devrt._support import caches
from devrt._support.context import Context
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.arguments import Arguments, Call
from devrt.programs.launch import Launch
from devrt.programs.leaves import Kind, aval_of, described_kinds, kinds_of
from devrt.programs.options import Options
from devrt.programs.stages import Lowered, Traced
from devrt.programs.start import Start, Starts
from devrt.programs.traced import Trace, trace, values_of
from devrt.runtime import default_runtime
from devrt.sharding import current_mesh, mesh_context
from devrt.tracing import at_user_line, is_tracing

__all__ = ["JitFunction", "eval_shape", "jit"]


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Return a function that runs as a compiled program.

    It is traced at its first call: called once with values that have a shape and a dtype and no
    elements. What it does with them becomes a program, which runs then, and again at each call with
    arguments of the same shapes, dtypes, placement and static values. Side effects of the Python
    code happen while it is traced only.

    Parameters
    ----------
    fun
        The function. It takes and returns trees of arrays and numbers.
    in_shardings
        How the positional arguments lie: a tree of shardings that is a beginning of theirs, or one
        for all. None leaves an argument where it is. A `PartitionSpec` is over the mesh that is
        entered. Arguments that were placed on request must lie so already.
    out_shardings
        How the results lie, likewise; None leaves it to the compiler. The kind of memory counts.
    static_argnums, static_argnames
        Arguments that are passed as they are, as Python values, and decide which program runs: they
        must be hashable. Where one of the two is given the other follows from the function.
    donate_argnums, donate_argnames
        Arguments whose memory the program may take over; they must not be used afterwards.
    keep_unused, inline
        Accepted as in JAX: arguments are always kept, and functions always inlined in a trace.
    device, backend
        The device, or the platform whose first device, everything runs on, wherever the arguments
        lie.
    compiler_options
        Compile options, as `Client.compile_and_load` takes them; other names are flags of the
        compiler.

    Returns
    -------
    JitFunction
        The function; without ``fun``, what takes it, so that options can be given to a decorator.

    Raises
    ------
    InvalidArgumentError
        If the options do not fit the function or each other. Calls raise it for arguments that lie
        on different devices, or do not fit a sharding.
    InvalidTypeError
        If ``fun`` cannot be called. Calls raise it for arguments that are no arrays.
    """
    options = {
        "in_shardings": in_shardings,
        "out_shardings": out_shardings,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "device": device,
        "backend": backend,
        "compiler_options": compiler_options,
    }
    if fun is None:
        return functools.partial(jit, keep_unused=keep_unused, inline=inline, **options)
    given: Any = fun  # callers are not bound by the annotation
    if not callable(given):
        msg = f"jit takes a function, not {fun!r:.80} of type {type(fun).__name__}."
        raise InvalidTypeError(msg, operation="jit")
    return JitFunction(fun, **options)


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


_all: weakref.WeakSet[_Programs] = weakref.WeakSet()
_of_functions: weakref.WeakKeyDictionary[Any, dict[Any, _Programs]] = weakref.WeakKeyDictionary()


@atexit.register  # before the clients are closed that they run on
@caches.register
def clear_programs() -> None:
    """Forget the programs of all functions."""
    for programs in list(_all):
        programs.clear()


class JitFunction:
    """A function that runs as a compiled program; see `jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
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
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._arguments = Arguments(
            function, static_argnums, static_argnames, donate_argnums, donate_argnames
        )
        self._options = Options(in_shardings, out_shardings, device, backend)
        self._compiler_options = dict(compiler_options or {})
        self._programs = self._shared()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments; in a trace, add its operations. Does not wait."""
        # The common case, first: a call like one before, with arrays by position.
        starts = self._programs.starts
        if not kwargs and (starts.stamp is Context.stamp or starts.is_current()):
            try:
                made = starts.find(args)
            except Exception as error:  # noqa: BLE001  plugin code
                starts.raise_explained(args, error)
            if made is not None:
                return made
        if is_tracing():
            return self._inlined(args, kwargs)
        if (made := starts.started(args, kwargs)) is not None:
            return made
        return self._called(args, kwargs)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the program for these arguments, which is looked for, or made."""
        call = self._arguments.taken_apart(args, kwargs)
        kinds = kinds_of(call.leaves, lambda: self._paths(call))
        default = default_runtime().default_device()
        key = (call.tree, kinds, call.statics, call.kinds, default, mesh_context())
        try:
            found = self._programs.entries.get(key)
        except TypeError as error:
            self._arguments.refuse_unhashable(call.statics, error)
            raise
        launch, tree = found or self._made(key, call, kinds, default)
        made = launch(call.leaves)
        self._programs.starts.remember(call, args, kwargs, Start.of(launch, tree, default))
        return made[0] if tree is None else tree.unflatten(made)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace the function for some arguments, which may be `ShapeDtypeStruct`."""
        return self._traced(*self._described(args, kwargs))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the function as StableHLO for some arguments, which may be `ShapeDtypeStruct`."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the shapes and dtypes of the results as a tree of `ShapeDtypeStruct`."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget the function's traces and programs."""
        self._programs.clear()

    def _cache_size(self) -> int:
        return len(self._programs.entries)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<JitFunction of {self.__wrapped__!r}>"

    def _shared(self) -> _Programs:
        """Return the function's programs: one object for all that trace it with equal options."""
        made, arguments = _Programs(), self._arguments
        _all.add(made)
        if not isinstance(self.__wrapped__, types.FunctionType) or self._compiler_options:
            return made
        key = (
            *(arguments.static_nums, arguments.static_names),
            *(arguments.donate_nums, arguments.donate_names),
            self._options.key(),
        )
        return _of_functions.setdefault(self.__wrapped__, {}).setdefault(key, made)

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
        returned = self.__wrapped__(*args_, **kwargs_)
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
        traces = self._programs.traces
        try:
            found = traces.get(key)
        except TypeError as error:
            self._arguments.refuse_unhashable(call.statics, error)
            raise
        if found is None:
            found = traces[key] = trace(self._arguments, call, avals)
        default = default_runtime().default_device()
        requests = self._options.requests(found)
        return Traced(found, kinds, requests, default, self._compiler_options)

    def _made(
        self, key: Any, call: Call, kinds: tuple[Kind, ...], default: Any
    ) -> tuple[Launch, Any]:
        """Return the program for a call: threads that need the same one make it once."""
        programs = self._programs
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
        executables = self._programs.executables
        found = executables.get(key)
        if found is None or found.is_deleted():
            found = executables[key] = lowered.compiled(text)
        return found


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of what a function returns, without computing it.

    Parameters
    ----------
    fun
        The function.
    *args, **kwargs
        Its arguments: trees of arrays, numbers, and whatever has a shape and a dtype.

    Returns
    -------
    tree of ShapeDtypeStruct
    """
    function = fun if isinstance(fun, JitFunction) else JitFunction(fun)
    return function.eval_shape(*args, **kwargs)
