"""What devrt imports to learn of the platform; the library is opened when a client is made."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from devrt.hookspecs import hookimpl
from devrt.records import (
    Available,
    ClientFactory,
    DoctorFinding,
    OptionSpec,
    ProbeResult,
    Unavailable,
)

DEVICES = OptionSpec(
    name="num_acme_pjrt_devices",
    type=int,
    default=2,
    minimum=1,
    maximum=64,
    help="Number of acme_pjrt devices.",
)


def library() -> str | Unavailable:
    """Return the path of the library; your own lies beside this file."""
    found = find_spec("xla_plugins.xla_cpu_pjrt")
    if found is None or found.origin is None:
        return Unavailable("xla-cpu-pjrt is not installed", "Install devrt-acme-pjrt again.")
    return os.path.join(os.path.dirname(found.origin), "xla_cpu_pjrt.so")


def probe() -> ProbeResult:
    """Return at once whether the hardware is there: look for its driver's files, open nothing."""
    return Available("simulated by the host's processor")


def create_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of devrt as the library calls them."""
    return {"cpu_device_count": options["num_acme_pjrt_devices"]}


@hookimpl
def devrt_client_factories() -> list[ClientFactory]:
    """Say which library serves this platform, and how."""
    return [
        ClientFactory(
            library=library, probe=probe, options=(DEVICES,), create_options=create_options
        )
    ]


@hookimpl
def devrt_doctor_findings() -> list[DoctorFinding]:
    """Tell who runs the doctor what no error would."""
    return [
        DoctorFinding(
            code="simulated",
            severity="info",
            message="The acme_pjrt devices are simulated by the host's processor.",
            remedy="Nothing, unless you expected a card.",
        )
    ]
