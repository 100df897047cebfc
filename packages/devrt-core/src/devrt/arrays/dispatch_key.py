"""What decides which compiled program an array goes to, as one object to compare by identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from devrt.tracing.aval import ShapedArray, shaped

if TYPE_CHECKING:
    from devrt.arrays.array import Array
    from devrt.sharding import Sharding

__all__ = ["WEAK", "DispatchKey", "key_of", "key_with", "weakened"]

WEAK = frozenset((int, float, complex))
"""Python's numbers: arrays of them give way to another operand's dtype."""


class DispatchKey:
    """The kind of an array: of arrays with one key a program takes one as it takes another.

    Attributes
    ----------
    aval : ShapedArray
        Shape, dtype, and whether it is weak.
    sharding : Sharding
        Where it lies, the memory kind too.
    committed : bool
        Whether it was placed there on request.
    """

    __slots__ = ("__weakref__", "aval", "committed", "sharding")

    def __init__(self, aval: ShapedArray, sharding: Sharding, committed: bool) -> None:
        self.aval = aval
        self.sharding = sharding
        self.committed = committed


_keys: WeakValueDictionary[Any, DispatchKey] = WeakValueDictionary()


def key_with(aval: ShapedArray, sharding: Sharding, committed: bool) -> DispatchKey:
    """Return the one key of a kind of arrays."""
    kind = aval, sharding, committed
    key = _keys.get(kind)
    if key is None:
        key = _keys.setdefault(kind, DispatchKey(aval, sharding, committed))
    return key


def key_of(array: Array) -> DispatchKey:
    """Return an array's key; the array keeps it."""
    key = array._key
    if key is None:
        aval = shaped(array.shape, array.dtype)
        key = array._key = key_with(aval, array.sharding, array._committed)
    return key


def weakened(array: Array) -> Array:
    """Return an array that nobody else has yet as one that gives way to others' dtypes."""
    aval = shaped(array.shape, array.dtype, True)
    array._key = key_with(aval, array.sharding, array._committed)
    return array
