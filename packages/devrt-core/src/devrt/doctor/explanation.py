"""Why this process uses the backend that it uses: the decision as an object that can be printed."""

from __future__ import annotations

import dataclasses

from devrt.errors import ConfigError, DevrtError
from devrt.plugins import Broken, Decision, PluginRef, Verdict
from devrt.plugins.discovery.known import command_for, wheels_for
from devrt.probing.description import description
from devrt.records import Unavailable
from devrt.runtime import Runtime, default_runtime, failures

__all__ = ["Explanation", "explain"]


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, the reason for each candidate, and what to type next. Prints as a table.

    Attributes
    ----------
    requested : str
        The platform that was requested; empty for the default.
    chosen : str
        The backend chosen, ``platform@distribution``; empty if there is none.
    reason : str
        Why it was, or why none was.
    decision : Decision or None
        What the selection returned; None where it refused the question.
    next_command : str
        The next command to type.
    global_symbols : tuple of str
        The candidates whose libraries are opened with their symbols visible to every other one.
    description : str
        What the backend says of itself, such as what it compiles with.
    """

    requested: str
    chosen: str
    reason: str
    decision: Decision | None
    next_command: str
    global_symbols: tuple[str, ...] = ()
    description: str = ""

    def __str__(self) -> str:
        question = f"platform {self.requested!r}" if self.requested else "the default platform"
        lines = [f"{question}: {self.chosen or 'none'}", f"  {self.reason}"]
        if self.description:
            lines.append(f"  {self.description}")
        if self.decision is not None:
            policy = self.decision.policy
            if policy.platforms:
                lines.append(f"  requested: {', '.join(policy.platforms)} ({policy.source})")
            lines += _rows(self.decision.verdicts)
        if self.global_symbols:
            names = ", ".join(self.global_symbols)
            lines.append(f"  opened with global symbols, which can clash: {names}")
        return "\n".join([*lines, f"next: {self.next_command}"])

    def __repr__(self) -> str:
        return str(self)


def explain(platform: str | None = None, *, runtime: Runtime | None = None) -> Explanation:
    """Explain which backend is used in this process, and why; makes no client.

    Plugins are loaded and probed as the choice itself does it. `devrt.doctor.diagnose` runs them
    in child processes and tells more.

    Parameters
    ----------
    platform
        A platform, an alias or ``platform@distribution``; None asks for the default.
    runtime
        Whose plugins and configuration; the default one when omitted.
    """
    runtime = default_runtime() if runtime is None else runtime
    try:
        decision = runtime.decide(platform)
    except DevrtError as error:
        return Explanation(platform or "", "", error.message, None, "devrt doctor")
    chosen = decision.chosen
    shown = tuple(v.candidate.ref for v in decision.verdicts)
    shared = tuple(ref.name for ref in shown if runtime.plugins.opens_globally(ref))
    if chosen is None:
        why = _why_none(runtime, platform, decision)
        return Explanation(platform or "", "", why, decision, _next(decision), shared)
    reason = next(v.reason for v in decision.verdicts if v.candidate is chosen)
    return Explanation(
        platform or "",
        chosen.ref.name,
        reason,
        decision,
        "devrt devices",
        shared,
        _description(runtime, chosen.ref),
    )


def _description(runtime: Runtime, ref: PluginRef) -> str:
    factory = runtime.plugins.resolve(ref).factory
    try:
        options = {spec.name: runtime.config.read(spec.name) for spec in factory.options}
    except ConfigError:
        return ""  # making the client says what is wrong
    return description(factory, options)


def _why_none(runtime: Runtime, platform: str | None, decision: Decision) -> str:
    known, unloaded = runtime.plugins.refs(), runtime.plugins.load_errors()
    if platform is None:
        return failures.no_default(decision, known, unloaded).message
    return failures.not_served(platform, decision, known, unloaded).message


def _next(decision: Decision) -> str:
    if not decision.verdicts and not decision.policy.platforms:
        return command_for("devrt-cpu")
    if decision.unknown:
        wheels = wheels_for(decision.unknown[0])
        return command_for(wheels[0]) if wheels else "devrt list"
    return "devrt doctor"


def _rows(verdicts: tuple[Verdict, ...]) -> list[str]:
    names = [f"{v.candidate.ref.platform} ({v.candidate.ref})" for v in verdicts]
    width = max(map(len, names), default=0)
    lines = []
    for name, verdict in zip(names, verdicts, strict=True):
        state = verdict.candidate.state
        lines.append(f"  {verdict.outcome.value:<11} {name:<{width}}  {verdict.reason}")
        if isinstance(state, Unavailable | Broken) and state.remedy:
            lines.append(f"  {'':<11} {'':<{width}}  {state.remedy}")
    return lines
