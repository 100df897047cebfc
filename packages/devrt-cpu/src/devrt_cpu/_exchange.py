"""Tells the processes of a cluster how many devices each of them has.

Each process publishes its own count under a key. Process 0 collects them and publishes the list,
or what failed, under another key, so that the others need one wait each and fail with it.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from devrt.errors import (
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    InvalidTypeError,
    StatusCode,
)

if TYPE_CHECKING:
    from devrt.contract import DistributedRuntimeClient

__all__ = ["exchange_device_counts", "timeout_in_ms"]

_OPERATION = "make_cpu_client"
_PREFIX = "devrt/cpu/topology"
_GLANCE_MS = 1  # long enough for a key that is there


class _Rounds:
    """Counts the exchanges of each store, so that a second client does not read the first's keys.

    Programs make their clients in the same order in every process, so the counts agree.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: weakref.WeakKeyDictionary[Any, Iterator[int]] = weakref.WeakKeyDictionary()

    def next_of(self, store: object) -> int:
        try:
            with self._lock:
                return next(self._counters.setdefault(store, itertools.count()))
        except TypeError:  # neither hashable nor weakly referenced: keys are overwritten instead
            return 0


_ROUNDS = _Rounds()


def timeout_in_ms(name: str, minutes: float | None, default: float) -> int:
    """Return a timeout given in minutes, or its default, in milliseconds."""
    if minutes is None:
        minutes = default
    try:
        minutes = math.fsum((minutes,))  # refuses text, which float() would read
    except (TypeError, OverflowError):
        raise InvalidTypeError(
            f"{name} must be a number of minutes, not {minutes!r}.", operation=_OPERATION
        ) from None
    if not (math.isfinite(minutes) and 0 < minutes <= 1e6):
        raise InvalidArgumentError(
            f"{name} must be above 0 minutes and at most 1000000, not {minutes!r}.",
            operation=_OPERATION,
        )
    return max(1, round(minutes * 60_000))


def exchange_device_counts(
    store: DistributedRuntimeClient,
    node_id: int,
    num_nodes: int,
    num_devices: int,
    local_timeout_ms: int,
    global_timeout_ms: int,
) -> list[int]:
    """Return the number of devices of every process, by node id.

    Process 0 waits for all the others' counts until the local timeout, and the others for its list
    until the global one. Raises `DeadlineExceededError` if a process did not come, with its
    ``missing_nodes``, and `DistributedError` if the store fails, or one publishes something else.
    """
    keys = _Keys(f"{_PREFIX}/{_ROUNDS.next_of(store)}")
    _set(store, keys.of(node_id), {"nodes": num_nodes, "devices": num_devices})
    if node_id == 0:
        return _collect(store, keys, num_nodes, local_timeout_ms)
    text = _get(store, keys.all, global_timeout_ms)
    if text is None:
        missing = _absent(store, keys, range(num_nodes))
        _raise_missing(missing or [0], global_timeout_ms, "list of all processes' devices")
    return _read_list(text, num_nodes)


class _Keys:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.all = f"{prefix}/all"

    def of(self, node: int) -> str:
        return f"{self._prefix}/node/{node}"


def _collect(
    store: DistributedRuntimeClient, keys: _Keys, num_nodes: int, timeout_ms: int
) -> list[int]:
    deadline = time.monotonic() + timeout_ms / 1000
    counts = []
    for node in range(num_nodes):
        left = math.ceil((deadline - time.monotonic()) * 1000)
        text = _get(store, keys.of(node), max(left, _GLANCE_MS))
        if text is None:
            missing = [node, *_absent(store, keys, range(node + 1, num_nodes))]
            _set(store, keys.all, {"missing": missing, "timeout_ms": timeout_ms})
            _raise_missing(missing, timeout_ms, "number of its devices")
        try:
            counts.append(_read_count(text, node, num_nodes))
        except DistributedError as error:
            _set(store, keys.all, {"error": str(error)})
            raise
    _set(store, keys.all, {"devices": counts})
    return counts


def _absent(store: DistributedRuntimeClient, keys: _Keys, nodes: range) -> list[int]:
    """Return the nodes whose count is not there yet."""
    return [node for node in nodes if _get(store, keys.of(node), _GLANCE_MS) is None]


def _set(store: DistributedRuntimeClient, key: str, value: dict[str, Any]) -> None:
    text = json.dumps(value)
    try:
        store.key_value_set(key, text, allow_overwrite=True)
    except Exception as error:  # noqa: BLE001  the store is the caller's: it may raise anything
        _raise_failed(f"setting the key {key!r}", error)


def _get(store: DistributedRuntimeClient, key: str, timeout_ms: int) -> str | None:
    """Return the value of a key, or None if the time passed first."""
    try:
        value = store.blocking_key_value_get(key, timeout_ms)
    except Exception as error:  # noqa: BLE001  the store is the caller's: it may raise anything
        if _is_deadline(error):
            return None
        _raise_failed(f"reading the key {key!r}", error)
    return value.decode() if isinstance(value, bytes) else str(value)


def _is_deadline(error: Exception) -> bool:
    code = getattr(error, "code", None)
    return (
        isinstance(error, TimeoutError)
        or code == StatusCode.DEADLINE_EXCEEDED
        or "DEADLINE_EXCEEDED" in str(error)
    )


def _read_count(text: str, node: int, num_nodes: int) -> int:
    value = _parsed(text, f"node {node}")
    nodes, devices = value.get("nodes"), value.get("devices")
    if nodes != num_nodes:
        _raise_wrong(f"node {node} was made with num_nodes={nodes}, node 0 with {num_nodes}")
    if type(devices) is not int or devices < 1:
        _raise_wrong(f"node {node} published {devices!r} for the number of its devices")
    return devices


def _read_list(text: str, num_nodes: int) -> list[int]:
    value = _parsed(text, "node 0")
    if "missing" in value:
        _raise_missing(value["missing"], value.get("timeout_ms", 0), "number of its devices")
    if "error" in value:
        raise DistributedError(str(value["error"]), operation=_OPERATION)
    counts = value.get("devices")
    if not isinstance(counts, list) or len(counts) != num_nodes:
        _raise_wrong(f"node 0 published {counts!r} for the devices of {num_nodes} nodes")
    return [_count(count) for count in counts]


def _count(value: object) -> int:
    if type(value) is not int or value < 1:
        _raise_wrong(f"node 0 published {value!r} for the number of a node's devices")
    return value


def _parsed(text: str, who: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        _raise_wrong(f"{who} published {text[:80]!r}, which is no topology of devrt")
    return value


def _raise_missing(nodes: list[int], timeout_ms: int, what: str) -> NoReturn:
    names = ", ".join(map(str, nodes))
    raise DeadlineExceededError(
        f"make_cpu_client waited {timeout_ms / 1000:g} s, and node {names} did not publish the "
        f"{what}. Start the missing processes with the same num_nodes, look at their logs, or "
        "raise get_local_topology_timeout_minutes and get_global_topology_timeout_minutes.",
        operation=_OPERATION,
        missing_nodes=tuple(nodes),
    )


def _raise_failed(what: str, error: Exception) -> NoReturn:
    raise DistributedError(
        f"make_cpu_client could not exchange the topology: {what} failed with "
        f"{type(error).__name__}: {error}. Is the coordination service running?",
        operation=_OPERATION,
    ) from error


def _raise_wrong(what: str) -> NoReturn:
    raise DistributedError(
        f"make_cpu_client could not exchange the topology: {what}. Start every process with the "
        "same program and the same num_nodes.",
        operation=_OPERATION,
    )
