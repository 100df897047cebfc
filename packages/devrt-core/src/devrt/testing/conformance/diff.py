"""What is new between two reports of the conformance kit."""

from __future__ import annotations

import dataclasses
from typing import Any

from devrt.testing.conformance.report import CaseResult, Report, Status

__all__ = ["Change", "Diff", "compare"]

_SLOWER = 1.5
_SECONDS = 0.05  # by less than this no case is slower: that is the machine


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One case that ended otherwise in the second report; None where a report has it not."""

    id: str
    before: CaseResult | None
    after: CaseResult | None

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON has it."""
        fields: dict[str, Any] = {"id": self.id}
        for name, result in (("before", self.before), ("after", self.after)):
            fields[name] = result and {
                "status": result.status.value,
                "seconds": round(result.seconds, 4),
                "came": result.came or result.reason,
            }
        return fields


@dataclasses.dataclass(frozen=True, slots=True)
class Diff:
    """What is new between two reports.

    Attributes
    ----------
    new_failures, fixed : tuple of Change
        Cases that fail in the second report only, or in the first only, where both have them; a
        failing case that the first one has not is a new failure too.
    not_applied : tuple of Change
        Cases that passed or failed and do not apply any more.
    added, removed : tuple of Change
        Cases that only the second, or only the first report has.
    slower : tuple of Change
        Cases that passed in both and took half as long again, and 50 ms more.
    """

    new_failures: tuple[Change, ...]
    fixed: tuple[Change, ...]
    not_applied: tuple[Change, ...]
    added: tuple[Change, ...]
    removed: tuple[Change, ...]
    slower: tuple[Change, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing fails that did not fail before, and what passed passes."""
        return not self.new_failures and not self.lost

    @property
    def lost(self) -> tuple[Change, ...]:
        """Cases that passed, and now do not apply or were not run: nothing speaks for them."""
        gone = (*self.not_applied, *self.removed)
        return tuple(change for change in gone if _is(change.before, Status.PASSED))

    def to_dict(self) -> dict[str, Any]:
        """Return what is new as JSON has it."""
        lists = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            "ok": self.ok,
            **{name: [change.to_dict() for change in changes] for name, changes in lists.items()},
        }


def compare(before: Report, after: Report) -> Diff:
    """Return what is new in the second of two reports."""
    old = {result.id: result for result in before.results}
    new = {result.id: result for result in after.results}
    changes = [Change(name, old.get(name), new.get(name)) for name in {**old, **new}]
    return Diff(
        new_failures=tuple(c for c in changes if _fails(c.after) and not _fails(c.before)),
        fixed=tuple(c for c in changes if _fails(c.before) and _is(c.after, Status.PASSED)),
        not_applied=tuple(c for c in changes if _stopped_applying(c)),
        added=tuple(c for c in changes if c.before is None),
        removed=tuple(c for c in changes if c.after is None),
        slower=tuple(c for c in changes if _is_slower(c)),
    )


def _is(result: CaseResult | None, status: Status) -> bool:
    return result is not None and result.status is status


def _fails(result: CaseResult | None) -> bool:
    return result is not None and result.status.is_failure


def _stopped_applying(change: Change) -> bool:
    applied = change.before is not None and not _is(change.before, Status.NOT_APPLICABLE)
    return applied and _is(change.after, Status.NOT_APPLICABLE)


def _is_slower(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None or {before.status, after.status} != {Status.PASSED}:
        return False
    return after.seconds > max(before.seconds * _SLOWER, before.seconds + _SECONDS)
