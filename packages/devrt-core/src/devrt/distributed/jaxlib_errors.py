"""What the errors of jaxlib's service say of lost processes: only their words have numbers."""

from __future__ import annotations

import re

from devrt.errors import PeerLostError

__all__ = ["DETAILS", "lost_at_jaxlib"]

# The metadata that has the details of a status.
DETAILS = "grpc-status-details-bin"
_MARK = b"CoordinationServiceError"
_LISTED = re.compile(r"stopped sending heartbeats\):\n((?:\d+\n)+)")
_NAMED = re.compile(r"Task (\d+) heartbeat timeout")


def lost_at_jaxlib(details: bytes, words: str) -> PeerLostError | None:
    """Return the error for processes that jaxlib's service reports as lost; None of other errors.

    Parameters
    ----------
    details
        Of the call's status: the service's own errors are marked there, those of the network not.
    words
        The status in words.
    """
    if _MARK not in details:
        return None
    listed = _LISTED.search(words)
    found = listed[1].split() if listed else _NAMED.findall(words)
    if not found:
        return None
    processes = sorted({int(one) for one in found})
    return PeerLostError(f"UNAVAILABLE: {words}", processes=processes, phases={})
