"""The messages of the runtime's errors: what was requested, every cause, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TypeVar

from devrt.errors import (
    BackendInitializationError,
    BackendUnavailableError,
    DevrtError,
    InvalidArgumentError,
    InvalidTypeError,
    NoBackendError,
    SelectionError,
    UnknownPlatformError,
)
from devrt.plugins import (
    UNNAMED,
    Broken,
    Candidate,
    Decision,
    Outcome,
    PluginRef,
    PluginRegistry,
    Policy,
    Verdict,
)
from devrt.plugins.discovery.known import (
    advice_for,
    command_for_module,
    platform_with_option,
    wheels_for,
)
from devrt.plugins.loading.faults import missing_module
from devrt.records import Unavailable

__all__ = [
    "absent_option",
    "excluded",
    "initialization",
    "invalid_backend",
    "nameless",
    "no_default",
    "no_name",
    "no_options",
    "not_served",
    "noted",
    "requested",
    "requested_failed",
    "unusable",
]

_Error = TypeVar("_Error", bound=DevrtError)


def invalid_backend(given: object) -> InvalidTypeError:
    """Return the error for a backend argument that is neither a name nor a client."""
    msg = f"a backend is named by a string or given as a client, not as {given!r}."
    return InvalidTypeError(msg)


def no_name(given: object) -> InvalidTypeError:
    """Return the error for a platform to make a client of that is no name."""
    msg = f"a client is made of a platform that is named by a string, not of {given!r}."
    return InvalidTypeError(msg)


def no_options(platform: str, given: object) -> InvalidTypeError:
    """Return the error for a client's options that are no mapping from names."""
    msg = (
        f"the options of a {platform} client are a mapping from names to values, as "
        f"{{'mock': True}}, not {given!r}."
    )
    return InvalidTypeError(msg)


def nameless() -> InvalidArgumentError:
    """Return the error for a platform argument without a name in it."""
    msg = "a platform's name is empty. Name one, or pass None for the default platform."
    return InvalidArgumentError(msg)


def excluded(name: str, candidates: Sequence[Candidate], policy: Policy) -> SelectionError:
    """Return the error for a platform that is installed but that the policy rules out."""
    msg = (
        f"platform {name!r} is installed ({', '.join(str(c.ref) for c in candidates)}), but "
        f"{policy.source} allows only {', '.join(policy.platforms)}. "
        f"Add {name!r} there to use it."
    )
    return SelectionError(msg, platform=name, allowed=policy.platforms)


def not_served(
    name: str,
    decision: Decision,
    known: Sequence[PluginRef],
    unloaded: Sequence[DevrtError] = (),
) -> SelectionError:
    """Return the error for a platform that was named and cannot be had."""
    if decision.unknown:
        return _unknown(decision.unknown[0], known, unloaded)
    return _unserved(name, decision)


def noted(error: SelectionError, notes: Sequence[str]) -> SelectionError:
    """Return an error that tells as well what is wrong with how plugins were named."""
    untold = [note for note in notes if note not in error.message]
    if not untold:
        return error
    message = error.message + "".join(f"\n  Beside that, {note}." for note in untold)
    return _reworded(error, message)


def notes(plugins: PluginRegistry, decision: Decision) -> tuple[str, ...]:
    """Return what is wrong with how plugins were named, and which might have a name unasked."""
    policy = decision.policy
    unasked = (ref for ref in plugins.refs() if decision.unknown and plugins.is_forbidden(ref))
    return plugins.problems() + tuple(
        f"{policy.origin('forbid')} forbids {ref.platform} ({ref}), so that its aliases are not "
        "known"
        for ref in unasked
        if not plugins.aliases(ref)
    )


