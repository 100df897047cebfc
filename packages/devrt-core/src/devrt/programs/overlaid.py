"""Functions that only move elements, on arrays of keys too: what moves are the keys' bits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from devrt.errors import InvalidTypeError
from devrt.tracing import Overlaid, at_user_line

__all__ = ["moving"]

_SHAPING = """
    atleast_1d atleast_2d atleast_3d broadcast broadcast_in_dim broadcast_to collapse expand_dims
    matrix_transpose moveaxis permute_dims ravel reshape rev rollaxis squeeze swapaxes transpose
"""
_TAKING = """
    delete diagonal dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim flip fliplr flipud
    index_in_dim repeat resize roll slice slice_in_dim take take_along_axis tile
"""
_DIVIDING = "array_split dsplit hsplit split unstack vsplit"
_OF_ONE = f"{_SHAPING} {_TAKING} {_DIVIDING} array asarray copy zeros_like"
_JOINING = "block column_stack concat concatenate dstack hstack stack vstack"

_PLACES = {
    **{name: slice(0, 1) for name in f"{_OF_ONE} {_JOINING}".split()},
    **{name: slice(1, 3) for name in ("select", "where")},
    **{name: slice(0, 2) for name in ("append", "dynamic_update_slice", "equal", "not_equal")},
    **{name: slice(0, 2) for name in ("eq", "ne", "dynamic_update_index_in_dim")},
    **{name: slice(0, None) for name in ("broadcast_arrays",)},
    **{name: slice(1, None) for name in ("select_n",)},
}
"""Functions that may be called on arrays of keys, and which of their arguments are such."""

_ANSWERING = frozenset({"eq", "equal", "ne", "not_equal"})


def moving(name: str, function: Any) -> Any:
    """Return a function of `devrt.numpy` or `devrt.lax` that takes keys, if it only moves them."""
    places = _PLACES.get(name)
    if places is None:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _has_overlaid(args) and not (kwargs and _has_overlaid(kwargs.values())):
            return function(*args, **kwargs)
        return _moved(name, function, places, args, kwargs)

    return call


def _has_overlaid(values: Any) -> bool:
    for value in values:
        kind = type(value)
        if (kind is list or kind is tuple) and _has_overlaid(value):
            return True
        if issubclass(kind, Overlaid):
            return True
    return False


def _moved(
    name: str, function: Callable[..., Any], places: slice, args: tuple[Any, ...], kwargs: Any
) -> Any:
    given = list(_leaves(args[places]))
    kinds = [each for each in given if isinstance(each, Overlaid)]
    if len(kinds) < len(given):
        other = next(each for each in given if not isinstance(each, Overlaid))
        what = getattr(other, "dtype", None) or type(other).__name__
        msg = (
            f"{name} of keys and of {what}{at_user_line()}: keys go with keys alone. Make keys of "
            "words of uint32 with devrt.random.wrap_key_data."
        )
        raise InvalidTypeError(msg, operation=name)
    over = kinds[0] if kinds else next(_leaves(kwargs.values(), only=Overlaid))
    result = function(*_elements(args), **{key: _elements(value) for key, value in kwargs.items()})
    if name in _ANSWERING:
        return result
    if isinstance(result, list | tuple):
        return type(result)(map(over._with_elements, result))
    return over._with_elements(result)


def _leaves(values: Any, only: type = object) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _leaves(value, only)
        elif isinstance(value, only):
            yield value


def _elements(value: Any) -> Any:
    if isinstance(value, Overlaid):
        return value._elements()
    if type(value) is list or type(value) is tuple:
        return type(value)(map(_elements, value))
    return value
