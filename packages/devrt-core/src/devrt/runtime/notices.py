"""What a user learns when a backend is chosen: log records, and one warning for each fault.

Everything here happens before a client is made and while no lock is held: where warnings are
errors, nothing is half-done, and the next call goes on, for each warning is issued once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from devrt._config.layers import Config
from devrt._support import log
from devrt.errors import DevrtError, DevrtWarning, DiscoveryWarning
from devrt.plugins import (
    ENVIRONMENT_VARIABLE,
    FROM_ENVIRONMENT,
    Broken,
    Candidate,
    Decision,
    Outcome,
    PluginRef,
    PluginRegistry,
)
from devrt.plugins.discovery.refs import FROM_ENTRY_POINT, FROM_NAMESPACE
from devrt.records import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.plugins.discovery.accelerators import SeenHardware

__all__ = ["Notices"]

_ROOT = "/"
_HOST = "cpu"
_MAGIC = (
    b"\x7fELF",
    b"MZ",
    *(b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"),
    b"\xca\xfe\xba\xbe",
)
"""What the libraries of Linux, Windows and macOS begin with."""


class Notices:
    """Tells of a decision what went into it, and of each fault that it found once."""

    def __init__(
        self,
        plugins: PluginRegistry,
        config: Config,
        warn_once: Callable[[str, type[Warning]], None],
    ) -> None:
        self._plugins = plugins
        self._config = config
        self._warn_once = warn_once
        self._logged: tuple[PluginRef, ...] = ()
        self._reported: dict[bool, tuple[Decision, tuple[PluginRef, ...]]] = {}

    def tell(self, decision: Decision, *, is_default: bool = False) -> None:
        """Log a decision and warn of what was left aside on the way to it; the same one once.

        Where the default platform was requested, the hardware may be at odds with it.
        """
        refs = self._plugins.refs()
        if self._reported.get(is_default) != (decision, refs):
            self._tell(decision, refs, is_default)
            self._reported[is_default] = (
                decision,
                refs,
            )  # if no warning was raised

    def forget(self) -> None:
        """Tell the next decision whatever it is."""
        self._reported.clear()

    def _tell(self, decision: Decision, refs: tuple[PluginRef, ...], is_default: bool) -> None:
        self._log_found(refs)
        _log_decision(decision)
        self._warn(self._misspelt())
        if decision.chosen is None:
            return  # the error that follows has every cause
        self._warn(self._named_in_the_environment(decision))
        self._warn(_broken(decision))
        if is_default and _is_free(decision) and decision.chosen.ref.platform == _HOST:
            self._warn(self._unused_hardware(decision))

    def fell_back(self, ref: PluginRef, error: DevrtError) -> None:
        """Warn that the default's client could not be made and another platform replaces it."""
        if not self._plugins.resolve(ref).factory.fail_quietly:
            message = (
                f"{error.message} Another platform is the default meanwhile; "
                f"name {ref.platform!r} in DEVRT_PLATFORMS to make this an error."
            )
            self._warn_once(message, DevrtWarning)

    def _log_found(self, refs: tuple[PluginRef, ...]) -> None:
        if refs == self._logged:
            return
        self._logged = refs
        log.info("%d plugins were found", len(refs))
        for ref in refs:
            what = ref.problem or ref.module or ref.library or "registered by a call"
            log.debug("plugin %s %s, from %s: %s", ref.name, ref.version, ref.source, what)

    def _warn(self, messages: Iterator[str]) -> None:
        for message in messages:
            self._warn_once(message, DiscoveryWarning)

    def _misspelt(self) -> Iterator[str]:
        for variable, meant in self._config.unread_with_hints():
            if variable in self._plugins.variables():
                continue
            hint = "`devrt config` lists the options."
            if meant:
                hint = f"Did you mean {' or '.join(meant)}?"
            yield f"environment variable {variable} is not read by devrt. {hint}"

    # -- libraries that the environment names --------------------------------------------------

    def _named_in_the_environment(self, decision: Decision) -> Iterator[str]:
        judged = {v.candidate.ref: v.candidate.state for v in decision.verdicts}
        for ref in self._plugins.refs():
            if ref.source != FROM_ENVIRONMENT:
                continue
            state = judged.get(ref)
            if ref.problem or state is None:
                problem, remedy = ref.problem or _file_problem(ref.library), _CORRECT
            elif isinstance(state, Unavailable | Broken) and getattr(state, "phase", "") != _CLIENT:
                problem, remedy = state.reason.rstrip(" ."), state.remedy or _CORRECT
            else:
                continue
            if problem:
                yield f"{_named(ref, problem)}{problem}. {remedy}"

    # -- hardware ------------------------------------------------------------------------------

    def _unused_hardware(self, decision: Decision) -> Iterator[str]:
        from devrt.plugins.discovery.accelerators import known_hardware, seen_hardware

        for hardware in seen_hardware(_ROOT, self._config.environ):
            # A driver's file or an address on the bus alone is a container's view of its host.
            message = self._unused(hardware, decision) if hardware.is_open else ""
            if message:
                yield message
        known = {platform for row in known_hardware() for platform in row["platforms"]}
        for verdict in decision.verdicts:
            ref, state = verdict.candidate.ref, verdict.candidate.state
            if ref.platform in known or verdict.outcome is not Outcome.UNAVAILABLE:
                continue
            if isinstance(state, Unavailable) and self._shows_hardware(ref):
                what = f"hardware of platform {ref.platform!r}"
                yield _hardware_message(what, (), [_why(ref, state)])

    def _unused(self, hardware: SeenHardware, decision: Decision) -> str:
        verdicts = [v for v in decision.verdicts if v.candidate.ref.platform in hardware.platforms]
        policy = decision.policy
        is_ruled_out = any(name in policy.forbid for name in hardware.platforms) or (
            any(v.outcome is Outcome.EXCLUDED for v in verdicts)
        )
        if is_ruled_out or any(v.candidate in decision.usable for v in verdicts):
            return ""
        causes = [v.candidate for v in verdicts]
        if any(self._was_reported(candidate) for candidate in causes):
            return ""
        from devrt.plugins.discovery.known import advice_for  # seldom needed, and startup counts

        states = [(c.ref, c.state) for c in causes]
        reasons = [_why(r, state) for r, state in states if isinstance(state, Unavailable | Broken)]
        install = f"no installed backend serves it. Install one: {advice_for(hardware.wheel)}."
        return _hardware_message(hardware.name, hardware.evidence, reasons or [install])

    def _was_reported(self, candidate: Candidate) -> bool:
        """Return whether a warning of its own says why a backend is not used."""
        state = candidate.state
        if not isinstance(state, Broken):
            return False
        return (
            state.phase != _CLIENT or not self._plugins.resolve(candidate.ref).factory.fail_quietly
        )

    def _shows_hardware(self, ref: PluginRef) -> bool:
        manifest = self._plugins.manifest(ref)
        requires = () if manifest is None else manifest.requires
        return any(requirement.shows_hardware(_ROOT) for requirement in requires)


