"""What is an array to ``isinstance``: arrays on devices, traced values, and arrays of keys."""

from __future__ import annotations

from typing import Any

__all__ = ["ArrayLike", "ArrayType", "Overlaid"]


class ArrayLike:
    """Base of all that users take for an array."""

    __slots__ = ()


class ArrayType(type):
    """The class of `devrt.Array`: every `ArrayLike` is an instance of it, as users test for it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), ArrayLike)


class Overlaid(ArrayLike):
    """An array each of whose elements lies over several of another one, as keys lie over words.

    Functions that only move elements take one: they move those of `_elements`.
    """

    __slots__ = ()

    def _elements(self) -> Any:
        """Return the elements as numbers, in an array of the same shape."""
        raise NotImplementedError

    def _with_elements(self, elements: Any) -> Any:
        """Return the array that has some of the elements, or others, in any shape."""
        raise NotImplementedError
