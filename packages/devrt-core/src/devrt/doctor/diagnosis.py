"""The doctor itself: one examination, and its findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from devrt.contract.installation import install_command, loader_wheel
from devrt.doctor import environment
from devrt.doctor.cluster import cluster_findings, seen_job
from devrt.doctor.examination import REQUEST, Examination, Examined, examine
from devrt.doctor.findings import Finding
from devrt.doctor.hardware import hardware_findings, seen_hardware
from devrt.doctor.plugin_entries import entries
from devrt.doctor.plugin_findings import plugin_findings
from devrt.doctor.records import PluginEntry, Report
from devrt.doctor.registrations import registration_findings
from devrt.errors import ConfigError
from devrt.plugins import Broken
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.discovery.known import command_for, command_for_module, wheels_for
from devrt.probing.isolated import Level, ProbeReport
from devrt.records import Unavailable
from devrt.runtime import Runtime, default_runtime

__all__ = ["diagnose"]

_ORDER = {"error": 0, "warning": 1, "info": 2}
_BY_OUTCOME = {
    "signal": "plugin-crashed",
    "exited": "plugin-exited",
    "timeout": "plugin-hung",
    "garbled": "plugin-garbled",
}
_BY_KIND = {
    "dependency": "plugin-missing-dependency",
    "import": "plugin-import-failed",
    "contract": "plugin-contract",
    "version": "version-mismatch",
    "manifest": "plugin-manifest-invalid",
    "config": "env-malformed",
    "start": "probe-not-started",
}
_BY_PHASE = {"probe": "plugin-probe-failed", "client": "plugin-client-failed"}
_NO_SUCH_LIBRARY = "cannot open shared object file"


def diagnose(
    *,
    runtime: Runtime | None = None,
    level: Level | str | None = None,
    platforms: Sequence[str] | str | None = None,
    timeout: float | None = None,
    root: Path = Path("/"),
) -> Report:
    """Examine every plugin in child processes and say what is right and wrong, and what to do.

    Nothing of a plugin runs in this process, and nothing is raised on a plugin's account.

    Parameters
    ----------
    runtime
        Whose plugins and configuration; the default one when omitted.
    level
        ``"metadata"`` runs nothing, ``"load"`` imports each plugin and calls its probe,
        ``"client"`` makes and closes a client. When omitted: the client, but for devices that only
        one process can hold at a time (``exclusive`` in the manifest) no more than ``"load"``.
    platforms
        Ask for these platforms instead of for the default; a string lists them with commas.
    timeout
        Seconds for each plugin; what its manifest says, or what suits the level, when omitted.
    root
        The folder that counts as the root of the file system when hardware is looked for.

    Raises
    ------
    ValueError
        If ``level`` is none of the three.
    """
    runtime = default_runtime() if runtime is None else runtime
    environment.read_quietly(runtime.config)
    found = examine(
        runtime,
        platforms=(platforms,) if isinstance(platforms, str) else tuple(platforms or ()),
        level=_level(level),
        timeout=timeout,
        findings=True,
    )
    rows = entries(found)
    hardware = seen_hardware(root)
    options = sorted({name for row in rows for name in row.facts.get("options", ())})
    declared = runtime.plugins.variables() if rows else {}  # none where they cannot be listed
    variables = environment.variables_in_force(runtime.config, options, declared=declared)
    job = seen_job(runtime.config.environ)
    findings = [
        *_trouble(found),
        *(finding for row in rows for finding in _of_plugin(row, found)),
        *(finding for examined in found.examined for finding in plugin_findings(examined)),
        *(finding for e in found.examined for finding in registration_findings(e.ref)),
        *_of_this_process(runtime),
        *_of_default(found),
        *_of_global_symbols(rows),
        *hardware_findings(hardware, {row.platform for row in rows}),
        *environment.environment_findings(runtime.config, variables, options, _unasked(rows)),
        *cluster_findings(job),
    ]
    chosen = found.chosen
    why_none = found.problem or found.undecided
    return Report(
        default=chosen.ref.name if chosen is not None else "",
        default_reason=next((r.reason for r in rows if r.state == "chosen"), why_none),
        platforms=found.policy.platforms,
        policy_source=found.policy.source if found.policy.platforms else "",
        plugins=rows,
        hardware=hardware,
        environment=variables,
        settings=environment.settings_in_force(runtime.config),
        versions=environment.versions(),
        findings=_sorted(findings),
        is_undecided=bool(found.undecided),
        job=job,
    )


def _level(level: Level | str | None) -> Level | None:
    if level is None or isinstance(level, Level):
        return level
    try:
        return Level[level.upper()]
    except KeyError:
        names = ", ".join(repr(known.name.lower()) for known in Level)
        msg = f"there is no level {level!r} to examine plugins at; levels are {names}."
        raise ValueError(msg) from None


def _sorted(findings: list[Finding]) -> tuple[Finding, ...]:
    unique = {(f.code, f.subject, "/" in f.code and f.message): f for f in reversed(findings)}
    return tuple(
        sorted(unique.values(), key=lambda f: (_ORDER[f.severity], f.code, f.subject, f.message))
    )


def _unasked(rows: Sequence[PluginEntry]) -> set[str]:
    return {row.platform for row in rows if "options" not in row.facts}


def _trouble(found: Examination) -> Iterator[Finding]:
    for error in found.trouble:
        if isinstance(error, ConfigError):
            yield environment.config_finding(error)
        else:
            remedy = "Look at the distributions on sys.path; reinstall the one that is damaged."
            yield Finding("discovery-failed", "plugins", error.message, remedy, "pip check")


def _of_plugin(row: PluginEntry, found: Examination) -> Iterator[Finding]:
    examined = next(
        e for e in found.examined if e.ref.name == row.name and e.ref.module == row.module
    )
    state = examined.candidate.state if examined.candidate is not None else None
    if examined.refused:
        for message in examined.refused.splitlines():
            yield environment.refused_value(message, row.name)
    elif isinstance(state, Broken):
        yield _broken(row, examined, state)
    elif row.state == "excluded" and row.reason.startswith(REQUEST):
        return  # as requested
    elif row.state == "excluded":
        remedy = f"Nothing, or allow {row.platform!r} as well."
        yield Finding("platform-excluded", row.name, f"{row.reason.rstrip('.')}.", remedy)
    elif row.state == "unavailable":
        message = f"{row.reason.rstrip('.')}."
        table = adopted_table()
        command = install_command(loader_wheel()) if row.remedy == table.loader_remedy else ""
        yield Finding("platform-unavailable", row.name, message, row.remedy, command)
    elif row.state == "shadowed" and not _is_brought_library(examined, found):
        remedy = f"Uninstall one of the two, or ask for {row.name!r} by its full name."
        yield Finding("platform-duplicate", row.name, f"{row.reason}.", remedy)


def _is_brought_library(examined: Examined, found: Examination) -> bool:
    """Return whether it is a wheel made for others whose library a backend of devrt's may use."""
    others = (e for e in found.examined if e.ref.platform == examined.ref.platform)
    return examined.ref.is_adopted and any(not e.ref.is_adopted for e in others)


