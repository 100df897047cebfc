"""The version of what devrt's own two sides expect of each other, beyond jaxlib's protocol."""

from __future__ import annotations

from devrt.distributed.faults import refused
from devrt.errors import StatusCode

__all__ = ["CONTRACT", "CONTRACT_METADATA", "check_contract", "contract_of"]

CONTRACT = 2
"""Clients of another version are refused; those that give none, as jaxlib's, are not."""

_KEY = "devrt-contract"
CONTRACT_METADATA = ((_KEY, str(CONTRACT)),)
"""What a client registers with."""


def contract_of(metadata: dict[str, str]) -> str | int:
    """Return the version that a call's metadata has; this one where it has none."""
    return metadata.get(_KEY, CONTRACT)


def check_contract(given: str | int) -> None:
    """Refuse a client of devrt's that has another version.

    Raises
    ------
    DistributedError
        With the code ``FAILED_PRECONDITION``, and the other version as ``contract``.
    """
    if str(given) != str(CONTRACT):
        version = str(given)[:20]
        words = (
            f"a process has version {version} of devrt's protocol, and the coordination service "
            f"{CONTRACT}. Use one version of devrt in all processes."
        )
        raise refused(StatusCode.FAILED_PRECONDITION, words, contract=version)
