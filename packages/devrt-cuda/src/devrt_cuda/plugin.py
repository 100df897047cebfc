"""The plugin that devrt loads for platform ``cuda``: a client of its own, over the driver.

Beside it, XLA's plugin for GPUs can serve the platform, run by the PJRT loader
(``cuda@jax-cuda13-pjrt``): this plugin says what the loader must know of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from devrt.hookspecs import hookimpl
from devrt.records import (
    ClientFactory,
    DoctorFinding,
    PluginTraits,
    ProbeResult,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devrt.contract import Device
    from devrt.hardware import DeviceLink, DeviceReading

__all__ = [
    "devrt_client_factories",
    "devrt_doctor_findings",
    "devrt_plugin_traits",
    "links",
    "machine",
    "probe",
    "readings",
]


@hookimpl
def devrt_client_factories() -> list[ClientFactory]:
    """Return the one platform that this distribution is for."""
    from devrt_cuda._platform import PLATFORM

    return [
        ClientFactory(
            factory=PLATFORM.make_client,
            probe=probe,
            options=PLATFORM.options(),
            links=links,
            readings=readings,
            machine=machine,
            simulates=True,
            describe=PLATFORM.describe,
        )
    ]


@hookimpl
def devrt_plugin_traits() -> list[PluginTraits]:
    """Return what the loader must know of PJRT libraries for NVIDIA's GPUs."""
    from devrt_cuda.traits import CUDA

    return [CUDA]


@hookimpl
def devrt_doctor_findings() -> list[DoctorFinding]:
    """Return what hides devices, and which libraries are too old for XLA's plugin."""
    from devrt_cuda import _versions, _visibility

    return [*_visibility.findings(os.environ), *_versions.findings()]


def probe() -> ProbeResult:
    """Say what keeps CUDA from being used on this machine."""
    from devrt_cuda import _machine

    return _machine.probe()


def links(devices: Sequence[Device]) -> list[DeviceLink]:
    """Return the NVLinks between local devices."""
    from devrt.native.gpu import is_simulated, simulated_links
    from devrt_cuda._nvml import nvlinks

    return simulated_links(devices) if is_simulated(devices) else nvlinks(devices)


def readings(devices: Sequence[Device]) -> list[DeviceReading]:
    """Return what NVML tells of local devices; it knows nothing of simulated ones."""
    from devrt.native.gpu import is_simulated
    from devrt_cuda import _nvml

    return [] if is_simulated(devices) else _nvml.readings(devices)


def machine() -> list[DeviceReading]:
    """Return what NVML tells of the machine's GPUs."""
    from devrt_cuda import _nvml

    return _nvml.machine()
