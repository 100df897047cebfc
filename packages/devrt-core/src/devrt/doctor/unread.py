"""What a decision is worth where the priorities of some plugins were not read."""

from __future__ import annotations

from collections.abc import Collection

from devrt._support.record import replaced
from devrt.plugins import Decision, Outcome, PluginRef, Verdict

__all__ = ["as_far_as_known"]

_UNKNOWN = "its priority is not known at this level"


def as_far_as_known(decision: Decision, unread: Collection[PluginRef]) -> tuple[Decision, str]:
    """Return the decision without what rests on the priority of ``unread`` plugins, and why."""
    usable = [candidate.ref for candidate in decision.usable]
    unknown = [ref for ref in usable if ref in unread]
    if not unknown:
        return decision, ""
    is_by_priority = _is_by_priority(decision) and len(usable) > 1
    verdicts = tuple(
        _corrected(verdict, is_by_priority, len(usable) == 1, verdict.candidate.ref in unread)
        for verdict in decision.verdicts
    )
    names = ", ".join(ref.name for ref in unknown)
    why = f"not known at this level: {names} did not say its priority without being loaded"
    return replaced(decision, verdicts=verdicts), why if is_by_priority else ""


def _is_by_priority(decision: Decision) -> bool:
    policy, chosen = decision.policy, decision.chosen
    if chosen is None or policy.default or policy.platforms:
        return False
    return not any(map(chosen.answers_to, policy.prefer))


def _corrected(verdict: Verdict, is_by_priority: bool, is_alone: bool, is_unread: bool) -> Verdict:
    if verdict.outcome is Outcome.CHOSEN and is_by_priority:
        why = f"available; {_UNKNOWN}" if is_unread else "available; others' priority is not known"
        return replaced(verdict, outcome=Outcome.ELIGIBLE, reason=why)
    if verdict.outcome is Outcome.CHOSEN and is_alone and "priority" in verdict.reason:
        return replaced(verdict, reason="the only one that is available")
    if verdict.outcome is Outcome.ELIGIBLE and is_unread:
        return replaced(verdict, reason=f"available; {_UNKNOWN}")
    return verdict
