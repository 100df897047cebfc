"""Each plugin's row: every rule that it went through, its state, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from devrt.doctor.examination import REQUEST, Examination, Examined
from devrt.doctor.records import PluginEntry, Rule
from devrt.plugins import Broken, Outcome, PluginRef, Verdict
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.discovery.registered import registered
from devrt.probing.isolated import Level, ProbeReport
from devrt.records import Available, Unavailable

__all__ = ["entries", "entry_of"]

_PHASES = ("load", "probe", "client")
_KEPT = (
    *("device_count", "device_kinds", "platform_version", "detail", "memory_kinds", "topologies"),
    *("options", "pjrt_version", "pjrt_api_size", "description"),
)


def entries(found: Examination) -> tuple[PluginEntry, ...]:
    """Return the rows of a report: in the selection's order, then what it did not consider."""
    verdicts = found.decision.verdicts if found.decision is not None else ()
    by_ref = {verdict.candidate.ref: verdict for verdict in verdicts}
    rank = {ref: position for position, ref in enumerate(by_ref)}
    ordered = sorted(found.examined, key=lambda e: (rank.get(e.ref, len(rank)), e.ref))
    return tuple(entry_of(e, by_ref.get(e.ref), found) for e in ordered)


def entry_of(examined: Examined, verdict: Verdict | None, found: Examination) -> PluginEntry:
    """Return the row of one plugin."""
    ref, report, candidate = examined.ref, examined.report, examined.candidate
    state, reason, remedy = _conclusion(examined, verdict, found)
    known = candidate is not None and (examined.manifest is not None or _was_queried(examined))
    ended_well = report is None or report.outcome in ("ok", "unavailable")
    return PluginEntry(
        platform=ref.platform,
        distribution=ref.distribution,
        version=ref.version,
        source=ref.source,
        module=ref.module,
        library=ref.library,
        state=state,
        reason=reason,
        remedy=remedy,
        priority=candidate.priority if candidate is not None and known else None,
        experimental=_experimental(examined, known),
        aliases=candidate.aliases if candidate is not None else (),
        level=_examined_to(report),
        outcome=report.outcome if report is not None else "",
        output="" if report is None or ended_well else report.output,
        facts=_facts(examined),
        rules=tuple(_rules(examined, verdict, found, (state, reason))),
    )


def _examined_to(report: ProbeReport | None) -> str:
    """Return how far a plugin was examined: a client is made only where the probe was passed."""
    if report is None or report.phase == "start":
        return "metadata"
    return "client" if report.phase == "client" else "load"


def _facts(examined: Examined) -> dict[str, object]:
    facts = examined.report.facts if examined.report is not None else {}
    found = {key: facts[key] for key in _KEPT if key in facts}
    known = registered(examined.ref)
    if known is not None and known.priority is not None:
        found["registered"] = known.facts()
    declared = getattr(examined.manifest, "global_symbols", False) or examined.ref.global_symbols
    return found | ({"global_symbols": True} if declared or facts.get("global_symbols") else {})


def _experimental(examined: Examined, known: bool) -> bool | None:
    if examined.candidate is None or not (known or examined.ref.experimental):
        return None
    return examined.candidate.experimental


def _was_queried(examined: Examined) -> bool:
    ref, report = examined.ref, examined.report
    if report is None:  # what a call registered is queried in this process
        return not (ref.module or ref.library or ref.config)
    return "priority" in report.facts


def _conclusion(
    examined: Examined, verdict: Verdict | None, found: Examination
) -> tuple[str, str, str]:
    if examined.skipped and verdict is None:
        return Outcome.EXCLUDED.value, _excluded(examined.ref, found), ""
    candidate = examined.candidate
    if candidate is None:
        return "adds", _additions(examined), ""
    remedy = candidate.state.remedy if isinstance(candidate.state, Unavailable | Broken) else ""
    if examined.refused:
        return Outcome.BROKEN.value, examined.refused, "Correct the value, or unset it."
    if verdict is not None:
        return verdict.outcome.value, verdict.reason, remedy
    if isinstance(candidate.state, Broken):
        return Outcome.BROKEN.value, candidate.state.reason, remedy
    if found.decision is None and not found.policy.platforms:
        usable = isinstance(candidate.state, Available)
        state = Outcome.ELIGIBLE if usable else Outcome.UNAVAILABLE
        why = found.problem or "nothing was decided"
        if isinstance(candidate.state, Unavailable):
            why = candidate.state.reason
        return state.value, why, remedy
    return Outcome.EXCLUDED.value, _excluded(examined.ref, found), ""