def _of_this_process(runtime: Runtime) -> Iterator[Finding]:
    """Yield what failed here before, which no child process can know."""
    for ref, error in runtime.failures().items():
        remedy = "Fix the cause, then call devrt.clear_backends() to have it tried again."
        message = f"in this process {error.message}"
        yield Finding("plugin-failed-here", ref.name, message, remedy)


def _broken(row: PluginEntry, examined: Examined, state: Broken) -> Finding:
    code = _code(examined)
    who = f"plugin {examined.ref} for platform {row.platform!r}"
    message = state.reason if row.distribution in state.reason else f"{who}: {state.reason}"
    return Finding(code, row.name, f"{message}.", state.remedy, _command(code, examined))


def _code(examined: Examined) -> str:
    report = examined.report
    if report is None:
        from_environment = "environment" in examined.ref.source
        if examined.ref.problem:
            return "env-malformed" if from_environment else "plugin-contract"
        if examined.manifest_error is not None:
            other = getattr(examined.manifest_error, "api_version", None)
            return "plugin-manifest-invalid" if other is None else "version-mismatch"
        state = examined.candidate.state if examined.candidate is not None else None
        phase = state.phase if isinstance(state, Broken) else ""
        return {"contract": "plugin-contract", **_BY_PHASE}.get(phase, "plugin-import-failed")
    if report.outcome in _BY_OUTCOME:
        return _BY_OUTCOME[report.outcome]
    kind = str(report.facts.get("kind", ""))
    if kind == "other" or (kind == "import" and report.phase != "load"):
        return _raised(report)
    return _BY_KIND.get(kind, "plugin-import-failed")


