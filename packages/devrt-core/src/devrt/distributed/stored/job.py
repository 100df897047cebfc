"""What a job over a store is: the record that its processes read, and the names of its keys."""

from __future__ import annotations

import dataclasses
import json

from devrt._support.record import record
from devrt.distributed.faults import refused
from devrt.errors import StatusCode

__all__ = [
    *("CONTRACT", "FORMED", "JOB", "NODES", "PHASES", "STATE", "Job"),
    *("arrival", "barrier", "lost", "node", "outcome", "phase"),
]

CONTRACT = 1
"""The version of what the keys mean; processes of another version are refused."""

STATE = "state/"
JOB = "state/job"
FORMED = "state/formed"
NODES = "state/nodes/"
PHASES = "phases/"


@record(frozen=True, slots=True)
class Job:
    """How many processes a job has, and how long they have for what.

    Parameters
    ----------
    size
        How many processes there are.
    heartbeat, register, shutdown
        Seconds: of silence until a process counts as lost; for all to come; for all to leave.
    recoverable
        Whether a process may be lost, and come again, while the others go on.
    lease
        The lease of the job's keys, which every process renews.
    contract
        The version of the keys' meaning.
    """

    size: int
    heartbeat: float
    register: float
    shutdown: float
    recoverable: bool
    lease: int
    contract: int = CONTRACT

    def encoded(self) -> bytes:
        """Return it as it is kept."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def decoded(cls, kept: bytes) -> Job:
        """Return the job of a record; refuse one of another contract."""
        try:
            found = json.loads(kept)
            version = found["contract"]
            if version == CONTRACT:
                return cls(**found)
        except (ValueError, TypeError, KeyError) as error:
            words = f"the record of the job is none of devrt's: {kept[:60]!r}. Use another prefix."
            raise refused(StatusCode.FAILED_PRECONDITION, words) from error
        words = (
            f"the job's keys have version {version} of their contract, and this process knows "
            f"{CONTRACT}. Use one version of devrt in all processes."
        )
        raise refused(StatusCode.FAILED_PRECONDITION, words, contract=version)


def node(number: int) -> str:
    """Return the key of a process: there while it is alive."""
    return f"{NODES}{number}"


def lost(number: int) -> str:
    """Return the key that says that a process was lost, and may not come again."""
    return f"state/lost/{number}"


def outcome(use: str) -> str:
    """Return the key that ends one use of a barrier."""
    return f"state/outcomes/{use}"


def phase(number: int) -> str:
    """Return the key of what a process did last."""
    return f"{PHASES}{number}"


def barrier(name: str) -> str:
    """Return the key of the use of a barrier that is under way."""
    return f"barriers/{name}"


def arrival(use: str, number: int | None = None) -> str:
    """Return the key of a process that came to one use of a barrier, or what all begin with."""
    return f"arrivals/{use}/{'' if number is None else number}"
