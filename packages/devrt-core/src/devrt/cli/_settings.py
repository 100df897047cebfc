"""What ``devrt config`` shows: every option, its value, and where that comes from."""

from __future__ import annotations

from typing import Any

from devrt.cli._tables import console, plain, table_of
from devrt.runtime import default_runtime

__all__ = ["settings", "show"]


def settings() -> dict[str, Any]:
    """Return every option of the core and of the plugins that may be used.

    Keys: ``options`` (list of name, value, origin, detail, help), ``files`` (paths, the strongest
    first), ``unread`` (``DEVRT_`` variables that are no option's).
    """
    runtime = default_runtime()
    runtime.load_options()
    config = runtime.config
    rows = []
    for name in config.names():
        setting = config.setting(name)
        value = setting.value
        is_plain = value is None or isinstance(value, bool | int | float | str)
        rows.append(
            {
                "name": name,
                "value": value if is_plain else str(value),
                "origin": setting.origin,
                "detail": setting.detail,
                "help": config.spec(name).help,
            }
        )
    files = [file.path for file in config.files()]
    return {"options": rows, "files": files, "unread": list(config.unread())}


def show(report: dict[str, Any]) -> None:
    """Print the options as a table, the files that were read, and variables that nobody reads."""
    table = table_of("option", "value", "origin", "help")
    for row in report["options"]:
        value = "-" if row["value"] is None else plain(str(row["value"]))
        origin = " ".join(filter(None, (row["origin"], row["detail"])))
        table.add_row(row["name"], value, plain(origin), row["help"])
    out = console()
    out.print(table)
    for path in report["files"]:
        out.print(f"file: {path}", markup=False)
    for variable in report["unread"]:
        out.print(f"no option: {variable}", markup=False)