def _raised(report: ProbeReport) -> str:
    if report.phase in _BY_PHASE:
        return _BY_PHASE[report.phase]
    if _NO_SUCH_LIBRARY in report.detail:
        return "plugin-missing-dependency"
    return "plugin-import-failed"


def _command(code: str, examined: Examined) -> str:
    distribution = examined.ref.distribution
    if code in ("env-malformed", "probe-not-started") or not examined.ref.has_distribution:
        return ""
    if code == "plugin-missing-dependency":
        known = examined.report.facts if examined.report is not None else {}
        return command_for_module(distribution, str(known.get("missing", "")) or distribution)
    if code == "plugin-hung":
        return f"devrt doctor --platform {examined.ref.platform} --timeout 300"
    return install_command(_too_old(examined) or distribution, options="--upgrade")


def _too_old(examined: Examined) -> str:
    """Return which distribution a mismatch of contracts or schemas says to upgrade, if one."""
    known = examined.report.facts if examined.report is not None else {}
    return str(known.get("upgrade", "") or getattr(examined.manifest_error, "upgrade", ""))


def _of_default(found: Examination) -> Iterator[Finding]:
    if found.trouble or found.undecided or found.chosen is not None:
        return  # or reported already
    why = found.problem
    if not found.examined:
        remedy = "Install one; the one for the host's own processor is devrt-cpu."
        message = f"{why.partition('. ')[0].rstrip('.')}."
        yield Finding("no-backend", "default", message, remedy, command_for("devrt-cpu"))
        return
    source = found.policy.source if found.policy.platforms else ""
    install = _install_unknown(found) or _install_host(found)
    command = install or (f"unset {source}" if source.isupper() else "")
    remedy = _what_to_do(found, can_install=bool(install))
    remedy += f", or allow another platform ({source})." if source else "."
    yield Finding("default-failed", "default", f"{why.rstrip('.')}.", remedy, command)


def _what_to_do(found: Examination, *, can_install: bool) -> str:
    if found.decision is None or not found.decision.unknown:
        return "Fix one of these causes" + (", or use the host's processor" if can_install else "")
    return "Install what serves it" if can_install else "Ask for a platform that is installed"


def _install_unknown(found: Examination) -> str:
    """Return what installs the platform that was requested and that nothing installed serves."""
    unknown = found.decision.unknown if found.decision is not None else ()
    wheels = wheels_for(unknown[0]) if unknown else ()
    return command_for(wheels[0]) if wheels else ""


def _install_host(found: Examination) -> str:
    """Return what installs the host's backend, where any will do and no other is broken."""
    if found.decision is None or found.decision.policy.platforms or found.policy.needed:
        return ""
    candidates = [v.candidate for v in found.decision.verdicts]
    is_last = all(isinstance(c.state, Unavailable) and c.ref.platform != "cpu" for c in candidates)
    return command_for("devrt-cpu") if is_last else ""


def _of_global_symbols(rows: Sequence[PluginEntry]) -> Iterator[Finding]:
    found = [row for row in rows if row.facts.get("global_symbols")]
    for row in found:
        message = (
            f"the library of {row.name} is opened with its symbols visible to every other one "
            "(global_symbols), as its plugin, or who registered it, asks."
        )
        remedy = "Leave the declaration out where the library works without it."
        yield Finding("library-opened-globally", row.name, message, remedy)
    if len(found) > 1:
        message = (
            f"{len(found)} libraries are opened with global symbols: "
            f"{', '.join(row.name for row in found)}. What one of them defines shadows "
            "what another defines under the same name."
        )
        remedy = "Use them in different processes, or declare global_symbols for one only."
        yield Finding("libraries-share-symbols", "plugins", message, remedy)
