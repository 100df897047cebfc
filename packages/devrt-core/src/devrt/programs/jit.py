"""`jit`: a Python function, compiled for the shapes and places of its arguments."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from devrt.errors import InvalidTypeError
from devrt.programs.calls import Calls
from devrt.programs.stages import Lowered, Traced
from devrt.programs.tracebacks import shortened

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


class JitFunction:
    """A function that runs as a compiled program; see `jit`.

    Attributes
    ----------
    __call__ : callable
        Runs the program for the arguments that it is called with; in a trace, adds its operations.
        Does not wait. It is a slot, as a backend's own way to call takes its place.
    """

    __slots__ = ("__call__", "__dict__", "__weakref__")

    __call__: Callable[..., Any]
    _calls_of: ClassVar[type[Calls]] = Calls

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._calls = self._calls_of(function, weakref.ref(self), **options)
        self.__call__ = self._calls.run
        self._given = options

    def __reduce__(self) -> Any:
        """Pickle by name where that finds this object, else the function and the options."""
        found: Any = sys.modules.get(self.__module__)
        name = getattr(self, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        return functools.partial(jit, **self._given), (self.__wrapped__,)

    @shortened
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace the function for some arguments, which may be `ShapeDtypeStruct`."""
        return self._calls.traced(args, kwargs)

    @shortened
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the function as StableHLO for some arguments, which may be `ShapeDtypeStruct`."""
        return self.trace(*args, **kwargs).lower()

    @shortened
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the shapes and dtypes of the results as a tree of `ShapeDtypeStruct`."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget the function's traces and programs."""
        self._calls.programs.clear()

    def _cache_size(self) -> int:
        return len(self._calls.programs.entries)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<JitFunction of {self.__wrapped__!r}>"


@shortened
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
