"""Examining every plugin in child processes and putting the answers to the selection."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from devrt.compiling.xla_cpu_engines import engine_named
from devrt.doctor.option_clashes import with_clashes
from devrt.doctor.unread import as_far_as_known
from devrt.errors import ConfigError, DevrtError, PluginError
from devrt.plugins import (
    BackendManifest,
    Broken,
    Candidate,
    Decision,
    PluginRef,
    Policy,
    parse_platforms,
)
from devrt.plugins.judging import NOT_IMPORTED, broken_by
from devrt.plugins.loading.faults import usual_remedy
from devrt.probing.isolated import Level, ProbeReport, ProbeRequest, probe_all
from devrt.probing.preflight import state_of
from devrt.records import Available, ProbeResult, Unavailable
from devrt.runtime import Runtime, failures

__all__ = ["REQUEST", "Examination", "Examined", "examine"]

REQUEST = "--platform"
"""What reasons call the platforms that one asks for in place of the default."""

_TIMEOUTS = {Level.METADATA: 0.0, Level.LOAD: 30.0, Level.CLIENT: 60.0}


@dataclasses.dataclass(frozen=True, slots=True)
class Examined:
    """A plugin and what its examination gave.

    ``level`` is how far it was examined, ``manifest_error`` what is wrong with its manifest, and
    ``report`` what became of the probe; None if there was none. ``candidate`` is what the selection
    gets; None for a plugin that serves no platform. ``skipped`` says why it was not examined, and
    ``refused`` what is wrong with the value of one of its options: it works, but not with that.
    ``lacks`` is what the machine lacks by its manifest, which the runtime looks at first.
    """

    ref: PluginRef
    level: Level = Level.METADATA
    manifest: BackendManifest | None = None
    manifest_error: PluginError | None = None
    report: ProbeReport | None = None
    candidate: Candidate | None = None
    skipped: str = ""
    refused: str = ""
    lacks: Unavailable | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Examination:
    """Every plugin, in the order in which they were found, and the decision among them.

    There is none where the selection refused the question. ``problem`` says why no backend was
    chosen, ``trouble`` what kept plugins from being found or the policy from being read, and
    ``undecided`` why it cannot be known at this level which of the usable backends is the default.
    ``problem_type`` is the class of error that a first use raises for it.
    """

    examined: tuple[Examined, ...]
    policy: Policy
    decision: Decision | None
    problem: str
    trouble: tuple[DevrtError, ...]
    undecided: str = ""
    problem_type: str = ""

    @property
    def chosen(self) -> Candidate | None:
        """The default, unless it cannot be had with the options that are set."""
        chosen = self.decision.chosen if self.decision is not None else None
        return None if self.problem else chosen


def examine(
    runtime: Runtime,
    *,
    platforms: Sequence[str] = (),
    level: Level | None = None,
    timeout: float | None = None,
    findings: bool = False,
) -> Examination:
    """Examine the plugins that the policy allows and decide among them; nothing runs in-process.

    Parameters
    ----------
    runtime
        Whose plugins and configuration.
    platforms
        Ask for these instead of for the default.
    level
        How far to go; by default to the client, but not for devices that only one process can hold.
    timeout
        Seconds for each plugin; by default what its manifest says, or what suits the level.
    findings
        Whether to ask the plugins for what they have to say to the doctor.
    """
    trouble: list[DevrtError] = []
    policy = _attempt(runtime.policy, Policy(), trouble)
    requested = parse_platforms(",".join(platforms), REQUEST) if platforms else None
    allowed = policy.needed if policy.platforms else ()
    names = allowed if requested is None else requested.platforms

    def known() -> tuple[PluginRef, ...]:
        if level is not Level.METADATA:
            with contextlib.suppress(ConfigError):  # reported already, as the policy's
                runtime.plugins.settle(names, retry=findings)
        return runtime.plugins.refs()

    refs = _attempt(known, (), trouble)
    plans = _without_compilers([_plan(runtime, ref, level) for ref in refs], names)
    considered = _considered(plans, names)
    considered -= {ref for ref in refs if ref.is_among(policy.forbid)}
    considered -= _experimental(plans, policy, names)
    given = _given_options(runtime)

    def probe(chosen: Sequence[Examined]) -> dict[PluginRef, ProbeReport]:
        requests = [
            ProbeRequest(
                p.ref, p.level, _patience(p) if timeout is None else timeout, given, findings
            )
            for p in chosen
            if p.ref in considered and not _without_child(p)
        ]
        return dict(zip((r.ref for r in requests), probe_all(requests), strict=True))

    wanted, plans = plans, [_for_aliases(plan, names) for plan in plans]
    reports = probe(plans)
    meant = [plan for plan in wanted if _is_meant(plan, names, reports.get(plan.ref))]
    more = [plan for plan in meant if plan not in plans]
    reports = with_clashes(refs, reports | probe(more))
    plans = [next((p for p in more if p.ref == plan.ref), plan) for plan in plans]
    examined = tuple(
        _judged(runtime, plan, reports.get(plan.ref))
        if plan.ref in considered
        else _skipped(plan, policy)
        for plan in plans
    )
    decision, error = _decide(runtime, requested, examined)
    undecided = ""
    if decision is not None:
        error = _why_none(decision, requested, refs, examined)
        decision, undecided = as_far_as_known(decision, _unread(examined))
    problem, kind = (error.message, type(error).__name__) if error is not None else ("", "")
    return Examination(examined, policy, decision, problem, tuple(trouble), undecided, kind)


def _without_compilers(plans: Sequence[Examined], names: Sequence[str]) -> list[Examined]:
    """Return the plugins without wheels that are here as the compiler of devrt's own CPU client.

    Where the PJRT loader is installed, such a wheel is a backend beside that.
    """
    is_loadable = any(getattr(plan.manifest, "pjrt_loader", False) for plan in plans)
    has_own = any(p.ref.platform == "cpu" and not p.ref.is_adopted for p in plans)
    if is_loadable or not has_own:
        return [*plans]
    return [p for p in plans if p.ref.is_among(names) or not _is_compiler(p.ref)]


def _is_compiler(ref: PluginRef) -> bool:
    return ref.is_adopted and engine_named(ref.distribution) is not None


def _for_aliases(plan: Examined, names: Sequence[str]) -> Examined:
    """Return ``plan``, with no client to be made unless one of ``names`` is the plugin's."""
    if not names or plan.ref.is_among(names) or plan.manifest is not None:
        return plan
    return dataclasses.replace(plan, level=min(plan.level, Level.LOAD))


