"""Threefry 2x32: the hash that random bits come from, in plain integer operations.

Of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011), with 20 rounds. Counts are
positions, so that every device computes the bits of its own shard.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from devrt.tracing import compare, constant, convert, index_in_dim, iota, named, nary
from devrt.tracing.control import while_loop
from devrt.tracing.trace import trace_flat

__all__ = ["hash_counts", "key_halves", "random_bits"]

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def key_halves(data: Any) -> tuple[Any, Any]:
    """Return the two words of one key's data, as scalars."""
    return index_in_dim(data, 0), index_in_dim(data, 1)


def hash_counts(data: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """Return two words of bits for each count, which is given as two words too.

    The rounds are a loop of five turns: unrolled they take a compiler seconds.
    """
    first, second = key_halves(data)
    third = _xor(_xor(first, second), constant(_PARITY, named("uint32")))
    rotations = [constant(np.array(each, np.uint32), named("uint32")) for each in _ROTATIONS]
    x, y = nary("add", high, first), nary("add", low, second)
    start = [constant(0, named("uint32")), x, y, second, third, first, *rotations]
    avals = [value.aval for value in start]
    limit = constant(5, named("uint32"))
    condition = trace_flat(lambda i, *_: (compare("LT", i, limit),), avals, "is_left")
    x, y = while_loop(condition, trace_flat(_turn, avals, "turn"), start)[1:3]
    return x, y


def _turn(i: Any, x: Any, y: Any, a: Any, b: Any, c: Any, now: Any, then: Any) -> list[Any]:
    """Return the state after four rounds and a part of the key, which takes turns."""
    for round_ in range(4):
        x = nary("add", x, y)
        y = _xor(x, _rotated(y, index_in_dim(now, round_)))
    after = nary("add", i, constant(1, named("uint32")))
    return [after, nary("add", x, a), nary("add", nary("add", y, b), after), b, c, a, then, now]


def _xor(x: Any, y: Any) -> Any:
    return nary("xor", x, y)


def _rotated(x: Any, distance: Any) -> Any:
    """Return words whose bits are rotated to the left."""
    rest = nary("subtract", constant(32, named("uint32")), distance)
    return nary("or", nary("shift_left", x, distance), nary("shift_right_logical", x, rest))


def counts(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the position of each element, row by row, as two words."""
    word = named("uint32")
    size = math.prod(shape)
    dtype = word if size < 2**32 else named("uint64")
    strides = [*itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1)][::-1]
    total = constant(0, dtype, shape)
    for dimension, stride in enumerate(strides if shape else ()):
        positions = iota(shape, dimension, dtype)
        total = nary("add", total, nary("multiply", positions, constant(stride, dtype)))
    if dtype is word:
        return constant(0, word, shape), total
    high = nary("shift_right_logical", total, constant(32, dtype))
    return convert(high, word), convert(total, word)


def random_bits(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return uniformly random unsigned integers of 8, 16, 32 or 64 bits."""
    high, low = hash_counts(data, *counts(shape))
    return convert(_xor(high, low), dtype) if dtype.itemsize < 8 else joined_words(high, low)


def joined_words(high: Any, low: Any) -> Any:
    """Return integers of 64 bits of two words each.

    By a shift: compilers for TPUs do not bitcast to 64 bits.
    """
    dtype = named("uint64")
    shifted = nary("shift_left", convert(high, dtype), constant(32, dtype))
    return nary("or", shifted, convert(low, dtype))
