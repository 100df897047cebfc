"""What ``devrt cache`` shows and clears: the compiled programs in the disk cache."""

from __future__ import annotations

import datetime
import os
from typing import Any

from devrt.cli.tables import Output
from devrt.compiling.cache import CacheEntry, ExecutableCache, from_options
from devrt.errors import ConfigError
from devrt.records import CACHE_OPTIONS
from devrt.runtime import default_runtime

__all__ = ["clear", "contents", "show"]

_FACTS = ("name", "takes", "platform", "compile_seconds")
_SHOWN = 20  # programs in the table


def contents() -> dict[str, Any]:
    """Return what is kept.

    Keys: ``folder``, ``enabled``, ``max_bytes`` (-1: no bound), ``bytes``, ``entries`` (the last
    used first: path, bytes, used in seconds since the epoch, name, takes, platform,
    compile_seconds; those four are null where a file is damaged), ``problems``.
    """
    cache, is_enabled = _cache()
    entries = cache.entries()
    return {
        "folder": str(cache.folder),
        "enabled": is_enabled,
        "max_bytes": cache.max_bytes,
        "bytes": sum(entry.size for entry in entries),
        "entries": [_row(entry) for entry in entries],
        "problems": _problems(cache),
    }


def clear() -> dict[str, Any]:
    """Remove everything that is kept.

    Returns ``folder``, ``removed`` (how many programs) and ``problems`` (what could not be).
    """
    cache, _ = _cache()
    removed, problems = cache.clear()
    return {
        "folder": str(cache.folder),
        "removed": removed,
        "problems": _problems(cache) + problems,
    }


def show(report: dict[str, Any]) -> None:
    """Print what `contents` or `clear` returned."""
    out = Output()
    for problem in report["problems"]:
        Output(stderr=True).line(problem, "red")
    if "removed" in report:
        out.line(f"removed {_programs(report['removed'])} from {report['folder']}")
        return
    rows = [
        [
            row["name"] or "(damaged)",
            row["takes"] or "",
            row["platform"] or "",
            _size(row["bytes"]),
            "" if row["compile_seconds"] is None else f"{row['compile_seconds']:.2f} s",
            f"{datetime.datetime.fromtimestamp(row['used']):%Y-%m-%d %H:%M}",
        ]
        for row in report["entries"][:_SHOWN]
    ]
    if rows:
        out.table(("program", "takes", "platform", "size", "compiled in", "last used"), rows)
    if len(rows) < len(report["entries"]):
        out.line(f"and {len(report['entries']) - len(rows)} that were used before; see --json")
    bound = "no bound" if report["max_bytes"] < 0 else f"at most {_size(report['max_bytes'])}"
    state = "" if report["enabled"] else "; turned off (enable_compilation_cache)"
    count = _programs(len(report["entries"]))
    out.line(f"{count}, {_size(report['bytes'])}, {bound}{state}: {report['folder']}")


def _problems(cache: ExecutableCache) -> list[str]:
    folder = cache.folder
    is_folder = folder.is_dir() or not os.path.lexists(folder)
    return [] if is_folder else [f"{folder} is no folder, so nothing can be kept there"]


def _cache() -> tuple[ExecutableCache, bool]:
    config = default_runtime().config
    values = {spec.name: config.read(spec.name) for spec in CACHE_OPTIONS}
    is_enabled = from_options(values) is not None
    whole: dict[str, Any] = {"enable_compilation_cache": True}
    if values["compilation_cache_max_size"] == 0:
        whole["compilation_cache_max_size"] = -1
    cache = from_options(values | whole)
    if cache is None:
        msg = (
            "no cache directory is known, because you have no home directory. Set "
            "DEVRT_COMPILATION_CACHE_DIR or DEVRT_CACHE_DIR."
        )
        raise ConfigError(msg, option="compilation_cache_dir")
    return cache, is_enabled


def _row(entry: CacheEntry) -> dict[str, Any]:
    about = {name: entry.facts.get(name) for name in _FACTS}
    return {"path": entry.path, "bytes": entry.size, "used": entry.used, **about}


def _programs(count: int) -> str:
    return f"{count} program" + ("" if count == 1 else "s")


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
