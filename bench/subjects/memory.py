"""What a memory limit, statistics and noted sites cost: a buffer made and dropped."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.case import Factory, Spec, Timed, repeated
from bench.subjects._data import MIB, source

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

_PEERS = ("jaxlib071",)
_SIZES = {"8 floats": 32, "64 KiB": 64 << 10, "1 MiB": MIB}
_WAYS: dict[str, dict[str, Any]] = {
    "no sites": {"traceback_in_buffers": "off"},
    "sites sampled": {},
    "all sites": {"traceback_in_buffers": "all"},
    "with a memory limit": {"memory_limit_bytes": 1 << 30},
}

SPECS = [
    *(Spec(f"{size} made and dropped, {way}", _PEERS) for size in _SIZES for way in _WAYS),
    Spec("memory_stats of a device", _PEERS),
]


def devrt_cases() -> dict[str, Factory]:
    """Return devrt's side: one client for each way."""
    from devrt_cpu import make_cpu_client

    clients = {way: make_cpu_client(**options) for way, options in _WAYS.items()}
    device = clients["sites sampled"].local_devices()[0]
    return {
        **{
            f"{size} made and dropped, {way}": partial(_make, client, nbytes)
            for size, nbytes in _SIZES.items()
            for way, client in clients.items()
        },
        "memory_stats of a device": lambda: repeated(lambda d: d.memory_stats(), device),
    }


def jax_cases() -> dict[str, Factory]:
    """Return jaxlib's side, which notes every site, counts nothing on the CPU and has no limit."""
    import jax

    device = jax.devices()[0]
    return {
        **{
            f"{size} made and dropped, {way}": partial(_make, device.client, nbytes)
            for size, nbytes in _SIZES.items()
            for way in _WAYS
        },
        "memory_stats of a device": lambda: repeated(lambda d: d.memory_stats(), device),
    }


def _make(client: Any, nbytes: int) -> Timed:
    make, device = client.buffer_from_pyval, client.local_devices()[0]
    return repeated(lambda x: make(x, device), source(nbytes))
