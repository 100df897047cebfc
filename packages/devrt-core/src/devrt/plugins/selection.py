"""The one function that chooses backends: candidates and a policy in, a decision with reasons out.

It is pure, total and deterministic. Order: the platforms that the policy names, then those that it
prefers, then priority, then platform name, then distribution name. Nothing depends on the order of
installation or on hashing.

A plugin that was made for JAX or XLA says its priority on another scale. Where a plugin made for
devrt serves the same platform, the other one counts for no more than that and comes after it.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable

from devrt._support.record import record, replaced
from devrt.plugins.discovery.refs import PluginRef
from devrt.records import Available, ProbeResult, Unavailable

__all__ = [
    "Broken",
    "Candidate",
    "Decision",
    "Outcome",
    "Policy",
    "Verdict",
    "parse_platforms",
    "select",
]


@record(frozen=True, slots=True)
class Broken:
    """The plugin failed: while loading, while probing, or while making its client.

    ``phase`` is ``"load"``, ``"contract"``, ``"probe"`` or ``"client"``; ``cause`` what it raised
    in this process, with its traceback.
    """

    phase: str
    reason: str
    remedy: str
    cause: BaseException | None = None


@record(frozen=True, slots=True)
class Candidate:
    """What the selection knows of one backend.

    ``ceiling`` is the most that its priority counts for, as `select` finds it; None for no bound.
    """

    ref: PluginRef
    state: ProbeResult | Broken
    priority: int = 0
    aliases: tuple[str, ...] = ()
    experimental: bool = False
    ceiling: int | None = None

    @property
    def weight(self) -> int:
        """The priority that it counts with."""
        return self.priority if self.ceiling is None else min(self.priority, self.ceiling)

    def answers_to(self, name: str) -> bool:
        """Return whether ``name`` is the platform, an alias of it, or platform@distribution."""
        return self.ref.is_called(name) or name in self.aliases


@record(frozen=True, slots=True)
class Policy:
    """What the user requested. A name is a platform, an alias or ``platform@distribution``.

    Of ``platforms`` any may be used, the preferred first; none there means any, and ``source`` says
    where that was given. ``require`` must all be usable, else there is no choice; ``prefer`` come
    first, whatever their priority; ``forbid`` are not used, even where ``platforms`` names them. Of
    ``default`` the first is the default and each must be usable; others may be used too. A backend
    that calls itself experimental may be used without ``allow_experimental`` where it is named by
    its platform or its full name. ``origins`` tells by field where the last five were given.
    """

    platforms: tuple[str, ...] = ()
    source: str = ""
    require: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    allow_experimental: bool = True
    origins: tuple[tuple[str, str], ...] = ()
    default: tuple[str, ...] = ()

    def origin(self, field: str) -> str:
        """Return where a field was given."""
        given = self.source if field == "platforms" else dict(self.origins).get(field, "")
        return given or "the policy"

    @property
    def needed(self) -> tuple[str, ...]:
        """The names without which there is no choice."""
        # With a default the other platforms are what else may be used.
        return tuple(dict.fromkeys((*(self.default or self.platforms), *self.require)))


class Outcome(enum.Enum):
    """What became of a candidate."""

    CHOSEN = "chosen"
    ELIGIBLE = "eligible"
    SHADOWED = "shadowed"
    EXCLUDED = "excluded"
    UNAVAILABLE = "unavailable"
    BROKEN = "broken"


@record(frozen=True, slots=True)
class Verdict:
    """One candidate's outcome and the reason for it."""

    candidate: Candidate
    outcome: Outcome
    reason: str


@record(frozen=True, slots=True)
class Decision:
    """What `select` found: every candidate's verdict, in order of preference.

    ``unknown`` are names in the policy that no candidate answers to, ``unserved`` those of which
    none that does can be used.
    """

    policy: Policy
    verdicts: tuple[Verdict, ...]
    unknown: tuple[str, ...]
    unserved: tuple[str, ...]

    @property
    def chosen(self) -> Candidate | None:
        """The default backend; None if there is none, or if a named platform cannot be had."""
        return next((v.candidate for v in self.verdicts if v.outcome is Outcome.CHOSEN), None)

    @property
    def usable(self) -> tuple[Candidate, ...]:
        """The chosen candidate and those that may be used beside it, in order."""
        return tuple(
            v.candidate for v in self.verdicts if v.outcome in (Outcome.CHOSEN, Outcome.ELIGIBLE)
        )


def select(candidates: Iterable[Candidate], policy: Policy) -> Decision:
    """Choose the default backend and say of every candidate what became of it, and why.

    Where the policy names or requires platforms, each name must be served, and the first named is
    the default: a name that is not served leaves the decision without a choice, never with another
    platform. The candidates may come in any order.
    """
    ordered = sorted(_bounded(tuple(candidates), policy), key=lambda c: _key(c, policy))
    unknown = tuple(name for name in policy.needed if not any(c.answers_to(name) for c in ordered))
    first_of: dict[str, Candidate] = {}
    verdicts = [_judge(candidate, policy, first_of) for candidate in ordered]
    served = [v.candidate for v in verdicts if v.outcome in (Outcome.ELIGIBLE, Outcome.SHADOWED)]
    unserved = tuple(
        name
        for name in policy.needed
        if name not in unknown and not any(c.answers_to(name) for c in served)
    )
    usable = [v.candidate for v in verdicts if v.outcome is Outcome.ELIGIBLE]
    if usable and not unknown and not unserved:
        verdicts = [_promote(v, usable[0], policy) for v in verdicts]
    return Decision(policy, tuple(verdicts), unknown, unserved)


