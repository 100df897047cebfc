"""Shapes that users give, checked once for every function that takes one."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["as_shape"]


def as_shape(given: Any, user: str) -> tuple[int, ...]:
    """Return a global shape as a tuple of Python's own integers, each at least 0.

    ``user`` is who was given it, for the message.
    """
    if isinstance(given, str | bytes):  # sequences too, and of integers the latter
        _raise_no_shape(given, user)
    try:
        shape = tuple(map(operator.index, given))
    except TypeError:
        _raise_no_shape(given, user)
    if shape and min(shape) < 0:
        _raise_negative(shape, user)
    return shape


def _raise_no_shape(given: Any, user: str) -> NoReturn:
    example = f"({given},)" if isinstance(given, int) else "(16, 4)"
    msg = (
        f"{user} takes a global shape, a tuple of integers, not {given!r} of type "
        f"{type(given).__name__}. Write one, for example {example}."
    )
    raise InvalidTypeError(msg, shape=given)


def _raise_negative(shape: Sequence[int], user: str) -> NoReturn:
    dimension = next(d for d, size in enumerate(shape) if size < 0)
    msg = (
        f"{user} was given the global shape {shape}, whose dimension {dimension} is negative. "
        "Give every dimension its number of elements, 0 or more."
    )
    raise InvalidArgumentError(msg, shape=shape, dimension=dimension)
