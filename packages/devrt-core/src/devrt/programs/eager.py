"""Operations: functions of arrays that are a program of their own when called outside of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt.programs.jit import JitFunction

__all__ = ["operation"]


def operation(function: Callable[..., Any] | None = None, *, static: Sequence[str] = ()) -> Any:
    """Make a function over traced values one of arrays too.

    Called in a trace, it adds its operations to it. Outside of one it runs as a program, compiled
    once for each dtype, shape and place of its arguments, and for each value of its static ones.

    Parameters
    ----------
    function
        The function. It takes values, arrays and numbers, and gives values.
    static
        Names of the arguments that decide which program it is: axes, shapes, dtypes, flags. Of the
        others Python's numbers are parameters of the program.
    """
    if function is None:
        return lambda given: operation(given, static=static)
    return JitFunction(function, static_argnames=tuple(static))
