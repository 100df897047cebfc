"""The doctor's report for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text as RichText

from devrt.cli.tables import STATE_STYLES, Output, plain
from devrt.doctor import Finding, PluginEntry, Report, Rule

__all__ = ["show"]

_SEVERITIES = {"error": "bold red", "warning": "yellow", "info": "dim"}
_MARKS = {True: ("+", "green"), False: ("x", "red"), None: ("-", "dim")}


def show(report: Report) -> None:
    """Print a report: the plugins with every rule, the surroundings, and what was found."""
    out = Output()
    _show_default(out, report)
    _show_plugins(out, report)
    _show_rules(out, report)
    _show_surroundings(out, report)
    _show_job(out, report)
    _show_findings(out, report)
    out.command(RichText.assemble("next: ", (report.next_command, "bold")))


def _text(words: str, style: str = "") -> RichText:
    return RichText(plain(words), style)


def _heading(out: Output, words: str) -> None:
    out.line()
    out.line(_text(words, "bold underline"))


def _show_default(out: Output, report: Report) -> None:
    if report.default:
        out.line(_text(f"default backend: {report.default}", "bold green"))
    elif report.is_undecided:
        out.line(_text("default backend: not known", "bold yellow"))
    else:
        out.line(_text("default backend: none", "bold red"))
    out.sentences(report.default_reason)
    if report.platforms:
        out.sentences(f"allowed: {', '.join(report.platforms)} ({report.policy_source})")


def _show_plugins(out: Output, report: Report) -> None:
    if not report.plugins:
        return
    _heading(out, "plugins")
    rows: list[list[str | RichText]] = [
        [
            row.platform,
            f"{row.distribution} {row.version}".strip(),
            _text(row.state, STATE_STYLES.get(row.state, "")),
            row.level,
            _devices(row),
            row.reason,
        ]
        for row in report.plugins
    ]
    out.table(("platform", "distribution", "state", "examined", "devices", "reason"), rows)
    for row in report.plugins:
        if row.facts.get("description"):
            out.sentences(f"{row.name} {row.facts['description']}", indent=0)


def _devices(row: PluginEntry) -> str:
    if "device_count" not in row.facts:
        return "-"
    return f"{row.facts['device_count']} x {', '.join(row.facts.get('device_kinds', ()))}"


def _show_rules(out: Output, report: Report) -> None:
    if not report.plugins:
        return
    _heading(out, "rules")
    rows: list[list[str | RichText]] = [
        [row.name, *(_mark(rule) for rule in row.rules)] for row in report.plugins
    ]
    out.table(("plugin", *(rule.rule for rule in report.plugins[0].rules)), rows)
    out.line(_text("+ passed, x failed, - not applied; the details are in --json", "dim"))


def _mark(rule: Rule) -> RichText:
    return RichText(*_MARKS[rule.passed])


def _show_surroundings(out: Output, report: Report) -> None:
    _heading(out, "hardware and environment")
    for seen in report.hardware:
        driver = f", driver: {seen.driver}" if seen.driver else ""
        out.line(_text(f"{seen.name}: {', '.join(seen.evidence)}{driver}"))
    if not report.hardware:
        out.line(_text("no accelerator that is known is visible on this machine"))
    for variable in report.environment:
        use = f" (option {variable.option})" if variable.option else ""
        unused = "" if variable.in_force else ", not in force: another source is stronger"
        about = f" ({'; '.join(variable.about)})" if variable.about else ""
        out.line(_text(f"{variable.name}={variable.value}{use}{unused}{about}"))
    for setting in report.settings:
        if setting["origin"] != "environment":
            out.line(_text(f"{setting['name']} = {setting['value']!r} ({setting['origin']})"))
    for line in _version_lines(report.versions):
        out.sentences(line, "dim", indent=0)


def _show_job(out: Output, report: Report) -> None:
    """Show which clusters are seen, by which variables, and what bring-up would use."""
    found, seen = report.job or (None, ())
    if found is None or not (found.values or seen):
        return
    _heading(out, "cluster")
    for number, cluster in enumerate(seen):
        unused = " (not used: another comes first)" if number else ""
        variables = ", ".join(f"{name}={value}" for name, value in cluster.variables.items())
        out.line(_text(f"{cluster.title}{unused}: {variables}"))
    missing = f"; missing: {', '.join(found.missing)}" if found.missing else ""
    out.line(_text(f"initialize() would use: {found.described() or 'nothing'}{missing}"))


def _version_lines(versions: Mapping[str, str]) -> Iterator[str]:
    """Yield what Python is there and on what system, and the distributions."""
    yield f"{versions['python']}: {versions['executable']}"
    yield versions["system"]
    about = ("python", "executable", "system", "machine")  # the last stands in the system's name
    yield ", ".join(f"{name} {version}" for name, version in versions.items() if name not in about)


def _show_findings(out: Output, report: Report) -> None:
    _heading(out, "findings")
    for finding in report.findings:
        _show_finding(out, finding, report)
    if not report.findings:
        out.line(_text("nothing is wrong", "green"))


def _show_finding(out: Output, finding: Finding, report: Report) -> None:
    style = _SEVERITIES[finding.severity]
    out.line(
        RichText.assemble(
            (f"{finding.severity} {finding.code}", style), f" {plain(finding.subject)}"
        )
    )
    for words in filter(None, (finding.message, finding.remedy)):
        out.sentences(words)
    if finding.command:
        out.command(f"  $ {finding.command}")
    printed = next((row.output for row in report.plugins if row.name == finding.subject), "")
    if finding.severity == "error" and printed:
        out.line(_text("  the last that it printed:", "dim"))
        for line in printed.splitlines():
            out.line(_text(f"  | {line}", "dim"))
