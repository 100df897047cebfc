"""The devices of processes that are alive, on which all of those agree, by JAX's name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256

from devrt import distributed
from devrt.contract import Device
from devrt.distributed.client import DistributedRuntimeClient
from devrt.distributed.faults import named, refused
from devrt.errors import InvalidArgumentError, PeerLostError, StatusCode

__all__ = ["ProcessFailureError", "live_devices"]

_WAIT_MS = 300_000


class ProcessFailureError(PeerLostError):
    """Processes failed within a block of `live_devices`; ``failed_devices`` has their devices."""


@contextmanager
def live_devices(devices: Sequence[Device]) -> Iterator[list[Device]]:
    """Run a block on those of some devices whose processes are alive.

    Every process with one of the devices comes here, and all that are alive get the same list, at
    the beginning and at the end. The job has to be ``recoverable``, or it ends with a process.

    Parameters
    ----------
    devices
        Devices of the job; some of this process.

    Yields
    ------
    list of Device
        Those of processes that are alive, by id.

    Raises
    ------
    ProcessFailureError
        In every process that is alive, if one of them failed within the block.
    InvalidArgumentError
        If no device is this process's.
    DeadlineExceededError
        If a process that is alive does not come here.
    """
    client = distributed.global_state.client
    if client is None:
        words = "live_devices is for a job. Call devrt.distributed.initialize() first."
        raise refused(StatusCode.FAILED_PRECONDITION, words)
    processes = {device.process_index for device in devices}
    if distributed.global_state.process_id not in processes:
        msg = "live_devices needs a device of this process among those that it is given."
        raise InvalidArgumentError(msg, argument="devices")
    begun, error = _agreed(client, processes), None
    found = [device for device in devices if device.process_index in begun]
    try:
        yield sorted(found, key=lambda device: device.id)
    except Exception as raised:  # noqa: BLE001  it is raised again, or is the cause
        error = raised
    ended = _agreed(client, processes)
    if failed := {process for process in begun if ended.get(process) != begun[process]}:
        raise _failure(failed, found) from error
    if error is not None:
        raise error


def _agreed(client: DistributedRuntimeClient, processes: Collection[int]) -> dict[int, int]:
    """Return who of some processes is alive, and its incarnation, when all of those know it.

    A process that is shutting down is alive, and comes to no barrier.
    """
    leaving: dict[int, int] = {}
    while True:
        found = client.get_live_nodes(sorted(processes))
        alive = {process: it for process, it in found.items() if leaving.get(process) != it}
        words = ",".join(f"{process}:{alive[process]}" for process in sorted(alive))
        name = f"devrt/live_devices/{sha256(words.encode()).hexdigest()}"
        try:
            client.wait_at_barrier(name, _WAIT_MS, sorted(alive))
        except PeerLostError as error:
            lost = alive.keys() & {*getattr(error, "processes", ())}
            if not lost:
                raise
            leaving |= {process: alive[process] for process in lost}
        else:
            return alive


def _failure(processes: set[int], devices: Sequence[Device]) -> ProcessFailureError:
    failed = {device for device in devices if device.process_index in processes}
    msg = (
        f"UNAVAILABLE: {named(processes)} failed within a block of live_devices, and with it "
        f"{sorted(str(device) for device in failed)}. Do the block again without them."
    )
    ids = sorted(processes)
    return ProcessFailureError(msg, processes=ids, phases={}, failed_devices=failed)
