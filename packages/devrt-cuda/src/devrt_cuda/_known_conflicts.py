"""Versions of CUDA's libraries that are known to go wrong on some devices, each with its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from devrt.contract.conflicts import KnownConflict, is_passed_over

__all__ = ["KNOWN", "Known", "Version", "found_of"]

Version = tuple[int, ...]


class Known(NamedTuple):
    """A conflict, and where it was seen: a library's versions, and devices' compute capabilities.

    Each range has its first value, and the first beyond it.
    """

    conflict: KnownConflict
    library: str
    versions: tuple[Version, Version]
    capabilities: tuple[Version, Version]


KNOWN = (
    Known(
        KnownConflict(
            id="cublas-tensor-memory",
            reason="kernels of cuBLAS 12.8 to 13.1 free tensor memory more than once, which "
            "silently damages the data of a kernel that runs beside them",
            remedy="Install a later one: pip install 'nvidia-cublas>=13.2'.",
            source="https://github.com/jax-ml/jax/blob/main/jax_plugins/cuda/__init__.py",
        ),
        library="cublas",
        versions=((12, 8), (13, 2)),
        capabilities=((10, 0), (12, 0)),
    ),
)
"""Those whose other versions `devrt_cuda._versions` refuses are not among them."""


def found_of(
    versions: Iterable[tuple[str, Version]], capabilities: Callable[[], Iterable[Version]]
) -> Iterator[tuple[KnownConflict, str]]:
    """Yield the conflicts that hold and are not passed over, each with the version that was found.

    The devices' ``capabilities`` are queried where a library's version is in question only.
    """
    present = dict(versions)
    for known in KNOWN:
        version = present.get(known.library, ())
        first, end = known.versions
        if not first <= version < end or is_passed_over(known.conflict.id):
            continue
        lowest, beyond = known.capabilities
        matching = [c for c in capabilities() if lowest <= tuple(c) < beyond]
        if matching:
            device = ".".join(map(str, matching[0]))
            have = ".".join(map(str, version))
            yield known.conflict, f"{known.library} {have} on a device of capability {device}"
