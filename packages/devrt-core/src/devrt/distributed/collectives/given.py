"""What a rank gives an operation of its communicator."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["bytes_of", "check_other", "check_rank", "only", "pairs_of"]

Array = np.ndarray[Any, np.dtype[Any]]


def only(values: Sequence[Any], operation: str) -> Array:
    """Return the one part of this process as a dense array."""
    if not isinstance(values, (list, tuple)) or len(values) != 1:
        msg = (
            f"{operation} takes a list of one array: one for each rank of this process, which is "
            "one rank."
        )
        raise InvalidTypeError(msg, operation=operation)
    x = np.asarray(values[0])
    if x.dtype.hasobject or x.dtype.kind in "SUMm" or not x.dtype.isnative:
        msg = f"{operation} cannot send elements of {x.dtype}: they are no plain numbers."
        raise InvalidTypeError(msg, operation=operation)
    return np.ascontiguousarray(x).reshape(x.shape)


def bytes_of(x: Array) -> Array:
    """Return the bytes of a dense array, without a copy."""
    return x.reshape(-1).view(np.uint8)


def pairs_of(values: Any) -> list[tuple[int, int]]:
    """Return pairs of a source and a target."""
    try:
        return [(index(source), index(target)) for source, target in values]
    except (TypeError, ValueError) as error:
        msg = f"permute takes pairs of ranks, a source and a target each, not {values!r}."
        raise InvalidTypeError(msg, operation="permute") from error


def check_rank(rank: int, size: int, operation: str) -> None:
    """Refuse what is no rank of so many."""
    try:
        found = index(rank)
    except TypeError as error:
        msg = f"{operation} names a rank by its number, and not by {rank!r}."
        raise InvalidTypeError(msg, operation=operation) from error
    if not 0 <= found < size:
        msg = f"{operation} names rank {rank}, and there are {size}, from 0."
        raise InvalidArgumentError(msg, operation=operation, rank=rank)


def check_other(rank: int, mine: int, size: int, operation: str) -> None:
    """Refuse what is no rank of another process."""
    check_rank(rank, size, operation)
    if rank == mine:
        msg = f"{operation} names rank {rank}, which this is. Keep the value instead."
        raise InvalidArgumentError(msg, operation=operation, rank=rank)
