"""The leaves of a call's arguments: what a program is compiled for of each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.arrays import Array, ShapeDtypeStruct
from devrt.arrays.dispatch_key import DispatchKey, key_of, key_with
from devrt.errors import DevrtError, InvalidTypeError
from devrt.tracing import ShapedArray, Tracer, at_user_line, shaped
from devrt.tracing.promotion import dtype_of_scalar
from devrt.tracing.trace import leaked

__all__ = ["Kind", "aval_of", "described_kinds", "kinds_of"]

Kind = DispatchKey | ShapedArray
"""What is known of an argument: an array's key, or the shape and dtype of a value of the host."""


def kinds_of(leaves: Sequence[Any], paths: Callable[[], list[str]]) -> tuple[Kind, ...]:
    """Return the kind of each leaf of a call.

    ``paths`` returns what errors call them. Raises `InvalidTypeError` for what is no array and no
    number, and `UnexpectedTracerError` for a value of a trace that has ended.
    """
    try:
        kinds = tuple([_KINDS.get(type(leaf), _other)(leaf) for leaf in leaves])
    except _NoArrayError:
        at, leaf = next((i, x) for i, x in enumerate(leaves) if not _is_array(x))
        msg = (
            f"argument {paths()[at]} is of type {type(leaf).__name__}, which is no array and no "
            f"number{at_user_line()}. Name it in static_argnums or static_argnames if it decides "
            "what is computed, or convert it with devrt.numpy.asarray."
        )
        raise InvalidTypeError(msg, argument=paths()[at], type=type(leaf).__name__) from None
    return _widened(leaves, kinds) if not _FRACTIONS.isdisjoint(kinds) else kinds


def _widened(leaves: Sequence[Any], kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Return kinds in which Python's fractions are of 64 bits, if an array's are: as exact."""
    if all(aval_of(kind).dtype.name not in ("float64", "complex128") for kind in kinds):
        return kinds
    pairs = zip(leaves, kinds, strict=True)
    return tuple([_WIDE.get(type(leaf), kind) for leaf, kind in pairs])


def described_kinds(leaves: Sequence[Any], paths: Callable[[], list[str]]) -> tuple[Kind, ...]:
    """Return the kind of each leaf, where some are only described, as `ShapeDtypeStruct` or so."""
    return tuple(
        [
            kind
            if (kind := _described(leaf)) is not None
            else kinds_of([leaf], lambda i=i: [paths()[i]])[0]  # type: ignore[misc]
            for i, leaf in enumerate(leaves)
        ]
    )


def aval_of(kind: Kind) -> ShapedArray:
    """Return the shape and dtype of an argument."""
    return kind.aval if type(kind) is DispatchKey else kind  # type: ignore[return-value]


def _described(leaf: Any) -> Kind | None:
    if isinstance(leaf, ShapedArray):
        return leaf
    if type(leaf) in _KINDS or isinstance(leaf, np.ndarray | np.generic | Tracer):
        return None
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return None
    dtype = dtypes.to_numpy(dtypes.code_of(leaf.dtype))
    aval = shaped(tuple(leaf.shape), dtype, bool(getattr(leaf, "weak_type", False)))
    sharding = leaf.sharding if isinstance(leaf, ShapeDtypeStruct) else None
    return aval if sharding is None else key_with(aval, sharding, True)


class _NoArrayError(Exception):
    """A leaf is no array."""


def _is_array(leaf: Any) -> bool:
    try:
        _KINDS.get(type(leaf), _other)(leaf)
    except _NoArrayError:
        return False
    return True


def _scalar(leaf: Any) -> ShapedArray:
    return shaped((), dtype_of_scalar(leaf), True)


def _host(leaf: Any) -> ShapedArray:
    return shaped(leaf.shape, _held_as(leaf.dtype))


@functools.lru_cache(maxsize=256)
def _held_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtypes.to_numpy(dtypes.code_of(dtype))


_FRACTIONS = frozenset(shaped((), np.dtype(name), True) for name in ("float32", "complex64"))
_WIDE: dict[type, Kind] = {
    float: shaped((), np.dtype(np.float64), True),
    complex: shaped((), np.dtype(np.complex128), True),
}
_BOOL = shaped((), np.dtype(bool))
_KINDS: dict[type, Callable[[Any], Kind]] = {
    Array: key_of,
    bool: lambda leaf: _BOOL,
    int: _scalar,
    float: _scalar,
    complex: _scalar,
    np.ndarray: _host,
}


def _other(leaf: Any) -> Kind:
    if isinstance(leaf, Tracer):
        raise leaked(leaf)
    if isinstance(leaf, ShapeDtypeStruct):
        raise _NoArrayError
    if isinstance(leaf, np.ndarray | np.generic):
        return _host(leaf)
    if isinstance(leaf, bool | int | float | complex):
        return _scalar(leaf)
    if hasattr(type(leaf), "__array__") or hasattr(type(leaf), "__dlpack__"):
        try:
            return _host(np.asarray(leaf))
        except (DevrtError, TypeError, ValueError, RuntimeError) as error:
            raise _NoArrayError from error
    raise _NoArrayError
