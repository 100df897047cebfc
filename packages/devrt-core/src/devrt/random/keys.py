"""Keys: what random numbers are drawn from, and how new keys come from one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.eager import operation
from devrt.random.key_arrays import PRNGKeyArray
from devrt.random.threefry import counts, hash_counts
from devrt.tracing import as_value, concatenate, constant, convert, is_tracing, named, reshape

__all__ = [
    "PRNGKey",
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


def key(seed: Any, *, impl: str | None = None, dtype: Any = None) -> PRNGKeyArray:
    """Return the key of a seed.

    Parameters
    ----------
    seed
        An integer; its lower 32 bits count.
    impl, dtype
        ``"threefry2x32"``, which is the default, and the only generator; or the dtype of its keys.

    Examples
    --------
    >>> from devrt import random
    >>> first, second = random.split(random.key(0))
    >>> random.uniform(first, (3,)).shape
    (3,)
    """
    _check_name(impl, dtype)
    return PRNGKeyArray(_seeded(seed, "key"))


def PRNGKey(seed: Any, *, impl: str | None = None) -> Any:  # noqa: N802 - JAX's name
    """Return the key of a seed as a plain array of two words, as older programs have them."""
    _check_name(impl)
    return _seeded(seed, "PRNGKey")


def _check_name(impl: Any, dtype: Any = None) -> None:
    if impl is not None and dtype is not None:
        msg = f"give impl={impl!r} or dtype={dtype!r}, not both: each names the generator."
        raise InvalidArgumentError(msg, impl=impl)
    if dtype is not None:
        impl = str(dtype).removeprefix("key<").removesuffix(">")
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


def wrap_key_data(
    key_bits_array: Any, *, impl: str | None = None, dtype: Any = None
) -> PRNGKeyArray:
    """Return the keys of words, as `key_data` gives them; ``impl`` and ``dtype`` as of `key`."""
    _check_name(impl, dtype)
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
