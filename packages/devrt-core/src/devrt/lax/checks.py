"""What the operations of `devrt.lax` require of their operands, and how they refuse others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from devrt.errors import InvalidTypeError
from devrt.programs.eager import operation
from devrt.programs.tracebacks import shorten
from devrt.tracing import (
    as_value,
    at_user_line,
    broadcast,
    convert,
    is_tracing,
    kind_of,
    named,
    result_type,
)

__all__ = [
    "KINDS",
    "axis_of",
    "lax_operation",
    "named_operation",
    "one_dtype",
    "refuse",
    "require",
    "require_kind",
    "spread",
]

KINDS = {"b": "bool", "i": "integers", "u": "unsigned integers", "f": "floats", "c": "complex"}


def refuse(name: str, reason: str) -> NoReturn:
    """Raise the error for operands that do not fit."""
    raise InvalidTypeError(f"lax.{name}{at_user_line()}: {reason}.", operation=f"lax.{name}")


def require(condition: bool, name: str, reason: str) -> None:
    """Refuse operands unless a condition holds."""
    if not condition:
        refuse(name, reason)


def lax_operation(*, static: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Any]:
    """Make an `operation` whose static arguments may be lists too."""

    def made(function: Callable[..., Any]) -> Any:
        compiled = operation(static=static)(function)
        names = list(inspect.signature(function).parameters)
        fixed = {i for i, name in enumerate(names) if name in static}

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if is_tracing():
                return function(*args, **kwargs)
            plain = [frozen(arg) if i in fixed else arg for i, arg in enumerate(args)]
            named_ = {k: frozen(v) if k in static else v for k, v in kwargs.items()}
            try:
                return compiled(*plain, **named_)
            except Exception as error:
                shorten(error)
                raise

        return called

    return made


def named_operation(
    function: Callable[..., Any], name: str, text: str, *, static: Sequence[str] = ()
) -> Callable[..., Any]:
    """Make an operation of a function that is one of many alike, with a name and a docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    made: Callable[..., Any] = lax_operation(static=static)(function)
    return made


def frozen(x: Any) -> Any:
    """Return lists and NumPy's arrays as tuples, which can be a part of a key."""
    if isinstance(x, np.ndarray):
        x = x.tolist()
    if type(x) in (list, tuple):
        return tuple(map(frozen, x))
    return x


def require_kind(name: str, value: Any, kinds: str) -> Any:
    """Return an operand as a value; refuse it if its dtype is of another kind."""
    value = as_value(value)
    if kind_of(value.aval.dtype) not in kinds:
        taken = ", ".join(KINDS[kind] for kind in kinds)
        refuse(name, f"takes {taken}, not {value.aval}")
    return value


_GIVES_WAY = {"b": "", "i": "iu", "u": "iu", "f": "f", "c": "c"}


def one_dtype(name: str, *operands: Any) -> list[Any]:
    """Return operands as values of one dtype, which they have but for weak ones of its kind."""
    values = [as_value(x) for x in operands]
    strong = {value.aval.dtype for value in values if not value.aval.weak_type}
    target, is_weak = result_type(*values)
    fits = len(strong) < 2 and all(
        value.aval.dtype == target
        or (value.aval.weak_type and kind_of(target) in _GIVES_WAY[kind_of(value.aval.dtype)])
        for value in values
    )
    if not fits:
        shown = " and ".join(str(value.aval) for value in values)
        refuse(
            name,
            f"operands have one dtype, not {shown}. Convert one with lax.convert_element_type, or "
            "use the function of devrt.numpy, which promotes",
        )
    return [convert(value, target, weak_type=is_weak) for value in values]


def spread(name: str, *values: Any) -> list[Any]:
    """Return values of one shape: scalars, and dimensions of size 1, are repeated."""
    ranks = {len(value.aval.shape) for value in values if value.aval.shape}
    if len(ranks) > 1:
        shown = " and ".join(str(value.aval) for value in values)
        refuse(name, f"operands have as many dimensions as each other, or none, not {shown}")
    return list(broadcast(*values, operation=f"lax.{name}"))


def axis_of(name: str, axis: int, ndim: int, *, is_new: bool = False) -> int:
    """Return an axis, which may count from the end, as a number from 0."""
    if not -ndim <= axis < ndim:
        refuse(name, f"axis {axis} is none of an array of {ndim - is_new} dimensions")
    return axis % ndim


BOOL = named("bool")
INT32 = named("int32")
