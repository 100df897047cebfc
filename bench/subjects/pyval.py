"""client.buffer_from_pyval: one native call, without the array layer above it."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.case import Factory, Spec, Sweep, Timed, repeated
from bench.subjects._data import BYTES, MIB, source

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

SMALL = "8 floats"
SMALL_WAITED = "8 floats, waited for"
_PEERS = ("jaxlib071",)


def _by_bytes(nbytes: int) -> str:
    return f"{nbytes} bytes, waited for"


SPECS = [
    Spec(SMALL, _PEERS),
    Spec(SMALL_WAITED, _PEERS),
    *(
        Spec(
            _by_bytes(n),
            _PEERS,
            sweep=Sweep("buffer_from_pyval by bytes, waited for", "B", n),
            is_large=n > 64 * MIB,
        )
        for n in BYTES
    ),
]


def devrt_cases() -> dict[str, Factory]:
    """Return devrt's side."""
    from devrt import xla_client

    return _cases(xla_client.make_cpu_client())


def jax_cases() -> dict[str, Factory]:
    """Return jaxlib's side: the client behind its first device."""
    import jax

    return _cases(jax.devices()[0].client)


def _cases(client: Any) -> dict[str, Factory]:
    return {
        SMALL: partial(_make, client, 32),
        SMALL_WAITED: partial(_make, client, 32, is_waited=True),
        **{_by_bytes(n): partial(_make, client, n, is_waited=True) for n in BYTES},
    }


def _make(client: Any, nbytes: int, *, is_waited: bool = False) -> Timed:
    make, device = client.buffer_from_pyval, client.local_devices()[0]
    if is_waited:
        return repeated(lambda x: make(x, device).block_until_ready(), source(nbytes))
    return repeated(lambda x: make(x, device), source(nbytes))
