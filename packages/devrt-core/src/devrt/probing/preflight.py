"""What ``DEVRT_PROBE=isolated`` does before plugin code runs here: a child process runs it first.

Nothing is remembered from process to process: what failed may work now, and what worked may end
the process now. A child for each plugin is what that costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from devrt.errors import PluginLoadError
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.faults import usual_remedy
from devrt.plugins.loading.libraries import as_registered
from devrt.plugins.selection import Broken
from devrt.records import Available, ProbeResult, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devrt.plugins.loading.plugin import Backend
    from devrt.probing.isolated import ProbeReport

__all__ = ["Preflight", "state_of"]


class Preflight:
    """Tries plugins in child processes before this process does.

    ``isolation`` returns the seconds that a plugin may take; None to try nothing.
    """

    def __init__(self, isolation: Callable[[], float | None]) -> None:
        self._isolation = isolation

    def load(self, ref: PluginRef) -> None:
        """Let a child load and probe a plugin.

        Raises `PluginLoadError` if that failed there: it is not tried here.
        """
        timeout = self._timeout(ref)
        if timeout is None:
            return
        from devrt.probing.isolated import Level, probe_isolated

        state = state_of(ref, probe_isolated(ref, Level.LOAD, timeout=timeout))
        if isinstance(state, Broken):
            who = (
                "" if str(ref) in state.reason else f"plugin {ref} for platform {ref.platform!r}: "
            )
            msg = f"{who}{state.reason}."
            raise PluginLoadError(msg, phase=state.phase, remedy=state.remedy, **ref.facts())

    def client(self, backend: Backend, options: Mapping[str, Any]) -> Broken | None:
        """Let a child make a client; return what became of it if that failed.

        Not of a device that one process alone can hold, which this one is about to open.
        """
        ref = backend.ref
        timeout = None if backend.manifest.exclusive else self._timeout(ref)
        if timeout is None:
            return None
        from devrt.probing.isolated import Level, probe_isolated

        if backend.added is not None:
            ref = as_registered(backend.added)
        report = probe_isolated(ref, Level.CLIENT, timeout=timeout, options=options)
        state = state_of(ref, report)
        return state if isinstance(state, Broken) else None

    def entries(self, guesses: Sequence[PluginRef]) -> list[dict[str, Any]]:
        """Run modules made for JAX in children, whatever the isolation; see `run_entries`."""
        from devrt.probing.entries import run_entries

        return run_entries(guesses)

    def _timeout(self, ref: PluginRef) -> float | None:
        return self._isolation() if (ref.module or ref.library) and not ref.problem else None


def state_of(ref: PluginRef, report: ProbeReport) -> ProbeResult | Broken:
    """Return a report as the selection takes it."""
    if report.outcome == "ok":
        return Available(str(report.facts.get("detail", "")))
    if report.outcome == "unavailable":
        return Unavailable(report.detail, str(report.facts.get("remedy", "")))
    kind = report.facts.get("kind", "")
    if report.outcome == "raised" and kind != "start":
        remedy = str(report.facts.get("remedy") or _remedy(ref, report))
        message = str(report.facts.get("message", "")) or report.sentence()
        reason = message.removesuffix(remedy).rstrip(" .")
        reason = reason if kind in _NAMES_THE_CAUSE else report.sentence()
        phase = "contract" if kind in _CONTRACT else report.phase
        return Broken(phase, reason, remedy)
    usual = usual_remedy(ref)
    remedy = _REMEDIES.get(report.outcome, "{usual}").format(usual=usual)
    return Broken("probe", f"it {report.sentence()}", remedy)


def _remedy(ref: PluginRef, report: ProbeReport) -> str:
    if report.facts.get("kind") == "config":
        return "Correct the value, or unset it."
    missing = str(report.facts.get("missing", ""))
    if not missing or not ref.has_distribution:
        return usual_remedy(ref)
    from devrt.plugins.discovery.known import command_for_module  # only where something is wrong

    return f"Install it with: {command_for_module(ref.distribution, missing)}"


# Errors of devrt's own name the plugin and the cause in their message.
_CONTRACT = ("contract", "version", "manifest")
_NAMES_THE_CAUSE = (*_CONTRACT, "dependency", "import", "config")
_REMEDIES = {
    "timeout": ("Give it longer (DEVRT_INIT_TIMEOUT, devrt doctor --timeout). {usual}"),
    "raised": "Run `devrt doctor`; if it says the same, repair the Python installation.",
}
