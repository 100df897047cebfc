"""Operations: functions of arrays that outside of a trace are a program of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from devrt.programs.calls import Calls
from devrt.programs.jit import JitFunction
from devrt.programs.tracebacks import shorten
from devrt.tracing import templates

__all__ = ["Operation", "operation"]

F = TypeVar("F", bound=Callable[..., Any])


@overload
def operation(function: F) -> F: ...


@overload
def operation(*, static: Sequence[str]) -> Callable[[F], F]: ...


def operation(function: Any = None, *, static: Sequence[str] = ()) -> Any:
    """Make a function over traced values one of arrays too.

    Called in a trace, it adds its operations to it. Outside of one it runs as a program, compiled
    once for each dtype, shape and place of its arguments, and for each value of its static ones.

    Parameters
    ----------
    function
        The function. It takes values, arrays and numbers, and gives values. What it adds to a
        trace depends on its arguments alone: a call that equals one before adds the same again.
    static
        Names of the arguments that decide which program it is: axes, shapes, dtypes, flags. Of the
        others Python's numbers are parameters of the program. Lists are taken as tuples.
    """

    def made(function: Callable[..., Any]) -> Any:
        jitted = Operation(function, static_argnames=tuple(static))
        if not static:
            return jitted

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return jitted(*map(_frozen, args), **{k: _frozen(v) for k, v in kwargs.items()})
            except Exception as error:
                shorten(error)
                raise

        return call

    return made if function is None else made(function)


class _OperationCalls(Calls):
    def _inlined(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # It takes numbers too, and gives values: nothing is to be converted.
        return templates.call(self._function, args, kwargs)


class Operation(JitFunction):
    """A function that `operation` made; errors and profiles name what users know it by."""

    __slots__ = ()
    _calls_of = _OperationCalls

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        function.__name__ = function.__name__.lstrip("_")
        super().__init__(function, **options)


def _frozen(x: Any) -> Any:
    """Return lists as tuples, as axes and shapes are looked up by their values."""
    return tuple(map(_frozen, x)) if type(x) is list or type(x) is tuple else x
