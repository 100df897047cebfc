"""Arrays of keys: each element lies over two words of 32 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from devrt._pytree.registry import array_registry
from devrt._support.shape_members import ShapeMembers
from devrt.dtypes import prng_key
from devrt.errors import InvalidTypeError
from devrt.programs.eager import operation
from devrt.random.threefry import joined_words
from devrt.tracing import (
    ArrayOperators,
    Overlaid,
    as_value,
    concatenate,
    constant,
    convert,
    named,
    nary,
    reshape,
    slice_,
)
from devrt.tracing.operators import functions

__all__ = ["PRNGKeyArray"]


class KeyType:
    """The dtype of arrays of keys."""

    name = "key<fry>"
    itemsize = 8
    type = prng_key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyType)

    def __hash__(self) -> int:
        return hash(KeyType)

    def __repr__(self) -> str:
        return self.name


_KEY_TYPE = KeyType()


class PRNGKeyArray(ShapeMembers, Overlaid):
    """An array of keys, which `devrt.random.key` and `devrt.random.split` make.

    The functions of `devrt.numpy` that only move elements take it, and so do those that take trees
    of arrays, in which it is one leaf. In a program it is its words: two of 32 bits for each key.
    """

    __slots__ = ("_data",)
    __hash__ = None  # type: ignore[assignment]

    _data: Any

    def __init__(self, data: Any) -> None:
        self._data = data

    # -- what it is ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of keys."""
        return tuple(self._data.shape[:-1])

    @property
    def dtype(self) -> KeyType:
        """``key<fry>``: the dtype that arrays of keys have."""
        return _KEY_TYPE

    # -- where it is --------------------------------------------------------------------------

    @property
    def sharding(self) -> Any:
        """How the words lie on devices."""
        return self._data.sharding

    @property
    def committed(self) -> bool:
        """Whether the placement was requested, rather than taken by default."""
        return bool(self._data.committed)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process addresses every shard."""
        return bool(self._data.is_fully_addressable)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds all keys."""
        return bool(self._data.is_fully_replicated)

    def devices(self) -> set[Any]:
        """Return every device of the array."""
        return set(self._data.devices())

    def addressable_data(self, index: int) -> PRNGKeyArray:
        """Return the keys of the ``index``-th addressable shard."""
        return PRNGKeyArray(self._data.addressable_data(index))

    def block_until_ready(self) -> PRNGKeyArray:
        """Wait until the keys are there; return them."""
        self._data.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        """Start copying the words to the host."""
        self._data.copy_to_host_async()

    def is_deleted(self) -> bool:
        """Return whether the memory was given back or donated."""
        return bool(self._data.is_deleted())

    def delete(self) -> None:
        """Give the memory back."""
        self._data.delete()

    def copy(self) -> PRNGKeyArray:
        """Return keys with memory of their own."""
        return PRNGKeyArray(self._data.copy())

    # -- its parts, and other shapes ----------------------------------------------------------

    T = ArrayOperators.T
    flatten = ArrayOperators.flatten
    ravel: Any = ArrayOperators.ravel  # type: ignore[attr-defined]
    repeat: Any = ArrayOperators.repeat  # type: ignore[attr-defined]
    reshape = ArrayOperators.reshape
    squeeze: Any = ArrayOperators.squeeze  # type: ignore[attr-defined]
    swapaxes: Any = ArrayOperators.swapaxes  # type: ignore[attr-defined]
    take: Any = ArrayOperators.take  # type: ignore[attr-defined]
    transpose = ArrayOperators.transpose
    __setitem__ = ArrayOperators.__setitem__

    @property
    def at(self) -> _At:
        """Updates of parts: ``keys.at[index].set(key)`` returns an array with other keys there."""
        return _At(self)

    def __getitem__(self, index: Any) -> PRNGKeyArray:
        if isinstance(index, list):
            return PRNGKeyArray(self._data[index])  # which raises: a list is no index
        entries = index if isinstance(index, tuple) else (index,)
        rest = () if any(each is Ellipsis for each in entries) else (Ellipsis,)
        return PRNGKeyArray(self._data[(*entries, *rest, slice(None))])

    def __len__(self) -> int:
        if not self.shape:
            msg = "len() of one key"
            raise TypeError(msg)
        return self.shape[0]

    def __iter__(self) -> Iterator[PRNGKeyArray]:
        if not self.shape:
            msg = "iteration over one key: devrt.random.split makes more of it"
            raise TypeError(msg)
        return map(PRNGKeyArray, iter(self._data))

    # -- its values ---------------------------------------------------------------------------

    def __eq__(self, other: object) -> Any:
        return functions["equal"](self, other) if hasattr(other, "dtype") else NotImplemented

    def __ne__(self, other: object) -> Any:
        return functions["not_equal"](self, other) if hasattr(other, "dtype") else NotImplemented

    def __bool__(self) -> NoReturn:
        msg = "keys have no truth value"
        raise TypeError(msg)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        msg = (
            "keys are no numbers, and NumPy has no arrays of them. devrt.random.key_data(keys) has "
            "their words."
        )
        raise InvalidTypeError(msg, operation="numpy.asarray")

    def __repr__(self) -> str:
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{self._data}"

    def _elements(self) -> Any:
        return _joined(self._data)

    def _with_elements(self, elements: Any) -> PRNGKeyArray:
        return PRNGKeyArray(_parted(elements))


array_registry.register_node(
    PRNGKeyArray, lambda keys: ((keys._data,), None), lambda _, data: PRNGKeyArray(data[0])
)


class _At:
    """What ``keys.at`` is; see `devrt.Array.at`."""

    def __init__(self, keys: PRNGKeyArray) -> None:
        self._keys = keys

    def __getitem__(self, index: Any) -> _AtIndex:
        return _AtIndex(self._keys, index)


class _AtIndex:
    def __init__(self, keys: PRNGKeyArray, index: Any) -> None:
        self._keys = keys
        self._at = functions["asarray"](keys._elements()).at[index]

    def get(self, **options: Any) -> PRNGKeyArray:
        """Return the keys there."""
        return self._keys._with_elements(self._at.get(**options))

    def set(self, values: PRNGKeyArray, **options: Any) -> PRNGKeyArray:
        """Return the array with other keys there."""
        given: Any = values  # callers are not bound by the annotation
        if not isinstance(given, PRNGKeyArray):
            msg = f"keys are set to keys, not to a value of type {type(given).__name__}."
            raise InvalidTypeError(msg, operation="at.set")
        return self._keys._with_elements(self._at.set(values._elements(), **options))


@operation
def _joined(data: Any) -> Any:
    data = as_value(data)
    *shape, _ = data.shape
    starts, ends = (0,) * len(shape), tuple(shape)
    high, low = (reshape(slice_(data, (*starts, i), (*ends, i + 1)), ends) for i in range(2))
    return joined_words(high, low)


@operation
def _parted(elements: Any) -> Any:
    elements, word = as_value(elements), named("uint32")
    shape = (*elements.shape, 1)
    high = nary("shift_right_logical", elements, constant(32, elements.dtype))
    return concatenate(
        [reshape(convert(each, word), shape) for each in (high, elements)], len(shape) - 1
    )
