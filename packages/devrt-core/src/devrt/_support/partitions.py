"""Which partition of a job's GPUs a process's are in, where several names give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devrt.errors import InvalidArgumentError

__all__ = ["MOST_NODES", "one_partition"]

MOST_NODES = 1 << 30
"""What the native half's integers hold, of nodes and so of partitions: each has a node at least."""


def one_partition(given: Mapping[str, int | None], label: str) -> int | None:
    """Return the partition that is given under one name or more; None if none is given.

    ``label`` is what the errors call a name in their data: ``"option"``, ``"argument"``.

    Raises
    ------
    InvalidArgumentError
        If one is out of range, or two differ.
    """
    known = {name: partition for name, partition in given.items() if partition is not None}
    for name, partition in known.items():
        if not 0 <= partition < MOST_NODES:
            msg = f"{name} must be at least 0 and below {MOST_NODES}, not {partition}."
            raise _refusal(msg, label, name)
    if len(set(known.values())) > 1:
        listed = ", ".join(f"{partition} ({name})" for name, partition in known.items())
        msg = f"this process's devices are in one partition, not in {listed}. Give one of them."
        raise _refusal(msg, label, next(iter(known)))
    return next(iter(known.values()), None)


def _refusal(message: str, label: str, name: str) -> InvalidArgumentError:
    data: dict[str, Any] = {label: name}
    return InvalidArgumentError(message, **data)