def no_default(
    decision: Decision, known: Sequence[PluginRef], unloaded: Sequence[DevrtError] = ()
) -> SelectionError:
    """Return the error for a default platform that does not exist."""
    policy = decision.policy
    if decision.unknown:
        name = decision.unknown[0]
        unknown = _unknown(name, known, unloaded, f" ({_named_by(name, policy)})")
        return requested(name, unknown, policy)
    if decision.unserved:
        name = decision.unserved[0]
        return requested(name, _unserved(name, decision, f" ({_named_by(name, policy)})"), policy)
    if not known:
        msg = (
            "no backend is installed, so there is no device. "
            f"Install one beside devrt-core, at the least the host's: {advice_for('devrt-cpu')}"
        )
        return NoBackendError(msg, known=())
    msg = f"none of the installed backends can be used:{_causes(decision.verdicts)}"
    if all(ref.platform != "cpu" for ref in known):
        msg += f"\nThe host's own processor has one too: {advice_for('devrt-cpu')}"
    return NoBackendError(msg, known=tuple(map(str, known)))


def requested(name: str, error: _Error, policy: Policy) -> _Error:
    """Return an error about a platform that the configuration names, in the words of JAX's."""
    source = _named_by(name, policy)
    if name not in (*policy.default, *policy.platforms):
        return error  # it is required beside the default
    how = f"set {source}=''" if source.isupper() else f"change {source}"
    space = "\n" if "\n" in error.message else " "
    msg = (
        f"Unable to initialize backend {name!r}: {error.message}{space}"
        f"({how} to automatically choose an available backend)"
    )
    return _reworded(error, msg)


def _reworded(error: _Error, message: str) -> _Error:
    """Return an error with another message and the same cause."""
    made = type(error)(message, code=error.code, **error.data)
    made.__cause__ = error.__cause__
    return made


def requested_failed(decision: Decision, error: _Error) -> _Error:
    """Return the error of the chosen client, as `requested`, under the name that it goes by."""
    policy, chosen = decision.policy, decision.chosen
    assert chosen is not None, "its client was made"
    names = (*policy.default, *policy.platforms)
    name = next((name for name in names if chosen.answers_to(name)), chosen.ref.platform)
    return requested(name, error, policy)


def _named_by(name: str, policy: Policy) -> str:
    fields = ("default", "platforms")
    return policy.origin(next((f for f in fields if name in getattr(policy, f)), "require"))


def _unserved(name: str, decision: Decision, where: str = "") -> SelectionError:
    verdicts = [v for v in decision.verdicts if v.candidate.answers_to(name)]
    if verdicts and all(v.outcome is Outcome.EXCLUDED for v in verdicts):
        return _ruled_out(name, verdicts, decision.policy, where)
    return _unavailable(name, verdicts or decision.verdicts, where)


def _ruled_out(
    name: str, verdicts: Sequence[Verdict], policy: Policy, where: str
) -> SelectionError:
    causes = "".join(f"\n  {v.candidate.ref.name}: {v.reason}." for v in verdicts)
    msg = (
        f"platform {name!r}{where} is installed, but the configuration rules it out:{causes}\n"
        "Change that, or use another platform."
    )
    return SelectionError(msg, platform=name, forbidden=policy.forbid)


def initialization(ref: PluginRef, error: BaseException) -> DevrtError:
    """Return the error for a client factory that raised: with its code, operation and device."""
    cause = str(error).rstrip(".")
    missing = missing_module(error) if ref.has_distribution else ""
    fix = f"Install it with: {command_for_module(ref.distribution, missing)}" if missing else ""
    msg = (
        f"platform {ref.platform!r} could not be initialised by plugin {ref}: "
        f"{type(error).__name__}: {cause}. {fix or 'Fix that'}, or choose another platform with "
        "DEVRT_PLATFORMS; `devrt list` shows which are installed."
    )
    known = error.data if isinstance(error, DevrtError) else {}
    where = {name: known[name] for name in ("operation", "device") if name in known}
    code = error.code if isinstance(error, DevrtError) else None
    return BackendInitializationError(msg, code=code, phase="client", **where, **ref.facts())


