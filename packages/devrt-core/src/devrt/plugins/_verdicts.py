"""Verdicts of isolated probes, remembered in the user's cache directory.

One file for each verdict, named by a hash of everything that it depends on (`fingerprint`), so
that nothing in the cache is ever out of date, only unused. A file is written beside its place and
then moved there: readers see all of it or nothing, whoever else writes. What cannot be read or
written is left aside, and said once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from devrt._cache_files import FileHashes, cache_folder, write_atomically
from devrt._warn import warn
from devrt.errors import DevrtWarning
from devrt.plugins._discovery import PluginRef
from devrt.plugins._fingerprint import fingerprint, machine_state
from devrt.plugins._isolated import Level, ProbeReport, ProbeRequest, probe_all
from devrt.plugins._judging import usual_remedy
from devrt.plugins._selection import Broken
from devrt.records import Available, ProbeResult, Unavailable

__all__ = [
    "VerdictCache",
    "isolated_state",
    "probe_with_cache",
    "rehearsed",
    "state_of",
]

_SCHEMA = 1
_MAX_ENTRIES = 512
_MAX_BYTES = 1 << 18
_OUTCOMES = ("ok", "unavailable", "raised", "signal", "exited", "timeout", "garbled")
_FIELDS = ("outcome", "phase", "detail", "facts", "output")


class VerdictCache:
    """Remembers what isolated probes found. Safe among threads and processes.

    Parameters
    ----------
    folder
        Where to keep it; `cache_folder` when omitted.

    Attributes
    ----------
    problem : str
        What kept the cache from being used, the first time; empty if nothing did.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.problem = ""
        self._lock = threading.Lock()
        self._machine: str | None = None
        self._folder = folder
        if folder is None:
            try:
                self._folder = cache_folder()
            except RuntimeError as error:
                self._complain(f"no cache directory is known: {error}")
        self._hashes = FileHashes(self._folder / "hashes" if self._folder is not None else None)

    def get(self, request: ProbeRequest, manifest: str = "") -> ProbeReport | None:
        """Return the verdict on the same plugin in the same surroundings, if there is one."""
        path = self._path(request, manifest)
        data = self._load(path) if path is not None else None
        if data is None:
            return None
        report = _report(data)
        if report is None:
            self._complain(f"{path} is damaged or was written by something else")
        elif report.outcome == "timeout" and request.timeout > _number(data.get("timeout")):
            return None  # it has longer this time
        return report

    def put(self, request: ProbeRequest, report: ProbeReport, manifest: str = "") -> None:
        """Remember a verdict, unless it may be another one the next time."""
        path = self._path(request, manifest)
        if path is not None and _lasts(report):
            fields = {name: getattr(report, name) for name in _FIELDS}
            data = {
                **fields,
                "schema": _SCHEMA,
                "facts": dict(report.facts),
                "timeout": request.timeout,
            }
            self._store(path, data)

    def hash_of(self, path: Path) -> str:
        """Return the hash of a file's content; a large file is read once for as long as it stays.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        return self._hashes.of(path)

    def _path(self, request: ProbeRequest, manifest: str) -> Path | None:
        if self._folder is None:
            return None
        with self._lock:
            if self._machine is None:
                self._machine = machine_state()
        plugin = fingerprint(request.ref, self.hash_of, machine=self._machine, manifest=manifest)
        asked = [int(request.level), request.findings, sorted(request.options.items())]
        key = [_SCHEMA, _version(), *asked, plugin]
        return self._folder / "verdicts" / f"{_digest(repr(key))}.json"

    def _load(self, path: Path) -> dict[str, Any] | None:
        try:
            with path.open("rb") as file:
                data = json.loads(file.read(_MAX_BYTES + 1))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self._complain(f"{path} cannot be read: {error}")
            return None
        if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
            self._complain(f"{path} is damaged or was written by something else")
            return None
        return data

    def _store(self, path: Path, data: dict[str, Any]) -> None:
        try:
            write_atomically(path, json.dumps(data).encode())
            _prune(path.parent)
        except (OSError, TypeError, ValueError) as error:
            self._complain(f"{path.parent} cannot be written: {error}")

    def _complain(self, problem: str) -> None:
        with self._lock:
            self.problem = self.problem or problem


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("devrt-core")
    except metadata.PackageNotFoundError:
        return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:40]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _prune(folder: Path) -> None:
    """Remove the oldest files beyond the limit; others may be doing the same."""
    with os.scandir(folder) as entries:
        paths = [entry.path for entry in entries]
    if len(paths) <= _MAX_ENTRIES:
        return
    for path in sorted(paths, key=_age)[: len(paths) - _MAX_ENTRIES * 3 // 4]:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _age(path: str) -> tuple[float, str]:
    try:
        return os.stat(path).st_mtime, path
    except OSError:
        return 0.0, path


def _lasts(report: ProbeReport) -> bool:
    """Return whether the same probe would say the same: a device may be busy for a while.

    What a plugin says to the doctor may be about anything, and is asked for every time.
    """
    if report.findings is not None:
        return False
    if report.outcome == "raised":
        return report.phase == "load"
    return report.phase != "start"


def _report(data: Mapping[str, Any]) -> ProbeReport | None:
    texts = [data.get(name) for name in _FIELDS if name != "facts"]
    facts = data.get("facts")
    if not all(isinstance(text, str) for text in texts) or not isinstance(facts, dict):
        return None
    if data["outcome"] not in _OUTCOMES:
        return None
    return ProbeReport(**{name: data[name] for name in _FIELDS}, cached=True)


def probe_with_cache(
    requests: Iterable[ProbeRequest],
    cache: VerdictCache | None,
    *,
    fresh: bool = False,
    manifest_of: Callable[[PluginRef], str] = lambda ref: "",
) -> list[ProbeReport]:
    """Examine plugins side by side, those that are remembered without running them.

    Parameters
    ----------
    requests
        What to examine.
    cache
        Where verdicts are remembered; None remembers nothing.
    fresh
        Whether to probe also what is remembered.
    manifest_of
        Returns the text that stands for a plugin's manifest.
    """
    wanted = list(requests)
    if cache is None:
        return probe_all(wanted)
    known = [None if fresh else cache.get(r, manifest_of(r.ref)) for r in wanted]
    unknown = [request for request, report in zip(wanted, known, strict=True) if report is None]
    found = iter(probe_all(unknown))
    reports = []
    for request, remembered in zip(wanted, known, strict=True):
        report = remembered or next(found)
        if remembered is None:
            cache.put(request, report, manifest_of(request.ref))
        reports.append(report)
    return reports


def isolated_state(
    ref: PluginRef, timeout: float, *, cache: VerdictCache | None = None
) -> ProbeResult | Broken:
    """Load and probe a plugin in a child process and return what it may be used for here.

    Parameters
    ----------
    ref
        The plugin.
    timeout
        Seconds that it may take.
    cache
        Where verdicts are remembered; the user's when omitted. Where it cannot be used, one
        warning says so.
    """
    memory = VerdictCache() if cache is None else cache
    said = bool(memory.problem) and cache is not None
    (report,) = probe_with_cache([ProbeRequest(ref, Level.LOAD, timeout)], memory)
    if memory.problem and not said:
        warn(f"verdicts on plugins are not remembered: {memory.problem}.", DevrtWarning)
    return state_of(ref, report)


def rehearsed(
    ref: PluginRef, timeout: float, options: Mapping[str, Any], cache: VerdictCache
) -> Broken | None:
    """Make a client in a child process; return what became of it if that failed, else None.

    Parameters
    ----------
    ref
        The plugin.
    timeout
        Seconds that it may take.
    options
        Values of the client's options.
    cache
        Where verdicts are remembered.
    """
    (report,) = probe_with_cache([ProbeRequest(ref, Level.CLIENT, timeout, options)], cache)
    state = state_of(ref, report)
    return state if isinstance(state, Broken) else None


def state_of(ref: PluginRef, report: ProbeReport) -> ProbeResult | Broken:
    """Return a report as the selection takes it."""
    if report.outcome == "ok":
        return Available(str(report.facts.get("detail", "")))
    if report.outcome == "unavailable":
        return Unavailable(report.detail, str(report.facts.get("remedy", "")))
    kind = report.facts.get("kind", "")
    if report.outcome == "raised" and kind != "start":
        remedy = str(report.facts.get("remedy") or usual_remedy(ref))
        message = str(report.facts.get("message", "")) or report.sentence()
        reason = message.removesuffix(remedy).rstrip(" .")
        reason = reason if kind in _SPOKEN else report.sentence()
        phase = "contract" if kind in _CONTRACT else report.phase
        return Broken(phase, reason, remedy)
    remembered = ", as an earlier probe found" if report.cached else ""
    remedy = _REMEDIES.get(report.outcome, usual_remedy(ref)).format(ref=ref)
    return Broken("probe", f"it {report.sentence()}{remembered}", remedy)


# Errors of devrt's own name the plugin and the cause in their message.
_CONTRACT = ("contract", "version", "manifest")
_SPOKEN = (*_CONTRACT, "dependency", "import")
_REMEDIES = {
    "timeout": "Give it longer (devrt doctor --timeout), or uninstall {ref.distribution}.",
    "raised": "Run `devrt doctor --fresh`; if it stays, mend the Python installation.",
}