def _is_meant(plan: Examined, names: Sequence[str], report: ProbeReport | None) -> bool:
    aliases = report.facts.get("aliases", ()) if report is not None else ()
    return not set(names).isdisjoint(aliases)


def _unread(examined: Sequence[Examined]) -> set[PluginRef]:
    """Return the plugins that did not say their priority, neither in a manifest nor to a probe."""
    return {
        e.ref
        for e in examined
        if e.manifest is None
        and not _is_by_call(e.ref)
        and (e.report is None or "priority" not in e.report.facts)
    }


def _attempt(question: Callable[[], Any], otherwise: Any, trouble: list[DevrtError]) -> Any:
    try:
        return question()
    except DevrtError as error:
        trouble.append(error)
    except Exception as error:  # noqa: BLE001  metadata on the path may be broken in any way
        trouble.append(DevrtError(f"plugins could not be listed: {type(error).__name__}: {error}"))
    return otherwise


def _considered(plans: Sequence[Examined], names: Sequence[str]) -> set[PluginRef]:
    """Return the plugins that may serve ``names``: those without a manifest by an alias, too."""
    direct = {plan.ref for plan in plans if plan.ref.is_among(names)}
    unmet = {name for name in names if not any(ref.is_called(name) for ref in direct)}
    if not names:
        return {plan.ref for plan in plans}
    if unmet:
        direct |= {p.ref for p in plans if p.manifest is None or unmet & set(p.manifest.aliases)}
    return direct


def _experimental(
    plans: Sequence[Examined], policy: Policy, names: Sequence[str]
) -> set[PluginRef]:
    """Return the plugins that are known to be experimental where the policy wants them by name."""
    if policy.allow_experimental:
        return set()
    named = (*names, *policy.needed, *policy.prefer)
    return {p.ref for p in plans if _is_experimental(p) and not p.ref.is_among(named)}


def _is_experimental(plan: Examined) -> bool:
    return bool(getattr(plan.manifest, "experimental", plan.ref.experimental))


def _skipped(plan: Examined, policy: Policy) -> Examined:
    if _experimental([plan], policy, ()) and not plan.ref.is_among(policy.forbid):
        manifest = plan.manifest
        priority, aliases = getattr(manifest, "priority", 0), getattr(manifest, "aliases", ())
        candidate = Candidate(plan.ref, NOT_IMPORTED, priority, aliases, experimental=True)
        return dataclasses.replace(plan, candidate=candidate, skipped="excluded by the policy")
    if not plan.ref.is_among(policy.forbid):
        return dataclasses.replace(plan, skipped="excluded by the policy")
    candidate = Candidate(plan.ref, NOT_IMPORTED)
    return dataclasses.replace(plan, candidate=candidate, skipped="forbidden by the policy")


