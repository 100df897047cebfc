"""What arrays cost: counters of every device, and the peak of a block of code."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from devrt.arrays.array import Array
from devrt.arrays.live import live_arrays
from devrt.contract import Device
from devrt.errors import DevrtError
from devrt.runtime import default_runtime

__all__ = ["MemoryUse", "memory_stats", "track_memory"]


def memory_stats(devices: Iterable[Device] | None = None) -> dict[Device, dict[str, int]]:
    """Return the memory counters of devices, keyed as JAX keys them.

    Parameters
    ----------
    devices
        Which; the local devices of every platform that is in use when omitted, those of the
        default platform if none is.

    Returns
    -------
    dict of Device to dict
        Counts, and sizes in bytes (``num_allocs``, ``bytes_in_use``, ``peak_bytes_in_use`` ...);
        empty for a device whose backend counts nothing.
    """
    return {device: device.memory_stats() or {} for device in _devices(devices)}


class MemoryUse:
    """How much memory a block of code took; the figures are there once it has ended.

    Attributes
    ----------
    bytes_before, bytes_after : dict of Device to int
        Bytes in use when the block began and when it ended.
    peak_bytes : dict of Device to int
        The most bytes in use at one time within the block.
    is_exact : bool
        Whether every device counts its peak since a given moment. Where one does not, its figure
        is the peak of the whole process if that rose, and else the greater of before and after.
    """

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = tuple(devices)
        self._before = {id(x): weakref.ref(x) for x in live_arrays()}
        self._stayed: list[weakref.ref[Array]] = []
        self.is_exact = True
        stats = memory_stats(self._devices)
        self._lifetime_peak = _column(stats, "peak_bytes_in_use")
        self.bytes_before = _column(stats, "bytes_in_use")
        self.bytes_after = dict(self.bytes_before)
        self.peak_bytes = dict(self.bytes_before)

    @property
    def alive(self) -> list[Array]:
        """The arrays that were made within the block and are neither deleted nor collected."""
        found = (reference() for reference in self._stayed)
        return [x for x in found if x is not None and not x.is_deleted()]

    def __str__(self) -> str:
        lines = [
            f"{device}: {self.bytes_before[device]:,} bytes before, {self.peak_bytes[device]:,} "
            f"at most, {self.bytes_after[device]:,} after"
            for device in self._devices
        ]
        arrays = self.alive
        lines.append(
            f"{len(arrays)} arrays of {sum(x.nbytes for x in arrays):,} bytes stayed alive"
        )
        lines += [f"  {x.dtype.name}{list(x.shape)} on {x.sharding}" for x in arrays]
        return "\n".join(lines)

    def _raise_peak(self, device: Device, peak: int) -> None:
        if device in self.peak_bytes:
            self.peak_bytes[device] = max(self.peak_bytes[device], peak)

    def _finish(self, uncounted: Iterable[Device]) -> None:
        stats = memory_stats(self._devices)
        self.bytes_after = _column(stats, "bytes_in_use")
        for device, in_use in self.bytes_after.items():
            self._raise_peak(device, in_use)
        lifetime = _column(stats, "peak_bytes_in_use")
        for device in uncounted:
            self.is_exact = False
            if lifetime[device] > self._lifetime_peak[device]:
                self._raise_peak(device, lifetime[device])
        self._stayed = [weakref.ref(x) for x in live_arrays() if not self._was_there(x)]

    def _was_there(self, x: Array) -> bool:
        before = self._before.get(id(x))
        return before is not None and before() is x


_lock = threading.Lock()
_active: list[MemoryUse] = []


@contextlib.contextmanager
def track_memory(devices: Iterable[Device] | None = None) -> Iterator[MemoryUse]:
    """Measure the memory that a ``with`` block takes, and what of it stays.

    Parameters
    ----------
    devices
        Which to look at; as for `memory_stats` when omitted.

    Yields
    ------
    MemoryUse
        Filled in when the block ends. Print it, or look at ``peak_bytes`` and ``alive``.

    Notes
    -----
    What other threads do counts too: memory has no owner. Blocks may be nested. Nothing is
    recorded for each array, so code runs at full speed inside. The end of the block waits for what
    is in flight, for such a copy keeps the memory of its source, deleted or not. Where its
    result was deleted too there is nothing to wait for, and both count until the copy is done.
    """
    use = MemoryUse(_devices(devices))
    with _lock:
        _mark(use._devices)
        _active.append(use)
    try:
        yield use
    finally:
        _settle(use._devices)
        with _lock:
            uncounted = _mark(use._devices)
            _active.remove(use)
        use._finish(uncounted)


def _mark(devices: Iterable[Device]) -> list[Device]:
    """Give the peaks so far to every block that is open, and count anew; return who cannot."""
    uncounted = []
    for device in devices:
        peak = device.mark_peak_bytes()
        if peak is None:
            uncounted.append(device)
            continue
        for use in _active:
            use._raise_peak(device, peak)
    return uncounted


def _settle(devices: Iterable[Device]) -> None:
    """Wait for the buffers of the devices' clients; whether they failed is not checked here."""
    for client in {id(device.client): device.client for device in devices}.values():
        with contextlib.suppress(DevrtError):
            for buffer in client.live_buffers():
                with contextlib.suppress(DevrtError):
                    buffer.block_until_ready()


def _column(stats: Mapping[Device, Mapping[str, Any]], key: str) -> dict[Device, int]:
    return {device: int(counters.get(key, 0)) for device, counters in stats.items()}


def _devices(devices: Iterable[Device] | None) -> list[Device]:
    if devices is not None:
        return list(devices)
    runtime = default_runtime()
    clients = list(runtime.live_clients().values()) or [runtime.get_backend()]
    return [device for client in clients for device in client.local_devices()]
