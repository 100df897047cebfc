"""The engine of a client that is one of a job's: it knows the devices of all processes.

XLA's plugins find each other through the job's keys while their clients are made. That waits for
every process, so it is done when all have come to their first program, and are the same.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from devrt._support.rounds import next_round
from devrt.compiling.plugin_keys import PluginKeys
from devrt.errors import DistributedError, ForkedError
from devrt.native.nodes import NodeDevices, NodeFacts, Nodes, exchange_for

if TYPE_CHECKING:
    from devrt.contract import Device, DistributedRuntimeClient
    from devrt.native.gpu_engine import GpuLibrary

__all__ = ["EngineJob", "engine_job_of", "remember_engine_job"]

_OPERATION = "compile_and_load"
_MINUTES = {
    "get_local_topology_timeout_minutes": 5.0,  # process 0 may come to its first program early
    "get_global_topology_timeout_minutes": 5.0,
}
_jobs: weakref.WeakKeyDictionary[Any, EngineJob] = weakref.WeakKeyDictionary()


def remember_engine_job(
    client: Any, store: DistributedRuntimeClient, nodes: Nodes, options: Mapping[str, Any]
) -> None:
    """Keep which job a client's engine is to be one of, where that has several processes."""
    if nodes.num_nodes > 1:
        _jobs[client] = EngineJob(store, nodes, options)


def engine_job_of(client: Any) -> EngineJob | None:
    """Return the job of a client's engine; None where it is this process's alone."""
    return _jobs.get(client)


class EngineJob:
    """What makes a client's engine one of a job's.

    Parameters
    ----------
    store
        The job's keys.
    nodes
        Which of how many processes this is, and what they have alike.
    options
        The client's; those that end in ``topology_timeout_minutes`` say how long to wait.
    """

    def __init__(
        self, store: DistributedRuntimeClient, nodes: Nodes, options: Mapping[str, Any]
    ) -> None:
        # Clients are made in one order in all processes; their first programs need not be.
        self._scope = f"{nodes.scope}/{next_round(store, f'{nodes.scope}/engines')}"
        self._store = store
        self._nodes = nodes
        self._timeouts = {
            name: default if options.get(name) is None else options[name]
            for name, default in _MINUTES.items()
        }
        self._lock = threading.Lock()
        self._numbers: dict[int, int] = {}
        self._process = os.getpid()

    def numbers(self, native: Any, client: Any, library: GpuLibrary) -> Mapping[int, int]:
        """Return the plugin's numbers of all processes' devices, by the devices' ids.

        The first call makes the engine, and waits for the other processes to do so.

        Parameters
        ----------
        native
            The client's native module.
        client
            The client.
        library
            The plugin.

        Raises
        ------
        DeadlineExceededError
            If a process does not come; ``missing_nodes`` are those.
        DistributedError
            If a process has another plugin, or the plugin knows other devices of it; ``process``
            says which.
        """
        self._check_process()
        with self._lock:
            if not self._numbers:
                self._numbers = self._join(native, client, library)
            return self._numbers

    def rows(self, client: Any) -> list[str]:
        """Return what a program depends on: this process, and the devices of all."""
        devices = [f"{d.id} {d.process_index} {d.device_kind}" for d in client.devices()]
        return [f"process {self._nodes.node_id}", *devices]

    def _join(self, native: Any, client: Any, library: GpuLibrary) -> dict[int, int]:
        if client.is_closed:
            native._engine_devices(client, library.path)  # raises, before anybody is waited for
        local = client.local_devices()
        meet = self._exchange("engines", library)
        meet([(device.local_hardware_id, device.device_kind) for device in local])
        attempt = next_round(self._store, f"{self._scope}/plugin")
        keys = PluginKeys(self._store, f"devrt/{self._scope}/plugin/{attempt}/")
        mine, known = native._join_engine(client, library.path, keys)
        share = self._exchange("numbers", library)
        published = share(list(zip(mine, (d.device_kind for d in local), strict=True)))
        numbers = [[number for number, _ in node.devices] for node in published]
        return _matched(client.devices(), numbers, known, str(library))

    def _exchange(self, what: str, library: GpuLibrary) -> Callable[[NodeDevices], list[NodeFacts]]:
        """Return what exchanges a number of each device for those of all processes."""
        plugin = f"{library.wheel} {library.version}" if library.wheel else library.path
        nodes = Nodes(
            scope=f"{self._scope}/{what}",
            platform=self._nodes.platform,
            version=f"{self._nodes.version} with {os.path.basename(plugin)}",
            operation=_OPERATION,
            node_id=self._nodes.node_id,
            num_nodes=self._nodes.num_nodes,
        )
        made = exchange_for(self._store, nodes, self._timeouts)
        assert made is not None  # there is a store
        return made

    def _check_process(self) -> None:
        if self._process != os.getpid():
            msg = (
                f"{_OPERATION} failed: this process was forked from process {self._process}, and "
                "is none of the job. Start processes with multiprocessing's 'spawn' method."
            )
            raise ForkedError(msg, operation=_OPERATION, parent=self._process)


def _matched(
    devices: Sequence[Device],
    published: Sequence[Sequence[int]],
    known: Iterable[tuple[int, int]],
    library: str,
) -> dict[int, int]:
    """Return the plugin's numbers by the devices' ids: as each process found its own."""
    listed: dict[int, set[int]] = {}
    for process, number in known:
        listed.setdefault(process, set()).add(number)
    found: dict[int, int] = {}
    for process in sorted({*range(len(published)), *listed}):
        own = [device.id for device in devices if device.process_index == process]
        numbers = published[process] if process < len(published) else ()
        theirs = listed.get(process, set())
        if len(numbers) != len(own) or set(numbers) != theirs:
            _raise_other(process, len(own), numbers, theirs, library)
        found |= zip(own, numbers, strict=True)
    return found


def _raise_other(
    process: int, count: int, numbers: Sequence[int], listed: set[int], library: str
) -> NoReturn:
    msg = (
        f"{_OPERATION} failed: process {process} has {count} devices, which are numbers "
        f"{list(numbers)} of its plugin's, and here the plugin ({library}) knows numbers "
        f"{sorted(listed)} of that process. Start every process with the same version of it, and "
        "with the same devices visible to the plugin and to devrt."
    )
    raise DistributedError(msg, operation=_OPERATION, process=process)
