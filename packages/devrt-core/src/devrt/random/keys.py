"""Keys: what random numbers are drawn from, and how new keys come from one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from devrt import tree_util
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.eager import operation
from devrt.random.threefry import counts, hash_counts
from devrt.tracing import as_value, concatenate, constant, convert, is_tracing, named, reshape

__all__ = [
    "PRNGKey",
    "PRNGKeyArray",
    "clone",
    "fold_in",
    "key",
    "key_data",
    "key_impl",
    "split",
    "wrap_key_data",
]

_THREEFRY = "threefry2x32"
_NAMES = None, _THREEFRY, "fry"


class KeyType:
    """The dtype of arrays of keys."""

    name = "key<fry>"
    itemsize = 8

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyType)

    def __hash__(self) -> int:
        return hash(KeyType)

    def __repr__(self) -> str:
        return self.name


_KEY_TYPE = KeyType()


@tree_util.register_pytree_node_class
class PRNGKeyArray:
    """An array of keys. It is a tree with one leaf: two words of 32 bits for each key.

    `devrt.random.key` makes one, and `devrt.random.split` more. Indexing and iteration give keys.
    """

    __slots__ = ("_data",)

    _data: Any

    def __init__(self, data: Any) -> None:
        self._data = data

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Return the words, as the tree's only leaf."""
        return (self._data,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Sequence[Any]) -> PRNGKeyArray:
        """Return the keys of some words."""
        return cls(children[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of keys."""
        return tuple(self._data.shape[:-1])

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of keys."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> KeyType:
        """``key<fry>``: the dtype that arrays of keys have."""
        return _KEY_TYPE

    @property
    def sharding(self) -> Any:
        """How the words lie on devices."""
        return self._data.sharding

    def block_until_ready(self) -> PRNGKeyArray:
        """Wait until the keys are there; return them."""
        self._data.block_until_ready()
        return self

    def reshape(self, *shape: Any) -> PRNGKeyArray:
        """Return the keys in another shape."""
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return PRNGKeyArray(self._data.reshape((*given, 2)))

    def __getitem__(self, index: Any) -> PRNGKeyArray:
        if isinstance(index, tuple) and any(each is Ellipsis for each in index):
            index = (*index, slice(None))
        return PRNGKeyArray(self._data[(..., slice(None)) if index is Ellipsis else index])

    def __len__(self) -> int:
        if not self.shape:
            msg = "len() of one key"
            raise TypeError(msg)
        return self.shape[0]

    def __iter__(self) -> Iterator[PRNGKeyArray]:
        return (PRNGKeyArray(self._data[i]) for i in range(len(self)))

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


def key(seed: Any, *, impl: str | None = None, dtype: Any = None) -> PRNGKeyArray:
    """Return the key of a seed.

    Parameters
    ----------
    seed
        An integer; its lower 32 bits count.
    impl, dtype
        ``"threefry2x32"``, which is the default, and the only generator.

    Examples
    --------
    >>> from devrt import random
    >>> first, second = random.split(random.key(0))
    >>> random.uniform(first, (3,)).shape
    (3,)
    """
    _check_name(impl if dtype is None else str(dtype).removeprefix("key<").removesuffix(">"))
    return PRNGKeyArray(_seeded(seed, "key"))


def PRNGKey(seed: Any, *, impl: str | None = None) -> Any:  # noqa: N802 - JAX's name
    """Return the key of a seed as a plain array of two words, as older programs have them."""
    _check_name(impl)
    return _seeded(seed, "PRNGKey")


def _check_name(impl: Any) -> None:
    if impl not in _NAMES:
        msg = f"there is no random generator {impl!r}: give {_THREEFRY!r}, or none."
        raise InvalidArgumentError(msg, impl=impl)


def _seeded(seed: Any, function: str) -> Any:
    from devrt import numpy

    if isinstance(seed, int | np.integer) and not is_tracing():
        return numpy.asarray(np.array([0, int(seed) & 0xFFFFFFFF], np.uint32))
    if isinstance(seed, int):
        return as_value(np.array([0, seed & 0xFFFFFFFF], np.uint32))
    dtype = getattr(seed, "dtype", None)
    if dtype is None or getattr(dtype, "kind", "") not in "iub" or np.ndim(seed):
        msg = (
            f"{function}: a seed is one integer, and this is of type {type(seed).__name__}"
            f"{'' if dtype is None else f' with dtype {dtype} and shape {tuple(seed.shape)}'}."
        )
        raise InvalidTypeError(msg, operation=function)
    return _words_of_seed(seed)


@operation
def _words_of_seed(seed: Any) -> Any:
    return _padded(convert(as_value(seed), named("uint32")))


def _padded(low: Any) -> Any:
    """Return two words, of which the first is 0."""
    return concatenate([constant(0, named("uint32"), (1,)), reshape(low, (1,))], 0)


def key_data(keys: Any) -> Any:
    """Return the words of keys: an array of uint32 whose last dimension is 2."""
    return keys._data if isinstance(keys, PRNGKeyArray) else raw_keys(keys, "key_data")[0]


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None) -> PRNGKeyArray:
    """Return the keys of words, as `key_data` gives them."""
    _check_name(impl)
    from devrt import numpy

    words = raw_keys(key_bits_array, "wrap_key_data")[0]
    return PRNGKeyArray(numpy.asarray(words))


def key_impl(keys: Any) -> str:
    """Return the name of the generator that keys are for."""
    raw_keys(keys, "key_impl")
    return _THREEFRY


def clone(key: Any) -> Any:
    """Return a key: the same, as keys may be used more than once."""
    return key


def raw_keys(keys: Any, function: str) -> tuple[Any, bool]:
    """Return the words of keys, and whether they were given as a `PRNGKeyArray`."""
    if isinstance(keys, PRNGKeyArray):
        return keys._data, True
    shape, dtype = getattr(keys, "shape", None), getattr(keys, "dtype", None)
    if shape is None or dtype != np.uint32 or tuple(shape[-1:]) != (2,):
        given = type(keys).__name__ if shape is None else f"{dtype}{tuple(shape)}"
        msg = (
            f"{function}: a key is what devrt.random.key or split returns, or two words of uint32, "
            f"and not {given}."
        )
        raise InvalidTypeError(msg, operation=function)
    return keys, False


def raw_key(key: Any, function: str) -> Any:
    """Return the two words of one key."""
    data, _ = raw_keys(key, function)
    if tuple(data.shape) != (2,):
        msg = (
            f"{function} takes one key, and was given an array of keys of shape "
            f"{tuple(data.shape[:-1])}: index it, or map over it with devrt.lax.map."
        )
        raise InvalidArgumentError(msg, operation=function)
    return data


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """Return new keys, of which none is the one given.

    Parameters
    ----------
    key
        A key.
    num
        How many, or the shape of the array of keys.
    """
    shape = (int(num),) if isinstance(num, int | np.integer) else tuple(map(int, num))
    data = _split(raw_key(key, "split"), shape)
    return PRNGKeyArray(data) if isinstance(key, PRNGKeyArray) else data


@operation(static=("shape",))
def _split(data: Any, shape: tuple[int, ...]) -> Any:
    return split_words(as_value(data), shape)


def split_words(data: Any, shape: tuple[int, ...]) -> Any:
    """Return the words of new keys."""
    words = [reshape(word, (*shape, 1)) for word in hash_counts(data, *counts(shape))]
    return concatenate(words, len(shape))


def fold_in(key: Any, data: Any) -> Any:
    """Return the key that comes from a key and an integer, such as the number of a step."""
    words = raw_key(key, "fold_in")
    if isinstance(data, int):
        data = np.uint32(data & 0xFFFFFFFF)
    if np.ndim(data) or getattr(data, "dtype", np.dtype(float)).kind not in "iub":
        msg = f"fold_in takes one integer, and was given {data!r}."
        raise InvalidTypeError(msg, operation="fold_in")
    folded = _fold_in(words, data)
    return PRNGKeyArray(folded) if isinstance(key, PRNGKeyArray) else folded


@operation
def _fold_in(words: Any, data: Any) -> Any:
    low = reshape(convert(as_value(data), named("uint32")), (1,))
    first, second = hash_counts(as_value(words), constant(0, named("uint32"), (1,)), low)
    return concatenate([first, second], 0)
