"""A vendor's native backend, `examples/devrt-acme-native`, beside devrt-cpu on the same client."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from bench.case import Factory, Spec, Timed, repeated
from bench.subjects._data import source

__all__ = ["SPECS", "cpu_cases", "devrt_cases"]

HOST = "8 floats to host memory"
DEVICE = "8 floats to memory that the host does not reach, waited for"

SPECS = [Spec(HOST, ("cpu",)), Spec(DEVICE, ("cpu",))]


def devrt_cases() -> dict[str, Factory]:
    """Return the example's side; the row says so where it is not installed."""
    from devrt.runtime import Runtime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is experimental
        client = Runtime(environ={"DEVRT_PLATFORMS": "acme_native"}).get_backend()
    return _cases(client, "pinned_host", "device")


def cpu_cases() -> dict[str, Factory]:
    """Return the CPU's side, whose memory is the host's."""
    from devrt_cpu import make_cpu_client

    return _cases(make_cpu_client(), "device", "device")


def _cases(client: Any, host: str, device: str) -> dict[str, Factory]:
    return {HOST: partial(_make, client, host), DEVICE: partial(_make, client, device, waits=True)}


def _make(client: Any, kind: str, *, waits: bool = False) -> Timed:
    make, memory = client.buffer_from_pyval, client.local_devices()[0].memory(kind)
    if waits:
        return repeated(lambda x: make(x, memory).block_until_ready(), source(32))
    return repeated(lambda x: make(x, memory), source(32))
