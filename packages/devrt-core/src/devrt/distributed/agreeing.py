"""Whether the processes of a program have the same one: compared before it runs for the first time.

A program over processes is to be the same in each, or its results are wrong and nobody says so.
The processes compare digests through the keys of their job. What they have agreed on is remembered
by its digest alone, so that one which makes a program anew does not wait for those that did not.
"""

from __future__ import annotations

import hashlib
import json
import threading
import weakref
import zlib
from collections.abc import Sequence
from typing import Any

from devrt.distributed.state import global_state
from devrt.errors import DeadlineExceededError, InvalidArgumentError

__all__ = ["Fact", "agree"]

Fact = tuple[str, str, str]
"""What must be equal, in words; what it is here; and the user's line that it is of, or nothing."""

_SECONDS = 300.0  # as an exchange of a program waits
_PREFIX = "devrt/programs"
_SAME = b"same"
_NOTHING = ("its length", "the program ends here", "")

_known: weakref.WeakKeyDictionary[Any, dict[tuple[int, ...], _Known]]
_known = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class _Known:
    """What some processes of a job have agreed on."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.digests: set[bytes] = set()
        self.rounds = 0


def agree(name: str, facts: Sequence[Fact], processes: Sequence[int], me: int) -> None:
    """Compare a program with that of other processes, each of which calls this.

    Parameters
    ----------
    name
        The program's.
    facts
        What must be equal, what is to be named first before the rest.
    processes
        Those of the program, in ascending order.
    me
        This one. Where it is not this process of the job, there is nothing to compare through.

    Raises
    ------
    InvalidArgumentError
        In every process, if they differ: names two that do, and the first difference.
    DeadlineExceededError
        If a process does not come to run a program; names it.
    PeerLostError
        If one is lost.
    """
    client, members = global_state.client, tuple(processes)
    if client is None or global_state.process_id != me or len(members) == 1:
        return
    mine = json.dumps([name, *facts]).encode()
    equal = json.dumps([name, *(fact[:2] for fact in facts)])  # lines may differ, as paths do
    digest = hashlib.blake2b(equal.encode(), digest_size=16).digest()
    with _lock:
        known = _known.setdefault(client, {}).setdefault(members, _Known())
    with known.lock:
        if digest not in known.digests:
            round_ = _Round(client, members, me, known.rounds, name)
            other = round_.differing(digest)
            found = None if other is None else round_.exchanged(mine, other)
            known.rounds += 1
            if found is not None:
                raise _difference(*found)
            known.digests.add(digest)


class _Round:
    """One comparison: the first process reads the digests, and tells the others."""

    def __init__(
        self, client: Any, members: tuple[int, ...], me: int, number: int, name: str
    ) -> None:
        self._client = client
        self._members = members
        self._me = me
        self._name = name
        self._base = f"{_PREFIX}/{'-'.join(map(str, members))}"
        self._keys = f"{self._base}/{number}"
        self._number = number

    def differing(self, digest: bytes) -> int | None:
        """Return the first process whose program is not that of the first of all, if any."""
        self._set(f"digest/{self._me}", digest)
        first, *others = self._members
        if self._me != first:
            verdict = self._get("verdict")
            return None if verdict == _SAME else int(verdict)
        found = {other: self._get(f"digest/{other}") for other in others}
        if self._number:  # all have come here, and so have read it
            self._client.key_value_delete(f"{self._base}/{self._number - 1}/")
        differing = next((other for other in others if found[other] != digest), None)
        self._set("verdict", _SAME if differing is None else str(differing).encode())
        return differing

    def exchanged(self, mine: bytes, other: int) -> tuple[int, int, Any, Any]:
        """Return the first process and one that differs, and the programs of both."""
        two = (self._members[0], other)
        if self._me in two:
            self._set(f"program/{self._me}", zlib.compress(mine))
        first, second = (json.loads(zlib.decompress(self._get(f"program/{p}"))) for p in two)
        return *two, first, second

    def _set(self, key: str, value: bytes) -> None:
        self._client.key_value_set_bytes(f"{self._keys}/{key}", value, allow_overwrite=True)

    def _get(self, key: str) -> bytes:
        try:
            found: bytes = self._client.blocking_key_value_get_bytes(
                f"{self._keys}/{key}", round(_SECONDS * 1000)
            )
        except DeadlineExceededError as error:
            raise self._late() from error
        return found

    def _late(self) -> DeadlineExceededError:
        there = self._client.key_value_dir_get_bytes(f"{self._keys}/digest/")
        come = {int(key.rpartition("/")[2]) for key, _ in there}
        missing = tuple(sorted(set(self._members) - come))
        listed = ", ".join(map(str, missing or self._members[:1]))
        msg = (
            f"program {self._name!r} of process {self._me} waited {_SECONDS:g} s for process "
            f"{listed}, which has not come to run it. Run the same programs in the same order in "
            "every process."
        )
        return DeadlineExceededError(msg, operation="execute", processes=missing)


def _difference(
    first: int, second: int, one: Sequence[Any], two: Sequence[Any]
) -> InvalidArgumentError:
    """Return the error of two programs that differ."""
    (name, *facts), (other_name, *other_facts) = one, two
    if name != other_name:
        facts = [["its name", name, ""], *facts]
        other_facts = [["its name", other_name, ""], *other_facts]
    count = max(len(facts), len(other_facts))
    pairs = [[tuple(row) for row in rows] for rows in (facts, other_facts)]
    a, b = (rows + [_NOTHING] * (count - len(rows)) for rows in pairs)
    (label, mine, line), (other_label, theirs, other_line) = next(
        (x, y) for x, y in zip(a, b, strict=True) if x[:2] != y[:2]
    )
    what = label if label == other_label else f"{label} / {other_label}"
    mine, theirs = mine + (line and f" ({line})"), theirs + (other_line and f" ({other_line})")
    msg = (
        f"program {name!r} differs between processes {first} and {second}: {what}: process "
        f"{first} has {mine}, process {second} has {theirs}. A program over processes must be the "
        "same in every one: run the same functions there, with arguments of the same global "
        "shapes and dtypes, in the same order."
    )
    return InvalidArgumentError(msg, operation="execute", processes=(first, second))