_OWN_SOURCES = (FROM_ENTRY_POINT, FROM_NAMESPACE)
_CLIENT = "client"
_CORRECT = "Correct the entry, or take it out."


def _log_decision(decision: Decision) -> None:
    for verdict in decision.verdicts:
        ref = verdict.candidate.ref
        log.debug("candidate %s (%s): %s", ref.name, verdict.outcome.value, verdict.reason)
    chosen = next((v for v in decision.verdicts if v.outcome is Outcome.CHOSEN), None)
    if chosen is None:
        log.info("no backend was chosen")
        return
    ref = chosen.candidate.ref
    log.info("platform %r is served by %s: %s", ref.platform, ref, chosen.reason)


def _named(ref: PluginRef, problem: str) -> str:
    """Return how a message about an entry of the environment begins."""
    if ENVIRONMENT_VARIABLE in problem:
        return ""
    file = ref.config or ref.library
    return f"{ENVIRONMENT_VARIABLE} names {file!r} for platform {ref.platform!r}, unused: "


def _file_problem(library: str) -> str:
    """Return what is wrong with the file of a library that is not opened yet; else empty."""
    if os.path.exists(library) and not os.path.isfile(library):
        return "it is no file"  # a pipe would be waited for
    try:
        with open(library, "rb") as file:
            head = file.read(4)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return "there is no such file" if missing else f"it cannot be read ({error.strerror})"
    return "" if head.startswith(_MAGIC) else "it is no shared library"


def _broken(decision: Decision) -> Iterator[str]:
    for verdict in decision.verdicts:
        ref, state = verdict.candidate.ref, verdict.candidate.state
        if not isinstance(state, Broken) or verdict.outcome is not Outcome.BROKEN:
            continue
        # What was made for others and has no backend for devrt is no fault. A client that fails and
        # the environment have warnings of their own.
        is_fault = ref.source in _OWN_SOURCES or not ref.problem
        if is_fault and ref.source != FROM_ENVIRONMENT and state.phase != _CLIENT:
            yield _why(ref, state)


def _why(ref: PluginRef, state: Unavailable | Broken) -> str:
    reason = state.reason.rstrip(" .")
    who = "" if str(ref) in reason else f"plugin {ref} for platform {ref.platform!r}: "
    remedy = "" if state.remedy in reason else f" {state.remedy}"
    return f"{who}{reason}.{remedy}"


def _is_free(decision: Decision) -> bool:
    """Return whether no setting says which platform to use."""
    policy, chosen = decision.policy, decision.chosen
    named = policy.default or policy.platforms
    return not named and chosen is not None and not any(map(chosen.answers_to, policy.prefer))


def _hardware_message(what: str, evidence: tuple[str, ...], reasons: list[str]) -> str:
    shown = f" ({', '.join(evidence[:3])})" if evidence else ""
    return (
        f"{what} is on this machine{shown}, and only the host's processor is used: "
        f"{' '.join(reasons)} DEVRT_PLATFORMS={_HOST} says that this is meant."
    )