def _excluded(ref: PluginRef, found: Examination) -> str:
    policy = found.decision.policy if found.decision is not None else found.policy
    names = ", ".join(policy.platforms or found.policy.platforms)
    source = policy.source or found.policy.source or "the policy"
    not_imported = "" if ref.module in sys.modules else "; not imported"
    return f"{source} allows only {names}{not_imported}"


def _additions(examined: Examined) -> str:
    if examined.ref.is_empty:
        return f"its module {examined.ref.entry!r} registers no backend on this machine"
    facts: Mapping[str, object] = examined.report.facts if examined.report is not None else {}
    parts = []
    for key, what in (
        ("memory_kinds", "memory kinds"),
        ("topologies", "topologies for"),
        ("traits", "traits of PJRT libraries of"),
    ):
        values = facts.get(key)
        if isinstance(values, list) and values:
            parts.append(f"{what} {', '.join(map(str, values))}")
    return f"serves no platform by itself; adds {' and '.join(parts) or 'nothing'}"


def _rules(
    examined: Examined, verdict: Verdict | None, found: Examination, conclusion: tuple[str, str]
) -> Iterator[Rule]:
    state, reason = conclusion
    yield Rule("found", not examined.ref.problem, examined.ref.source)
    if state != Outcome.EXCLUDED.value:
        yield Rule("policy", True, _allowed(found))
    else:  # what was not requested did not fail
        yield Rule("policy", None if reason.startswith(REQUEST) else False, reason)
    yield _manifest_rule(examined)
    yield from _phase_rules(examined)
    if verdict is None:
        yield Rule("choice", None, "not considered")
    elif _lacks_loader(examined):
        yield Rule("choice", None, f"{verdict.outcome.value}: {verdict.reason}")
    else:
        usable = verdict.outcome in (Outcome.CHOSEN, Outcome.ELIGIBLE)
        yield Rule("choice", usable, f"{verdict.outcome.value}: {verdict.reason}")


def _lacks_loader(examined: Examined) -> bool:
    """Return whether it is a library that was not tried, as nothing installed loads any."""
    facts = examined.report.facts if examined.report is not None else {}
    return facts.get("remedy") == adopted_table().loader_remedy


def _allowed(found: Examination) -> str:
    if not found.policy.platforms:
        return "every platform is allowed"
    return f"allowed by {found.policy.source or 'the configuration'}"


def _manifest_rule(examined: Examined) -> Rule:
    if examined.manifest_error is not None:
        return Rule("manifest", False, examined.manifest_error.message)
    if examined.manifest is None:
        return Rule("manifest", None, "it has none")
    lacks = examined.lacks
    return Rule("manifest", lacks is None, lacks.reason if lacks else "all it needs is here")


def _phase_rules(examined: Examined) -> Iterator[Rule]:
    """Yield load, probe and client: those before where the probe ended passed."""
    report = examined.report
    if report is None:
        why = examined.skipped or "not tried"
        yield from (Rule(phase, None, why) for phase in _PHASES)
        return
    ended = _PHASES.index(report.phase) if report.phase in _PHASES else 0
    for position, phase in enumerate(_PHASES):
        if position < ended or (position == ended and report.is_ok):
            yield Rule(phase, True, _seen(phase, examined))
        elif position == ended:
            passed = None if _lacks_loader(examined) else False
            yield Rule(phase, passed, report.sentence())
        else:
            beyond = report.is_ok and examined.level is Level.LOAD
            yield Rule(phase, None, "not tried at this level" if beyond else "not reached")


def _seen(phase: str, examined: Examined) -> str:
    facts: Mapping[str, object] = examined.report.facts if examined.report is not None else {}
    if phase == "client":
        return f"{facts.get('device_count')} devices"
    if phase == "probe":
        return str(facts.get("detail") or "available")
    version = facts.get("pjrt_version")
    return f"PJRT {'.'.join(map(str, version))}" if isinstance(version, list) else "loaded"
