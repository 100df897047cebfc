"""The plugin that devrt loads for platform ``rocm``: a client of its own, over the driver.

This plugin also says what the loader of PJRT libraries must know of those for AMD's GPUs.
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
    from devrt_rocm._platform import PLATFORM

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
    """Return what the loader must know of PJRT libraries for AMD's GPUs."""
    from devrt_rocm.traits import ROCM

    return [ROCM]


@hookimpl
def devrt_doctor_findings() -> list[DoctorFinding]:
    """Return what hides devices, and what is known of this release of ROCm."""
    from devrt_rocm import _known_conflicts, _machine, _visibility

    release = _machine.rocm_release(_machine.runtime_library())
    return [*_visibility.findings(os.environ), *_known_conflicts.findings(release)]


def probe() -> ProbeResult:
    """Say what keeps ROCm from being used on this machine."""
    from devrt_rocm import _machine

    return _machine.probe()


def links(devices: Sequence[Device]) -> list[DeviceLink]:
    """Return the XGMI links between local devices."""
    from devrt.native.gpu import is_simulated, simulated_links
    from devrt_rocm._kfd import xgmi_links

    return simulated_links(devices) if is_simulated(devices) else xgmi_links(devices)


def readings(devices: Sequence[Device]) -> list[DeviceReading]:
    """Return what the kernel tells of local devices; it knows nothing of simulated ones."""
    from devrt.native.gpu import is_simulated
    from devrt_rocm import _amdgpu

    return [] if is_simulated(devices) else _amdgpu.readings(devices)


def machine() -> list[DeviceReading]:
    """Return what the kernel tells of the machine's GPUs."""
    from devrt_rocm import _amdgpu

    return _amdgpu.machine()
