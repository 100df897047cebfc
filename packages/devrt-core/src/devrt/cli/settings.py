"""What ``devrt config`` shows: every option, its value, and where that comes from."""

from __future__ import annotations

from typing import Any

from devrt.cli.tables import Output
from devrt.errors import ConfigError
from devrt.runtime import default_runtime

__all__ = ["settings", "show"]


def settings() -> dict[str, Any]:
    """Return every option of the core and of the plugins that may be used.

    Keys: ``options`` (list of name, value, origin, detail, help), ``files`` (paths, the strongest
    first), ``unread`` (``DEVRT_`` variables that are no option's), ``meant`` (for each of those
    that no plugin explains, the variables that it may stand for), ``problems`` (what is wrong with
    the values that are refused).
    """
    runtime = default_runtime()
    problems = []
    try:
        runtime.load_options()
    except ConfigError as error:  # what says which plugins may be used is wrong itself
        problems.append(error.message)
    config = runtime.config
    report = config.report()
    rows = [
        {
            "name": setting.name,
            "value": _shown(setting.value),
            "origin": setting.origin,
            "detail": setting.detail,
            "help": config.spec(setting.name).help,
        }
        for setting in report.settings
    ]
    problems += [error.message for error in report.problems]
    return {
        "options": rows,
        "files": report.files,
        "unread": list(config.unread()),
        "meant": dict(config.unread_with_hints()),
        "problems": list(dict.fromkeys(problems)),
    }


def _shown(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def show(report: dict[str, Any]) -> None:
    """Print the options as a table, the files that were read, and variables that nobody reads."""
    rows = [
        [
            row["name"],
            "-" if row["value"] is None else str(row["value"]),
            " ".join(filter(None, (row["origin"], row["detail"]))),
            row["help"],
        ]
        for row in report["options"]
    ]
    out = Output()
    out.table(("option", "value", "origin", "help"), rows)
    for path in report["files"]:
        out.line(f"file: {path}")
    for variable in report["unread"]:
        meant = " or ".join(report["meant"].get(variable, ()))
        out.line(f"no option: {variable}" + (f". Did you mean {meant}?" if meant else ""))
    for problem in report["problems"]:
        Output(stderr=True).line(problem, "red")