def absent_option(
    option: str, known: Sequence[PluginRef], policy: Policy, plugins: PluginRegistry
) -> str:
    """Return whose option a name is and why that is not loaded; empty if it is nobody's."""
    declared = platform_with_option(option)
    words = option.lower().split("_")
    platform = declared[0] if declared else ""
    refs = [r for r in known if r.platform == platform or (not platform and r.platform in words)]
    if not refs:
        if declared is None:
            return ""
        wheel = declared[1]
        return f"It is an option of {wheel}, which is not installed: {advice_for(wheel)}."
    whose = f"It may be an option of platform {refs[0].platform!r} ({refs[0]})"
    if any(ref.is_among(policy.forbid) for ref in refs):
        return f"{whose}, which {policy.origin('forbid')} forbids."
    if policy.platforms and not any(ref.is_among(policy.platforms) for ref in refs):
        return f"{whose}, which is not loaded: {policy.origin('platforms')} allows only " + (
            f"{', '.join(policy.platforms)}."
        )
    broken = [
        error
        for error in plugins.load_errors()
        if getattr(error, "plugin", "") in (ref.distribution for ref in refs)
    ]
    return f"{whose}, which cannot be loaded: {broken[0].message}" if broken else ""


def unusable(ref: PluginRef, problem: str, remedy: str = "") -> BackendInitializationError:
    """Return the error for a client factory whose client cannot be used."""
    remedy = remedy or f"Report it to the author of {ref}."
    msg = f"platform {ref.platform!r} could not be initialised by plugin {ref}: {problem}. {remedy}"
    return BackendInitializationError(
        msg, phase="client", plugin=ref.distribution, version=ref.version, platform=ref.platform
    )


def _unknown(
    name: str, known: Sequence[PluginRef], unloaded: Sequence[DevrtError], where: str = ""
) -> UnknownPlatformError:
    platforms = sorted({ref.platform for ref in known if not ref.is_empty} - {UNNAMED})
    empty = [ref for ref in known if ref.is_empty and ref.is_called(name)]
    near = difflib.get_close_matches(name, platforms, n=2, cutoff=0.5)
    platform, at, _ = name.partition("@")
    from_others = [ref.name for ref in known if at and ref.platform == platform]
    if from_others:
        others = " or ".join(map(repr, from_others))
        hint = f"The platform comes from another distribution; ask for {others}."
    elif empty:
        hint = f"What {empty[0]} brings, {empty[0].entry!r}, registers no backend on this machine."
    elif name in platforms:
        added = ", ".join(str(ref) for ref in known if ref.platform == name)
        hint = f"What {added} adds needs the platform's own backend: install that too."
    elif wheels := wheels_for(name):
        hint = f"Install its backend with: {' or '.join(map(advice_for, wheels))}."
    elif near:
        hint = f"Did you mean {' or '.join(map(repr, near))}?"
    else:
        hint = "No package for it is known."
    installed = ", ".join(platforms) or "none"
    msg = f"no installed backend serves platform {name!r}{where}. {hint} Installed: {installed}."
    if unloaded:  # an alias is known only once its plugin was loaded
        causes = "".join(f"\n  {error}" for error in unloaded)
        msg += f" These plugins, which may serve it, could not be loaded:{causes}"
    return UnknownPlatformError(msg, platform=name, known=tuple(platforms), nearest=tuple(near))


def _unavailable(
    name: str, verdicts: Sequence[Verdict], where: str = ""
) -> BackendUnavailableError:
    states = [v.candidate.state for v in verdicts]
    failed = [state for state in states if isinstance(state, Broken)]
    why = "cannot be used on this machine"
    if failed and len(failed) == len(states):
        why = "cannot be used, because its plugin fails"
    msg = f"platform {name!r}{where} {why}:{_causes(verdicts)}"
    reasons = {str(v.candidate.ref): _reason(v)[0] for v in verdicts}
    error = BackendUnavailableError(msg, platform=name, reasons=reasons)
    error.__cause__ = next((state.cause for state in failed if state.cause is not None), None)
    return error


def _causes(verdicts: Sequence[Verdict]) -> str:
    text = ""
    for verdict in verdicts:
        reason, remedy = _reason(verdict)
        ref = verdict.candidate.ref
        is_named = remedy in text or remedy in reason  # once is enough
        text += f"\n  {ref.platform} ({ref}): {reason}. {'' if is_named else remedy}".rstrip()
    return text


def _reason(verdict: Verdict) -> tuple[str, str]:
    state = verdict.candidate.state
    if verdict.outcome is Outcome.EXCLUDED:
        return verdict.reason, ""
    if isinstance(state, Unavailable | Broken):
        return state.reason.rstrip("."), state.remedy
    return "available, but not chosen", ""
