"""Tells the processes of a job which devices each of them has: what native clients are made with.

Each process publishes its own devices under a key. Process 0 collects them and publishes the list,
or what failed, under another key, so that the others need one wait each and fail with it.

GPUs are in partitions, within which they are connected better than by a network: those of one host,
unless the processes say which partition they are in. XLA tells hosts apart by their boot ids, too.
"""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from devrt._support.record import record
from devrt._support.rounds import next_round
from devrt.errors import (
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    InvalidTypeError,
    PeerLostError,
    StatusCode,
)

if TYPE_CHECKING:
    from devrt.contract import DistributedRuntimeClient

__all__ = ["NodeDevices", "NodeFacts", "Nodes", "alike", "exchange_for"]

NodeDevices = list[tuple[int, str]]
"""The devices of one process: the driver's number of each, and its kind."""

_MINUTES = {"local": 2.0, "global": 5.0}
_GLANCE_MS = 1  # long enough for a key that is there
_BOOT_ID = "/proc/sys/kernel/random/boot_id"  # of Linux: another one whenever it starts
_START_ALIKE = "Start every process with the same program, the same num_nodes and versions"
_METHODS = ("key_value_set", "blocking_key_value_get", "wait_at_barrier")


@record(frozen=True, slots=True, kw_only=True)
class Nodes:
    """What the processes of a job have to agree on, and which of them this is.

    Attributes
    ----------
    scope : str
        Clients of one scope find each other: of several platforms where users take them for one.
    platform, version : str
        What every process must have alike.
    operation : str
        The function that errors name.
    node_id, num_nodes : int
        Which of how many processes this is.
    partition : int or None
        Which partition the process's devices are in; None for that of its host.
    """

    scope: str
    platform: str
    version: str
    operation: str
    node_id: int
    num_nodes: int
    partition: int | None = None


@record(frozen=True, slots=True)
class NodeFacts:
    """What all processes know of one of them.

    Attributes
    ----------
    devices : list of tuple
        Its devices.
    partition : int
        Which partition they are in.
    """

    devices: NodeDevices
    partition: int


def alike(partitions: Sequence[int]) -> Callable[[NodeDevices], list[NodeFacts]]:
    """Return an exchange that asks nobody: every process has devices like this one's.

    ``partitions`` are those of the processes.
    """
    return lambda mine: [NodeFacts(mine, partition) for partition in partitions]


def exchange_for(
    store: DistributedRuntimeClient | None, nodes: Nodes, options: Mapping[str, Any]
) -> Callable[[NodeDevices], list[NodeFacts]] | None:
    """Return what a native client is made with: all processes' facts for this one's devices.

    Parameters
    ----------
    store
        The job's key-value store; None for none, and then there is no exchange.
    nodes
        What the processes agree on.
    options
        ``get_local_topology_timeout_minutes``, which process 0 waits for the others (2), and
        ``get_global_topology_timeout_minutes``, which the others wait for its list (5).

    Returns
    -------
    callable or None
        It raises `DeadlineExceededError` if a process did not come, with its ``missing_nodes``,
        and `DistributedError` if the store fails, or a process has another platform or version;
        ``process`` says which.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If the store lacks a method, or a timeout is none.
    """
    if store is None:
        return None
    _check_store(store, nodes)
    timeouts = [
        _in_ms(nodes, f"get_{name}_topology_timeout_minutes", options, default)
        for name, default in _MINUTES.items()
    ]

    def exchange(mine: NodeDevices) -> list[NodeFacts]:
        return _Exchange(store, nodes).facts(mine, *timeouts)

    return exchange


def _check_store(store: object, nodes: Nodes) -> None:
    """Check that an object has the methods of `devrt.contract.DistributedRuntimeClient`."""
    missing = [method for method in _METHODS if not callable(getattr(store, method, None))]
    if missing:
        raise InvalidTypeError(
            f"distributed_client must have the methods {', '.join(_METHODS)}; an object of type "
            f"{type(store).__name__} has no {', '.join(missing)}. See devrt.contract.",
            operation=nodes.operation,
            missing=tuple(missing),
        )


