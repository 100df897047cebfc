"""Python called by traced functions while they run: print, callback, pure_callback."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from devrt._pytree import array_trees
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.lax.bodies import describe
from devrt.programs.arguments import check_callable
from devrt.programs.host_functions import number_of
from devrt.tracing import (
    ArrayOperators,
    ShapedArray,
    as_value,
    at_user_line,
    host_call,
    is_tracing,
    named,
    shaped,
)

__all__ = ["callback", "print", "pure_callback"]


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print arrays when a traced function runs; outside of one, now.

    Parameters
    ----------
    fmt
        A format string as `str.format` takes it: ``"x is {}, y is {y:.2f}"``. Not an f-string,
        which is formatted while the function is traced.
    *args, **kwargs
        What goes into its fields: arrays, and trees of arrays.
    ordered
        Whether it comes after the ordered prints and callbacks before it. Others print when their
        operands are there.

    Raises
    ------
    InvalidArgumentError
        If the format string has other fields than there are arguments.
    UnimplementedError
        When the function is compiled, if the client takes no custom calls: those of the CPU do.

    Notes
    -----
    A program of several devices prints whole arrays, once. In the body of ``shard_map`` each device
    prints its own.
    """
    _Checked(fmt).vformat(fmt, args, kwargs)

    def show(*given: Any, **by_name: Any) -> None:
        # At once, as devices print together.
        sys.stdout.write(fmt.format(*given, **by_name) + "\n")
        sys.stdout.flush()

    _call(show, ("print", fmt), args, kwargs, ordered)


class _Checked(string.Formatter):
    """Finds fields that have no arguments, and arguments that have no field."""

    def __init__(self, fmt: Any) -> None:
        self._line = at_user_line()
        if not isinstance(fmt, str):
            msg = f"debug.print takes a format string first, not {fmt!r}{self._line}."
            raise InvalidTypeError(msg, operation="debug.print")
        self._fmt = fmt

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        try:
            return super().get_field(field_name, args, kwargs)
        except (IndexError, KeyError) as error:
            raise self._refused(f"has no argument for {{{field_name}}}") from error

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [i for i in (*range(len(args)), *kwargs) if i not in used_args]
        if unused:
            shown = ", ".join(map(str, unused))
            raise self._refused(f"has no field for the argument(s) {shown}")

    def _refused(self, reason: str) -> InvalidArgumentError:
        msg = f"debug.print({self._fmt!r}) {reason}{self._line}."
        return InvalidArgumentError(msg, operation="debug.print")


def callback(
    callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any
) -> None:
    """Call a function of Python when a traced function runs; outside of one, now.

    Parameters
    ----------
    callback
        Takes the arguments, with NumPy's arrays in the place of arrays. What it returns is dropped;
        what it raises becomes the error of the program's results.
    *args, **kwargs
        Trees of arrays, and of anything else, which is handed over as it is.
    ordered
        As that of `print`.
    """
    check_callable("debug.callback", callback)
    _call(callback, ("callback", callback), args, kwargs, ordered)


def _is_array(x: Any) -> bool:
    numbers = bool, int, float, complex, np.ndarray, np.generic
    return isinstance(x, (ArrayOperators, *numbers))


def _call(
    function: Callable[..., Any],
    key: Hashable,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    ordered: bool,
) -> None:
    leaves, structure = array_trees.tree_flatten((args, kwargs))
    run = _Flat(function, structure, [None if _is_array(x) else (x,) for x in leaves])
    arrays = [x for x in leaves if _is_array(x)]
    if not is_tracing():
        run(*map(np.asarray, arrays))
        return
    known = _key(key, structure, run.fixed)
    number = number_of(known, run, len(arrays))
    host_call(number, [as_value(x) for x in arrays], is_ordered=ordered)


def _key(*parts: Any) -> Hashable:
    """Return what tells functions apart; None where that is not hashable."""
    key = tuple(tuple(part) if isinstance(part, list) else part for part in parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key


class _Flat:
    """A function of trees as one of the arrays in them; what is no array is kept."""

    def __init__(
        self, function: Callable[..., Any], structure: Any, fixed: list[tuple[Any] | None]
    ) -> None:
        self.function = function
        self.structure = structure
        self.fixed = fixed

    def __call__(self, *arrays: Any) -> Any:
        rest = iter(arrays)
        leaves = [next(rest) if each is None else each[0] for each in self.fixed]
        args, kwargs = array_trees.tree_unflatten(self.structure, leaves)
        return self.function(*args, **kwargs)


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return what a function of Python makes of arrays, in a traced function when that runs.

    It may be called any number of times, or never where no result is used; on several devices each
    calls it with whole arrays. Gradients do not go through it.

    Parameters
    ----------
    callback
        Takes the arguments, with NumPy's arrays in the place of arrays, and returns a tree of
        arrays.
    result_shape_dtypes
        A tree of what has a shape and a dtype, such as `ShapeDtypeStruct`, as the function's
        result.
    *args, **kwargs
        Trees of arrays, and of anything else, which is handed over as it is.
    sharding, vmap_method
        Accepted for JAX's sake.

    Raises
    ------
    InvalidTypeError
        Outside of a trace, if the function returns another tree, shape or dtype. In a program the
        error is that of its results.
    UnimplementedError
        When the function is compiled, if the client takes no custom calls: those of the CPU do.
    """
    specs, results = array_trees.tree_flatten(result_shape_dtypes)
    avals = [shaped(tuple(s.shape), named(np.dtype(s.dtype).name)) for s in specs]
    leaves, structure = array_trees.tree_flatten((args, kwargs))
    run = _Flat(callback, structure, [None if _is_array(x) else (x,) for x in leaves])
    arrays = [x for x in leaves if _is_array(x)]

    def flat(*given: Any) -> list[Any]:
        return _checked(run(*given), results, avals, callback)

    if not is_tracing():
        from devrt.arrays import device_put

        made = [device_put(x) for x in flat(*map(np.asarray, arrays))]
        return array_trees.tree_unflatten(results, made)
    key = _key(("pure_callback", callback), structure, run.fixed, results, avals)
    number = number_of(key, flat, len(arrays), avals)
    made = host_call(number, [as_value(x) for x in arrays], avals, has_effect=False)
    return array_trees.tree_unflatten(results, made)


def _checked(
    made: Any, structure: Any, avals: Sequence[ShapedArray], function: Callable[..., Any]
) -> list[Any]:
    leaves, found = array_trees.tree_flatten(made)
    arrays = [np.asarray(x) for x in leaves]
    given = [f"{x.dtype.name}{list(x.shape)}" for x in arrays]
    wanted = [f"{aval.dtype.name}{list(aval.shape)}" for aval in avals]
    if found != structure or given != wanted:
        msg = (
            f"pure_callback: {describe(function)} must return {wanted}, as result_shape_dtypes "
            f"says, and returned {given}. Change one of them."
        )
        raise InvalidTypeError(msg, operation="pure_callback")
    return arrays
