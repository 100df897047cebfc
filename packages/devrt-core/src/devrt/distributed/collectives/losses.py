"""Which processes are lost, where an engine only knows that a connection is gone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from devrt.errors import DevrtError, PeerLostError

__all__ = ["lost_of", "named_loss"]

_SECONDS = 15.0  # the service hears of most losses at once, of the others by their heartbeats
_PAUSE = 0.05
_WORDS = "Lost: process"


def named_loss(error: PeerLostError, client: Any, processes: Sequence[int]) -> PeerLostError:
    """Return the error of a loss with the processes that the job's service finds lost.

    Parameters
    ----------
    error
        What an engine raised.
    client
        The connection to the service.
    processes
        Those that were in the exchange.
    """
    lost = list(getattr(error, "processes", ())) or _lost(client, processes)
    if not lost or _WORDS in error.message:
        return error
    names = f"{_WORDS}{'es' * (len(lost) > 1)} {', '.join(map(str, lost))}"
    msg = f"{error.message} {names}."
    return PeerLostError(msg, code=error.code, **{**error.data, "processes": tuple(lost)})


def lost_of(client: Any, processes: Sequence[int]) -> list[int]:
    """Return which of some processes the job's service has lost; none where that is gone too."""
    try:
        alive = client.get_live_nodes(list(processes))
    except PeerLostError as error:
        return sorted(set(processes) & set(getattr(error, "processes", ())))
    except DevrtError:
        return []
    return sorted(set(processes) - set(alive))


def _lost(client: Any, processes: Sequence[int]) -> list[int]:
    deadline = time.monotonic() + _SECONDS
    while True:
        lost = lost_of(client, processes)
        if lost or time.monotonic() > deadline:
            return lost
        time.sleep(_PAUSE)
