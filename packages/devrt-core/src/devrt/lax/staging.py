"""Functions of functions: in a trace they add their operations, outside they are one program."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from devrt.programs.jit import jit
from devrt.programs.tracebacks import shorten
from devrt.tracing import is_tracing

__all__ = ["staged"]

Build = Callable[..., Any]
Functions = Sequence[Callable[..., Any]]

_programs: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
"""By the first of the user's functions, so that programs end with it, what is compiled of it."""


def staged(build: Build, functions: Functions, statics: Hashable, *operands: Any) -> Any:
    """Return ``build(functions, statics, *operands)``, which takes values of a trace.

    Outside of a trace it is one program. The same functions again run it without a new trace; it
    holds them weakly.
    """
    if is_tracing():
        return build(functions, statics, *operands)
    try:
        return _program(build, tuple(functions), statics)(*operands)
    except Exception as error:
        shorten(error)
        raise


def _program(build: Build, functions: tuple[Any, ...], statics: Hashable) -> Any:
    try:
        known = _programs.setdefault(functions[0], {})
        key = build, tuple(map(weakref.ref, functions)), statics
        hash(key)
    except TypeError:  # not weakly, or not hashable: a program of this call alone
        return _compiled(build, [functools.partial(_itself, each) for each in functions], statics)
    program = known.get(key)
    if program is None:
        program = known[key] = _compiled(build, key[1], statics)
    return program


def _itself(function: Any) -> Any:
    return function


def _compiled(build: Build, references: Sequence[Callable[[], Any]], statics: Hashable) -> Any:
    def run(*operands: Any) -> Any:
        return build([reference() for reference in references], statics, *operands)

    run.__name__ = build.__name__
    return jit(run)
