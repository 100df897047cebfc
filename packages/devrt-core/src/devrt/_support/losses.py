"""Which processes are lost, where an engine only knows that a connection is gone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from devrt.errors import DevrtError, PeerLostError

__all__ = ["lost_of", "named_loss", "why_ended"]

_SECONDS = 15.0  # the service hears of most losses at once, of the others by their heartbeats
_PAUSE = 0.05
_WORDS = "Lost: process"


def named_loss(
    error: PeerLostError, client: Any, processes: Sequence[int], seconds: float
) -> PeerLostError | None:
    """Return the error of a loss with the processes that the job's service finds lost, or None.

    It is None where the service is there and has lost none of the processes.

    Parameters
    ----------
    error
        What an engine raised.
    client
        The connection to the service.
    processes
        Those that were in the exchange.
    seconds
        How long the service has to find who is lost, at most.
    """
    lost, gone = list(getattr(error, "processes", ())), None
    if not lost:
        lost, gone = _found(client, processes, min(seconds, _SECONDS))
    if not (lost or gone):
        return None
    if _WORDS in error.message:
        return error
    names = f" {_WORDS}{'es' * (len(lost) > 1)} {', '.join(map(str, lost))}." if lost else ""
    service = f" The job's service is gone too: {gone}" if gone else ""
    msg = f"{error.message}{names}{service}"
    return PeerLostError(msg, code=error.code, **{**error.data, "processes": tuple(lost)})


def why_ended(client: Any, processes: Sequence[int]) -> list[int] | DevrtError:
    """Return which of some processes are lost, or why the job's service does not tell."""
    lost, gone = _answer(client, processes)
    return gone or lost


def lost_of(client: Any, processes: Sequence[int]) -> list[int]:
    """Return which of some processes the job's service has lost; where that is gone, who had it."""
    return _answer(client, processes)[0]


def _answer(client: Any, processes: Sequence[int]) -> tuple[list[int], DevrtError | None]:
    try:
        alive = client.get_live_nodes(list(processes))
    except PeerLostError as error:
        return sorted(set(processes) & set(getattr(error, "processes", ()))), None
    except DevrtError as error:
        host = getattr(client, "service_process", None)
        return [process for process in processes if process == host], error
    return sorted(set(processes) - set(alive)), None


def _found(
    client: Any, processes: Sequence[int], seconds: float
) -> tuple[list[int], DevrtError | None]:
    deadline = time.monotonic() + seconds
    while True:
        lost, gone = _answer(client, processes)
        if lost or gone or time.monotonic() > deadline:
            return lost, gone
        time.sleep(_PAUSE)
