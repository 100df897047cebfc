"""Tracebacks of what users call: their own lines, without devrt's between and below them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from devrt.errors import DevrtError
from devrt.runtime import default_runtime
from devrt.tracing import is_tracing
from devrt.tracing.frames import without_own_lines

__all__ = ["shorten", "shortened"]

P = ParamSpec("P")
R = TypeVar("R")


def shorten(error: Exception) -> None:
    """Take devrt's lines out of an error's traceback, unless ``traceback_filtering`` is off.

    It is for ``except`` blocks that end with ``raise``, which adds no line for the block's own
    function. In a trace nothing is done: the call that began it does it, once.
    """
    if is_tracing():
        return
    try:
        is_off = default_runtime().config.read("traceback_filtering") == "off"
    except DevrtError:  # what is wrong with the configuration is perhaps this very error
        return
    if not is_off:
        error.__traceback__ = without_own_lines(error)


def shortened(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function `shorten` its errors; not for those that are called very often."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    return called