def _bounded(candidates: tuple[Candidate, ...], policy: Policy) -> tuple[Candidate, ...]:
    """Return the candidates, adopted ones with the priority that devrt's plugins leave them."""
    adopted = [c for c in candidates if c.ref.is_adopted]
    if not adopted:
        return candidates
    own: dict[str, int] = {}
    for c in candidates:
        if not (
            c.ref.is_adopted or isinstance(c.state, Broken) or any(map(c.answers_to, policy.forbid))
        ):
            own[c.ref.platform] = min(c.priority, own.get(c.ref.platform, c.priority))
    bound = {
        c.ref: replaced(c, ceiling=own[c.ref.platform]) for c in adopted if c.ref.platform in own
    }
    return tuple(bound.get(c.ref, c) for c in candidates)


def _key(candidate: Candidate, policy: Policy) -> tuple[int, int, int, int, str, bool, PluginRef]:
    default, named = (_position(candidate, n) for n in (policy.default, policy.platforms))
    ref = candidate.ref
    preferred = _position(candidate, policy.prefer)
    return default, named, preferred, -candidate.weight, ref.platform, ref.is_adopted, ref


def _position(candidate: Candidate, names: tuple[str, ...]) -> int:
    for position, name in enumerate(names):
        if candidate.answers_to(name):
            return position
    return len(names)


def _excluded(candidate: Candidate, policy: Policy) -> str:
    """Return why the policy rules a candidate out; empty if it does not."""
    forbidden = next((name for name in policy.forbid if candidate.answers_to(name)), None)
    if forbidden is not None:
        return f"{policy.origin('forbid')} forbids {forbidden}"
    if policy.platforms and not any(candidate.answers_to(name) for name in policy.platforms):
        return f"{policy.origin('platforms')} allows only {', '.join(policy.platforms)}"
    is_named = candidate.ref.is_among((*policy.needed, *policy.prefer))
    if candidate.experimental and not policy.allow_experimental and not is_named:
        return (
            f"it is experimental, and {policy.origin('allow_experimental')} allows such only by "
            f"name; name {candidate.ref.platform!r} to use it"
        )
    return ""


def _judge(candidate: Candidate, policy: Policy, first_of: dict[str, Candidate]) -> Verdict:
    excluded = _excluded(candidate, policy)
    if excluded:
        return Verdict(candidate, Outcome.EXCLUDED, excluded)
    if isinstance(candidate.state, Broken):
        return Verdict(candidate, Outcome.BROKEN, candidate.state.reason)
    if isinstance(candidate.state, Unavailable):
        return Verdict(candidate, Outcome.UNAVAILABLE, candidate.state.reason)
    winner = first_of.setdefault(candidate.ref.platform, candidate)
    if winner is not candidate:
        reason = (
            f"{winner.ref} serves {winner.ref.platform} too and comes first "
            f"({_why_first(winner, candidate, policy)}); ask for {candidate.ref.name!r} to use this"
            " one"
        )
        return Verdict(candidate, Outcome.SHADOWED, reason)
    return Verdict(candidate, Outcome.ELIGIBLE, _detail(candidate))


def _why_first(winner: Candidate, loser: Candidate, policy: Policy) -> str:
    for field in ("default", "platforms", "prefer"):
        names = getattr(policy, field)
        if _position(winner, names) < _position(loser, names):
            return f"it comes first in {policy.origin(field)}"
    if loser.ref.is_adopted and not winner.ref.is_adopted:
        return f"a plugin made for devrt counts before one of priority {loser.priority} that is not"
    if winner.priority != loser.priority:
        return f"priority {winner.priority} over {loser.priority}"
    return "equal priority, first by name"


def _promote(verdict: Verdict, first: Candidate, policy: Policy) -> Verdict:
    if verdict.candidate is not first:
        return verdict
    if policy.default:
        why = f"{policy.origin('default')} names {policy.default[0]}"
    elif policy.platforms:
        why = f"first of {', '.join(policy.platforms)} ({policy.origin('platforms')})"
    elif _position(first, policy.prefer) < len(policy.prefer):
        why = f"preferred by {policy.origin('prefer')} ({', '.join(policy.prefer)})"
    else:
        why = f"highest priority ({first.weight}) among the available"
    return Verdict(first, Outcome.CHOSEN, why)


def _detail(candidate: Candidate) -> str:
    state = candidate.state
    detail = state.detail if isinstance(state, Available) else ""
    bound = f", counted as {candidate.weight}" if candidate.weight != candidate.priority else ""
    return f"available{f' ({detail})' if detail else ''}, priority {candidate.priority}{bound}"


@functools.lru_cache(maxsize=64)  # the same few settings are read at every question
def parse_platforms(text: str, source: str) -> Policy:
    """Read a comma-separated list of platforms; blanks and repetitions are dropped."""
    names = (_canonical(name) for name in text.split(","))
    return Policy(tuple(dict.fromkeys(name for name in names if name)), source)


def _canonical(name: str) -> str:
    platform, at, distribution = name.strip().partition("@")
    return platform.lower() + at + distribution
