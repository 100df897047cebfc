"""Moving 64 MiB: copied, aliased, sharded, beside numpy.copy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Sweep, Timed, repeated
from bench.subjects._data import BYTES, MIB, both_sides, sharding, source

__all__ = ["SPECS", "devrt_cases", "jax_cases", "numpy_cases"]

SIZE = 64 * MIB
COPIED = "64 MiB onto one device, copied"
ALIASED = "64 MiB onto one device, 64-byte aligned, may_alias=True"
SHARDED = "64 MiB sharded over 8 devices, copied"
_DEVICES = (1, 2, 4, 8, 16, 32, 64)


def _copied_by(nbytes: int) -> str:
    return f"copied, {nbytes} bytes"


def _aliased_by(nbytes: int) -> str:
    return f"aliased, {nbytes} bytes"


def _sharded_by(count: int) -> str:
    return f"64 MiB sharded over {count} of 64 devices"


SPECS = [
    Spec(COPIED, ("jax", "numpy")),
    Spec(ALIASED),
    Spec(SHARDED, ("jax", "numpy"), devices=8),
    *(
        Spec(
            _copied_by(n),
            ("jax", "numpy"),
            sweep=Sweep("copied by bytes", "B", n),
            is_large=n > SIZE,
        )
        for n in BYTES
    ),
    *(
        Spec(_aliased_by(n), sweep=Sweep("aliased by bytes", "B", n), is_large=n > SIZE)
        for n in BYTES
        if n >= 64
    ),
    *(
        Spec(_sharded_by(n), devices=64, sweep=Sweep("64 MiB sharded by devices", "device", n))
        for n in _DEVICES
    ),
]


def numpy_cases() -> dict[str, Factory]:
    """Return plain numpy.copy of the same bytes."""
    names = {COPIED: SIZE, SHARDED: SIZE} | {_copied_by(n): n for n in BYTES}
    return {name: partial(_copy, nbytes) for name, nbytes in names.items()}


def _copy(nbytes: int) -> Timed:
    return repeated(np.copy, source(nbytes))


def _cases(api: Any) -> dict[str, Factory]:
    return {
        COPIED: partial(_put, api, SIZE, None),
        ALIASED: partial(_alias, api, SIZE),
        SHARDED: partial(_put, api, SIZE, 8),
        **{_copied_by(n): partial(_put, api, n, None) for n in BYTES},
        **{_aliased_by(n): partial(_alias, api, n) for n in BYTES if n >= 64},
        **{_sharded_by(n): partial(_put, api, SIZE, n) for n in _DEVICES},
    }


devrt_cases, jax_cases = both_sides(_cases)


def _put(api: Any, nbytes: int, devices: int | None) -> Timed:
    put = api.device_put
    target = api.devices()[0] if devices is None else sharding(api, devices)
    return repeated(lambda x: put(x, target, may_alias=False).block_until_ready(), source(nbytes))


def _alias(api: Any, nbytes: int) -> Timed:
    put, device = api.device_put, api.devices()[0]
    return repeated(
        lambda x: put(x, device, may_alias=True).block_until_ready(),
        source(nbytes, is_aligned=True),
    )
