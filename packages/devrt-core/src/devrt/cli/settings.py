"""What ``devrt config`` shows: every option, its value, and where that comes from."""

from __future__ import annotations

from typing import Any

from devrt.cli.tables import Output, human_bytes
from devrt.errors import ConfigError
from devrt.records import OptionSpec
from devrt.runtime import default_runtime

__all__ = ["settings", "show"]


def settings() -> dict[str, Any]:
    """Return every option of the core and of the plugins that may be used.

    Keys: ``options`` (list of name, value, origin, detail, help, unit; of one
    whose value is refused the origin is ``refused``), ``files`` (paths, the strongest
    first), ``unread`` (``DEVRT_`` variables that are no option's), ``meant`` (for each of those
    that no plugin explains, the variables that it may stand for), ``variables`` (what manifests
    say that plugins read beside them: name, value, about), ``problems`` (what is wrong with the
    values that are refused).
    """
    runtime = default_runtime()
    problems = []
    try:
        runtime.load_options()
    except ConfigError as error:  # what says which plugins may be used is wrong itself
        problems.append(error.message)
    config = runtime.config
    declared = runtime.plugins.variables()
    report = config.report()
    rows = [
        _row(config.spec(setting.name), setting.value, setting.origin, setting.detail)
        for setting in report.settings
    ]
    for refusal in report.problems:
        name = refusal.data.get("option")
        if name in config.names() and all(row["name"] != name for row in rows):
            rows.append(
                _row(config.spec(name), None, "refused", str(refusal.data.get("source", "")))
            )
    rows.sort(key=lambda row: row["name"])
    problems += [refusal.message for refusal in report.problems]
    return {
        "options": rows,
        "files": report.files,
        "unread": [name for name in config.unread() if name not in declared],
        "meant": {n: meant for n, meant in config.unread_with_hints() if n not in declared},
        "variables": [
            {"name": name, "value": config.environ.get(name), "about": list(about)}
            for name, about in declared.items()
        ],
        "problems": list(dict.fromkeys(problems)),
    }


def _row(spec: OptionSpec, value: object, origin: str, detail: str) -> dict[str, Any]:
    about = {"origin": origin, "detail": detail, "help": spec.help, "unit": spec.unit}
    return {"name": spec.name, "value": _shown(value), **about}


def _in_words(row: dict[str, Any]) -> str:
    """Return a value for the table; a large number of bytes with what it is in larger units."""
    value = row["value"]
    if row["unit"] == "bytes" and isinstance(value, int) and value >= 1024:
        return f"{value} ({human_bytes(value)})"
    return "-" if value is None else str(value)


def _shown(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def show(report: dict[str, Any]) -> None:
    """Print the options as a table, the files that were read, and variables that nobody reads."""
    rows = [
        [
            row["name"],
            _in_words(row),
            " ".join(filter(None, (row["origin"], row["detail"]))),
            row["help"],
        ]
        for row in report["options"]
    ]
    out = Output()
    out.table(("option", "value", "origin", "help"), rows)
    if report["variables"]:
        out.table(
            ("variable", "value", "read by"),
            [
                [
                    row["name"],
                    "-" if row["value"] is None else row["value"],
                    "; ".join(row["about"]),
                ]
                for row in report["variables"]
            ],
        )
    for path in report["files"]:
        out.line(f"file: {path}")
    for variable in report["unread"]:
        meant = " or ".join(report["meant"].get(variable, ()))
        out.line(f"no option: {variable}" + (f". Did you mean {meant}?" if meant else ""))
    for problem in report["problems"]:
        Output(stderr=True).line(f"devrt: ConfigError: {problem}", "red")
