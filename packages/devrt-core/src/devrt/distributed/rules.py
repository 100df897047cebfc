"""What every engine refuses, in the same words."""

from __future__ import annotations

from collections.abc import Collection

from devrt.distributed.faults import named, refused
from devrt.errors import DevrtError, StatusCode

__all__ = [
    "barrier_of_others",
    "check_count",
    "check_expected",
    "check_key",
    "check_length",
    "check_number",
    "check_size",
    "number_taken",
    "too_long",
    "was_lost",
]


def check_count(given: int, size: int) -> None:
    """Refuse a list of more processes than a job has: it would be gone through in vain."""
    if given > size:
        words = f"{given} process ids are given, and this cluster has {size} processes."
        raise refused(StatusCode.INVALID_ARGUMENT, words)


def check_number(number: int, size: int) -> None:
    """Refuse a process that a job of some size does not have."""
    if not 0 <= number < size:
        words = f"process id {number} is not in 0..{size - 1} of this cluster."
        raise refused(StatusCode.INVALID_ARGUMENT, words, process=number)


def check_size(number: int, given: int | None, size: int) -> None:
    """Refuse a process that was given another size of the job; clients of jaxlib's do not say."""
    if given and given != size:
        words = (
            f"process {number} has num_processes={given}, and process 0 began this job with "
            f"{size}. Give every process the same number."
        )
        raise refused(StatusCode.INVALID_ARGUMENT, words, process=number)


def check_key(key: str, most: int) -> None:
    """Refuse a key, or the name of a barrier, that is too long."""
    if (size := len(key.encode())) > most:
        words = f"a key has at most {most} bytes; one has {size}."
        raise refused(StatusCode.INVALID_ARGUMENT, words)


def check_length(size: int, most: int | None) -> None:
    """Refuse a message that is longer than a service takes; None where that is not known."""
    if most is not None and size > most:
        raise too_long(size, most)


def too_long(size: int, most: int) -> DevrtError:
    """Return the error for a message that is longer than a service takes."""
    words = (
        f"a message of {size} bytes is longer than the {most} that this service takes. Divide the "
        "value over several keys, or give the service bounds=Bounds(message_bytes=...)."
    )
    return refused(StatusCode.RESOURCE_EXHAUSTED, words)


def check_expected(name: str, number: int, expected: Collection[int], size: int) -> None:
    """Refuse a barrier whose processes there are not, or that is for others than the caller."""
    for one in expected:
        check_number(one, size)
    if number not in expected:
        words = f"process {number} waits at barrier {name!r}, which is for others."
        raise refused(StatusCode.INVALID_ARGUMENT, words, barrier=name)


def barrier_of_others(
    name: str, there: Collection[int], number: int, given: Collection[int]
) -> DevrtError:
    """Return the error for a barrier that waits for others than one of its processes gives."""
    words = (
        f"barrier {name!r} waits for {named(there)}, and process {number} gives {named(given)}. "
        "Give every process the same list."
    )
    return refused(StatusCode.INVALID_ARGUMENT, words, barrier=name)


def number_taken(number: int, phase: str) -> DevrtError:
    """Return the error for a process whose number another has."""
    words = (
        f"process id {number} is taken by another process, which is {phase}. Give each process an "
        "id of its own."
    )
    return refused(StatusCode.ALREADY_EXISTS, words, process=number)


def was_lost(number: int) -> DevrtError:
    """Return the error for a process that comes again where none may."""
    words = f"process {number} was lost, and the service is not recoverable."
    return refused(StatusCode.ABORTED, words, process=number)
