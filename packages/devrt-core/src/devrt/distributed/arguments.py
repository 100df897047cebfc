"""What a client of a job is given: checked before any engine sees it."""

from __future__ import annotations

import math
import numbers as kinds
import os
from collections.abc import Callable, Iterable
from operator import index
from typing import Any, TypeVar

from devrt._support.partitions import one_partition
from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "callback",
    "count",
    "decoded",
    "device_ids",
    "file",
    "flag",
    "instance",
    "milliseconds",
    "number",
    "octets",
    "positive_seconds",
    "process",
    "processes",
    "seconds",
    "secret",
    "text",
]

Kind = TypeVar("Kind")

_LONGEST_MS = (1 << 31) - (1 << 20)  # 24 days: what the calls of systems for sockets take

_MOST_PROCESSES = 1 << 20


def decoded(value: bytes, key: str) -> str:
    """Return the text of a key's value."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        msg = f"the value of key {key!r} is no text of UTF-8: {error}. Use the method of _bytes."
        raise InvalidArgumentError(msg, argument="key", key=key) from error


def file(value: Any, name: str) -> str | None:
    """Return the path of a file, or None for none."""
    try:
        path = None if value is None else os.fsdecode(value)
    except TypeError as error:
        msg = f"{name} must be the path of a file, not {value!r}."
        raise InvalidTypeError(msg, argument=name) from error
    if path is not None and (not path or "\0" in path or not _is_text(path)):
        msg = f"{name} is no path of a file: {path!r}."
        raise InvalidArgumentError(msg, argument=name)
    return path


def callback(value: Any, name: str) -> Callable[[Exception], Any] | None:
    """Return a function to call with an error, or None for none."""
    if value is not None and not callable(value):
        msg = f"{name} must be a function of one argument, the error, not {value!r}."
        raise InvalidTypeError(msg, argument=name)
    return value  # type: ignore[no-any-return]


def instance(value: Any, kind: type[Kind], name: str) -> Kind:
    """Return an object of devrt's own."""
    if not isinstance(value, kind):
        msg = f"{name} must be devrt.distributed.{kind.__name__}, not {value!r}."
        raise InvalidTypeError(msg, argument=name)
    return value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value: Any, name: str) -> str:
    """Return a key, a text or a name, which UTF-8 has."""
    if not isinstance(value, str):
        msg = f"{name} must be a str, not {value!r}."
        raise InvalidTypeError(msg, argument=name)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        msg = f"{name} is no text that UTF-8 has: {error}."
        raise InvalidArgumentError(msg, argument=name) from error
    return value


def secret(value: Any) -> str | None:
    """Return a token, or None for none."""
    if value is None:
        return None
    if isinstance(value, str):
        if value and value.isascii() and value.isprintable():
            return value
        msg = "token must have one character or more, all of them printable ASCII."  # headers' text
        raise InvalidArgumentError(msg, argument="token")
    msg = f"token must be a str, not one of type {type(value).__name__}."  # it is not shown
    raise InvalidTypeError(msg, argument="token")


def octets(value: Any) -> bytes:
    """Return the bytes of a value."""
    if type(value) is bytes:
        return value  # not copied
    try:
        return bytes(memoryview(value))
    except TypeError as error:
        msg = f"value must be bytes, not {value!r}. Texts are set with key_value_set."
        raise InvalidTypeError(msg, argument="value") from error


def number(value: Any, name: str) -> int:
    """Return an integer of 64 bits."""
    try:
        if isinstance(value, bool):
            raise TypeError
        found = index(value)
    except TypeError as error:
        msg = f"{name} must be an integer, not {value!r}."
        raise InvalidTypeError(msg, argument=name) from error
    if not -1 << 63 <= found < 1 << 63:
        msg = f"{name} must have 64 bits at most, and {found} has more."
        raise InvalidArgumentError(msg, argument=name)
    return found


def count(value: Any, name: str) -> int:
    """Return how many processes a job has."""
    found = number(value, name)
    if not 1 <= found <= _MOST_PROCESSES:
        msg = f"{name} must be 1 to {_MOST_PROCESSES}, and is {found}."
        raise InvalidArgumentError(msg, argument=name)
    return found


def process(value: Any, name: str) -> int:
    """Return the id that a process of a job may have."""
    found = number(value, name)
    if not 0 <= found < _MOST_PROCESSES:
        msg = f"{name} is {found}. Ids are 0 to the number of processes - 1."
        raise InvalidArgumentError(msg, argument=name, process=found)
    return found


def partition(slice_index: Any, partition_index: Any) -> int | None:
    """Return which partition a process's GPUs are in, by either name."""
    given = {"partition_index": partition_index, "slice_index": slice_index}
    numbers = {n: None if value is None else number(value, n) for n, value in given.items()}
    return one_partition(numbers, "argument")


def processes(values: Any) -> list[int]:
    """Return the ids of processes, each once; whether the job has them its service knows."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        msg = f"process_ids must be integers, not {values!r}."
        raise InvalidTypeError(msg, argument="process_ids")
    found = [number(value, "each of process_ids") for value in values]
    for one in found:
        if not -1 << 31 <= one < 1 << 31:
            msg = f"process id {one} is of no job."
            raise InvalidArgumentError(msg, argument="process_ids", process=one)
    return list(dict.fromkeys(found))


def seconds(value: Any, name: str) -> float:
    """Return the seconds of an option."""
    is_real = isinstance(value, kinds.Real) and not isinstance(value, bool)
    if not is_real or math.isnan(value):
        msg = f"{name} must be a number of seconds, not {value!r}."
        raise InvalidTypeError(msg, argument=name)
    if value < 0:
        msg = f"{name} must not be negative, and is {value}."
        raise InvalidArgumentError(msg, argument=name)
    return float(min(value, _LONGEST_MS / 1000))


def positive_seconds(value: Any, name: str) -> float:
    """Return the seconds of an option without which nothing could be waited for."""
    found = seconds(value, name)
    if not found:
        msg = f"{name} must be more than 0 seconds."
        raise InvalidArgumentError(msg, argument=name)
    return found


def flag(value: Any, name: str) -> bool:
    """Return whether an option is wanted."""
    if not isinstance(value, bool):
        msg = f"{name} must be True or False, not {value!r}."
        raise InvalidTypeError(msg, argument=name)
    return value


def device_ids(value: Any) -> list[int] | None:
    """Return the devices of a machine that a process uses; None for all."""
    name = "local_device_ids"
    if value is None:
        return None
    is_many = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    found = [number(one, f"each of {name}") for one in (value if is_many else [value])]
    if not found or min(found) < 0 or len(set(found)) < len(found):
        msg = f"{name} must be different numbers from 0, one at least, and is {value!r}."
        raise InvalidArgumentError(msg, argument=name)
    return found


def milliseconds(value: Any) -> float:
    """Return how long a call may wait: not at all where it is negative, and never for ever."""
    if not isinstance(value, kinds.Real) or math.isnan(value):
        msg = f"timeout_in_ms must be a number of milliseconds, not {value!r}."
        raise InvalidTypeError(msg, argument="timeout_in_ms")
    given: Any = value
    return float(min(max(given, 1), _LONGEST_MS))