def _plan(runtime: Runtime, ref: PluginRef, level: Level | None) -> Examined:
    manifest, error, lacks = None, None, None
    try:
        manifest = runtime.plugins.manifest(ref)
        lacks = runtime.plugins.missing(ref)
    except PluginError as raised:
        error = raised
    exclusive = manifest is not None and manifest.exclusive
    if level is None:
        level = Level.LOAD if exclusive else Level.CLIENT
    if lacks is not None:  # its devices are not here: no more than a library's version
        level = min(level, Level.LOAD)
    return Examined(ref, level, manifest, error, lacks=lacks)


def _given_options(runtime: Runtime) -> dict[str, Any]:
    """Return the options that this process set by calls: a child cannot know them otherwise."""
    found = {}
    for name in runtime.config.names():
        with contextlib.suppress(ConfigError):
            setting = runtime.config.setting(name)
            if setting.origin in ("code", "context"):
                found[name] = setting.value
    return found


def _patience(plan: Examined) -> float:
    declared = getattr(plan.manifest, "init_timeout", None) or 0.0
    return max(_TIMEOUTS[plan.level], float(declared))


def _without_child(plan: Examined) -> bool:
    return (
        plan.level is Level.METADATA
        or plan.manifest_error is not None
        or bool(plan.ref.problem)
        or _is_by_call(plan.ref)
        or (plan.lacks is not None and not plan.ref.library)
    )


def _is_by_call(ref: PluginRef) -> bool:
    """Return whether a call registered it in this process, which no child can repeat."""
    return not ref.module and not ref.library and not ref.config


def _judged(runtime: Runtime, plan: Examined, report: ProbeReport | None) -> Examined:
    ref, manifest = plan.ref, plan.manifest
    if report is None and _is_by_call(ref) and not ref.problem:
        return dataclasses.replace(plan, candidate=runtime.plugins.candidate(ref))
    if report is not None and report.is_ok and not report.facts.get("serves", True):
        return dataclasses.replace(plan, report=report)
    facts = report.facts if report is not None else {}
    state = _state_unprobed(plan) if report is None else plan.lacks or state_of(ref, report)
    refused = "\n".join(facts.get("refused", ()))
    candidate = Candidate(
        ref,
        state,
        int(facts.get("priority", getattr(manifest, "priority", 0))),
        tuple(facts.get("aliases", getattr(manifest, "aliases", ()))),
        bool(facts.get("experimental", getattr(manifest, "experimental", ref.experimental))),
    )
    return dataclasses.replace(plan, report=report, candidate=candidate, refused=refused)


def _state_unprobed(plan: Examined) -> ProbeResult | Broken:
    if plan.ref.problem:
        usual = usual_remedy(plan.ref)  # nobody wrote an entry for what a wheel brings
        remedy = usual if plan.ref.is_adopted else "Correct the entry, or take it out."
        return Broken("load", plan.ref.problem, remedy)
    if plan.manifest_error is not None:
        return broken_by(plan.ref, plan.manifest_error, "manifest")
    return plan.lacks or Available("not loaded")


def _decide(
    runtime: Runtime, requested: Policy | None, examined: Sequence[Examined]
) -> tuple[Decision | None, DevrtError | None]:
    candidates = [e.candidate for e in examined if e.candidate is not None]
    try:
        return runtime.decide_among(candidates, requested), None
    except DevrtError as error:
        return None, error


def _why_none(
    decision: Decision,
    requested: Policy | None,
    refs: Sequence[PluginRef],
    examined: Sequence[Examined],
) -> DevrtError | None:
    """Return what the runtime raises for a choice that cannot be made; None if it can."""
    if decision.chosen is not None:
        refused = next((e.refused for e in examined if e.ref == decision.chosen.ref), "")
        return ConfigError(refused) if refused else None
    unloaded = [
        DevrtError(e.candidate.state.reason)
        for e in examined
        if e.candidate is not None and isinstance(e.candidate.state, Broken)
    ]
    if requested is not None:
        return failures.not_served(requested.platforms[0], decision, refs, unloaded)
    return failures.no_default(decision, refs, unloaded)