def _in_ms(nodes: Nodes, name: str, options: Mapping[str, Any], default: float) -> int:
    """Return a timeout given in minutes, or its default, in milliseconds."""
    minutes = options.get(name)
    minutes = default if minutes is None else minutes
    try:
        minutes = math.fsum((minutes,))  # refuses text, which float() would read
    except (TypeError, OverflowError):
        msg = f"{name} must be a number of minutes, not {minutes!r}."
        raise InvalidTypeError(msg, operation=nodes.operation) from None
    if not (math.isfinite(minutes) and 0 < minutes <= 1e6):
        msg = f"{name} must be above 0 minutes and at most 1000000, not {minutes!r}."
        raise InvalidArgumentError(msg, operation=nodes.operation)
    return max(1, round(minutes * 60_000))


class _Exchange:
    """One exchange of one process."""

    def __init__(self, store: DistributedRuntimeClient, nodes: Nodes) -> None:
        self._store = store
        self._nodes = nodes
        round_ = next_round(store, nodes.scope)
        self._prefix = f"devrt/{nodes.scope}/topology/{round_}"
        self._all = f"{self._prefix}/all"

    def facts(self, mine: NodeDevices, local_ms: int, global_ms: int) -> list[NodeFacts]:
        """Return every process's devices, and their partitions."""
        nodes = self._nodes
        facts = {
            "nodes": nodes.num_nodes,
            "platform": nodes.platform,
            "version": nodes.version,
            "devices": mine,
            "host": _host(),
            "partition": nodes.partition,
        }
        self._set(self._key(nodes.node_id), facts)
        if nodes.node_id == 0:
            return self._collected(local_ms)
        text = self._get(self._all, global_ms)
        if text is None:
            missing = self._absent(range(nodes.num_nodes))
            self._raise_missing(missing or [0], global_ms, "list of all processes' devices")
        return self._read_list(text)

    def _key(self, node: int) -> str:
        return f"{self._prefix}/node/{node}"

    def _collected(self, timeout_ms: int) -> list[NodeFacts]:
        deadline = time.monotonic() + timeout_ms / 1000
        found: list[NodeFacts] = []
        hosts: dict[str, int] = {}
        for node in range(self._nodes.num_nodes):
            left = math.ceil((deadline - time.monotonic()) * 1000)
            text = self._get(self._key(node), max(left, _GLANCE_MS))
            if text is None:
                missing = [node, *self._absent(range(node + 1, self._nodes.num_nodes))]
                self._set(self._all, {"missing": missing, "timeout_ms": timeout_ms})
                self._raise_missing(missing, timeout_ms, "list of its devices")
            try:
                found.append(self._read_node(text, node, hosts))
            except DistributedError as error:
                self._set(self._all, {"error": error.message, "process": node})
                raise
        self._set(self._all, {"nodes": [[node.devices, node.partition] for node in found]})
        return found

    def _absent(self, nodes: range) -> list[int]:
        """Return the nodes whose devices are not there yet."""
        return [node for node in nodes if self._get(self._key(node), _GLANCE_MS) is None]

    def _set(self, key: str, value: dict[str, Any]) -> None:
        try:
            self._store.key_value_set(key, json.dumps(value), allow_overwrite=True)
        except Exception as error:  # noqa: BLE001  the store is the caller's: it may raise anything
            self._raise_failed(f"setting the key {key!r}", error)

    def _get(self, key: str, timeout_ms: int) -> str | None:
        """Return the value of a key, or None if the time passed first."""
        try:
            value = self._store.blocking_key_value_get(key, timeout_ms)
        except PeerLostError:
            raise  # it names the process
        except Exception as error:  # noqa: BLE001  the store is the caller's: it may raise anything
            if _is_deadline(error):
                return None
            self._raise_failed(f"reading the key {key!r}", error)
        return value.decode() if isinstance(value, bytes) else str(value)

    def _read_node(self, text: str, node: int, hosts: dict[str, int]) -> NodeFacts:
        value, nodes = self._parsed(text, node), self._nodes
        if value.get("nodes") != nodes.num_nodes:
            what = f"was made with num_nodes={value.get('nodes')}, node 0 with {nodes.num_nodes}"
            self._raise_wrong(node, what)
        for name in ("platform", "version"):
            here, there = getattr(nodes, name), value.get(name)
            if there != here:
                self._raise_wrong(node, f"has {name} {there!r}, and node 0 {here!r}")
        devices = self._read_devices(value.get("devices"), node, node)
        partition = value.get("partition")
        if not (partition is None or _is_number(partition)):
            self._raise_wrong(node, f"published {partition!r} for its partition")
        if (partition is None) is not (self._nodes.partition is None):
            has, others = ("no", "one") if partition is None else ("a", "none")
            what = f"was given {has} partition_index, and node 0 {others}"
            self._raise_wrong(node, what, "Give every process a partition_index, or none")
        if partition is None:  # a new one for each host, in the order of their first processes
            partition = hosts.setdefault(str(value.get("host")), len(hosts))
        return NodeFacts(devices, partition)

    def _read_list(self, text: str) -> list[NodeFacts]:
        value = self._parsed(text, 0)
        if "missing" in value:
            self._raise_missing(value["missing"], value.get("timeout_ms", 0), "list of its devices")
        if "error" in value:
            process = value.get("process")
            msg = str(value["error"])
            raise DistributedError(msg, operation=self._nodes.operation, process=process)
        found = value.get("nodes")
        count = self._nodes.num_nodes
        if not isinstance(found, list) or len(found) != count:
            self._raise_wrong(0, f"published {found!r} for the devices of {count} nodes")
        return [self._read_listed(listed, node) for node, listed in enumerate(found)]

    def _read_listed(self, value: object, node: int) -> NodeFacts:
        if not (isinstance(value, list) and len(value) == 2 and _is_number(value[1])):
            self._raise_wrong(0, f"published {value!r} for node {node}")
        return NodeFacts(self._read_devices(value[0], node, 0), value[1])

    def _read_devices(self, value: object, node: int, publisher: int) -> NodeDevices:
        devices = value if isinstance(value, list) else []
        found = [(pair[0], pair[1]) for pair in devices if _is_device(pair)]
        if not devices or len(found) != len(devices):
            self._raise_wrong(publisher, f"published {value!r} for the devices of node {node}")
        return found

    def _parsed(self, text: str, node: int) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            self._raise_wrong(node, f"published {text[:80]!r}, which is no topology of devrt")
        return value

    def _raise_missing(self, nodes: list[int], timeout_ms: int, what: str) -> NoReturn:
        names = ", ".join(map(str, nodes))
        raise DeadlineExceededError(
            f"{self._nodes.operation} waited {timeout_ms / 1000:g} s, and node {names} did not "
            f"publish the {what}. Start the missing processes with the same num_nodes, look at "
            "their logs, or raise get_local_topology_timeout_minutes and "
            "get_global_topology_timeout_minutes.",
            operation=self._nodes.operation,
            missing_nodes=tuple(nodes),
        )

    def _raise_failed(self, what: str, error: Exception) -> NoReturn:
        raise DistributedError(
            f"{self._nodes.operation} could not exchange the topology: {what} failed with "
            f"{type(error).__name__}: {error}. Is the coordination service running?",
            operation=self._nodes.operation,
        ) from error

    def _raise_wrong(self, node: int, what: str, remedy: str = _START_ALIKE) -> NoReturn:
        raise DistributedError(
            f"{self._nodes.operation} could not exchange the topology: node {node} {what}. "
            f"{remedy}.",
            operation=self._nodes.operation,
            process=node,
        )


def _host() -> str:
    """Return what processes of one host, in containers too, have alike."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()


def _is_deadline(error: Exception) -> bool:
    code = getattr(error, "code", None)
    return (
        isinstance(error, TimeoutError)
        or code == StatusCode.DEADLINE_EXCEEDED
        or "DEADLINE_EXCEEDED" in str(error)
    )


def _is_device(pair: object) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and _is_number(pair[0])
        and isinstance(pair[1], str)
    )


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31
