"""What NVIDIA's management library (NVML) tells of devices: their NVLinks, and what they do now.

It is loaded for reports only, through NVIDIA's own binding (``nvidia-ml-py``), and works beside any
client: it opens no context.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from devrt.errors import BackendUnavailableError
from devrt.hardware import DeviceLink, DeviceProcess, DeviceReading

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["machine", "nvlinks", "readings"]

_SWITCH = "switch"
"""Stands for the remote end of links that lead to an NVSwitch: every device on it is reached."""


def nvlinks(devices: Sequence[Device]) -> list[DeviceLink]:
    """Return the pairs of devices that NVLinks connect, each with how many do.

    Raises
    ------
    BackendUnavailableError
        If NVML cannot be loaded, or does not start; the message says why.
    """
    with _opened() as nvml:
        ends = {device.id: _remote_ends(nvml, _handle(nvml, device)) for device in devices}
    addresses = {device.id: _address(str(device.attributes["pci_bus_id"])) for device in devices}
    found = []
    for first, second in combinations(addresses, 2):
        direct = ends[first].count(addresses[second])
        switched = min(ends[first].count(_SWITCH), ends[second].count(_SWITCH))
        if direct or switched:
            found.append(DeviceLink(first, second, "NV", direct or switched))
    return found


def readings(devices: Sequence[Device]) -> list[DeviceReading]:
    """Return what each device does now, over all processes.

    Raises
    ------
    BackendUnavailableError
        If NVML cannot be loaded, or does not start; the message says why.
    """
    with _opened() as nvml:
        return [_reading(nvml, device.id, _handle(nvml, device)) for device in devices]


def machine() -> list[DeviceReading]:
    """Return what all GPUs of the machine do now, numbered as ``nvidia-smi`` numbers them.

    Raises
    ------
    BackendUnavailableError
        If NVML cannot be loaded, or does not start; the message says why.
    """
    with _opened() as nvml:
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        return [_reading(nvml, number, handle) for number, handle in enumerate(handles)]


def _reading(nvml: Any, number: int, handle: Any) -> DeviceReading:
    memory = _answer(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    rates = _answer(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    sensor = nvml.NVML_TEMPERATURE_GPU
    milliwatts = _answer(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
    name = _answer(nvml, nvml.nvmlDeviceGetName, handle)
    pci = _answer(nvml, nvml.nvmlDeviceGetPciInfo, handle)
    return DeviceReading(
        number,
        memory_used=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        utilization=None if rates is None else int(rates.gpu),
        temperature=_answer(nvml, nvml.nvmlDeviceGetTemperature, handle, sensor),
        power=None if milliwatts is None else milliwatts / 1000,
        processes=_processes(nvml, handle),
        kind=_text(name or ""),
        pci_bus_id="" if pci is None else _address(pci.busId),
        memory_numa_node=_numa_node(nvml, handle),
    )


def _numa_node(nvml: Any, handle: Any) -> int | None:
    """Return the NUMA node that a device's memory is, as Grace Hopper's; older bindings cannot."""
    function = getattr(nvml, "nvmlDeviceGetNumaNodeId", None)
    node = None if function is None else _answer(nvml, function, handle)
    return None if node is None or node < 0 else int(node)


def _processes(nvml: Any, handle: Any) -> tuple[DeviceProcess, ...]:
    """Return who computes or draws on a device; one that does both is listed once."""
    found: dict[int, int | None] = {}
    for function in (
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetGraphicsRunningProcesses,
    ):
        for process in _answer(nvml, function, handle) or ():
            found.setdefault(int(process.pid), process.usedGpuMemory)
    return tuple(DeviceProcess(pid, size) for pid, size in sorted(found.items()))


@contextlib.contextmanager
def _opened() -> Iterator[Any]:
    try:
        import pynvml
    except ImportError as error:
        msg = f"NVML is not available: {error}. Install it with: pip install nvidia-ml-py"
        raise BackendUnavailableError(msg, platform="cuda") from error
    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        msg = (
            f"NVML is not available: {error}. It comes with the NVIDIA driver (libnvidia-ml.so.1); "
            "a container has it with NVIDIA_DRIVER_CAPABILITIES=compute,utility."
        )
        raise BackendUnavailableError(msg, platform="cuda") from error


def _handle(nvml: Any, device: Device) -> Any:
    # By the address: NVML numbers the machine's devices, whatever the driver shows of them.
    return nvml.nvmlDeviceGetHandleByPciBusId(str(device.attributes["pci_bus_id"]).encode())


def _remote_ends(nvml: Any, handle: Any) -> list[str]:
    """Return where each active link leads: an address, or `_SWITCH`."""
    ends = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if not _answer(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link):
            continue  # no such link, or one that is down
        kind = _answer(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        remote = _answer(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            ends.append(_SWITCH)
        elif remote is not None:
            ends.append(_address(remote.busId))
    return ends


def _answer(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of NVML answers; None where this device or driver has no answer."""
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        lost = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_UNINITIALIZED)
        if error.value in lost:
            raise
        return None


def _address(text: str | bytes) -> str:
    """Return a PCI address as the kernel writes it: NVML gives the domain eight digits."""
    domain, _, rest = _text(text).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _text(given: str | bytes) -> str:
    return given.decode(errors="replace") if isinstance(given, bytes) else given
