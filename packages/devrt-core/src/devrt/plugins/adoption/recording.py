"""Finding out what modules made for JAX register: run once in a child, then in the disk cache.

Without the disk cache every start beside such a wheel would run a child for it. A verdict is kept
under a hash of the module's own files and holds for as long as the library, the files that it
imported, the variables that it read and the installed distributions are what they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from devrt._support.cache_files import cache_folder, write_atomically
from devrt._support.record import replaced
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.discovery.registered import Registered, digest_of
from devrt.plugins.discovery.sources import find_module, list_folder

__all__ = ["RunEntries", "settled"]

RunEntries = Callable[[Sequence[PluginRef]], list[dict[str, Any]]]
"""Runs the modules of entries in child processes; returns of each what it did, as plain data:

``registered``, ``missing``, ``environment``, ``read``, ``files`` and ``initializes``, as the
stand-in for JAX tells them; ``ended``, why it did not return, else empty; ``is_kept``, whether
that may go into the disk cache.
"""

_SCHEMA = 3
_MAX_FILES = 1000
_MAX_BYTES = 1 << 20
_NOTHING = Registered().text()


def settled(
    guesses: Sequence[PluginRef], run: RunEntries, *, retry: bool = False
) -> dict[PluginRef, tuple[PluginRef, ...]]:
    """Return by guess a reference for each platform that its module, which ``run`` runs, registers.

    Where that cannot be found out, the guess itself, which then says why. ``retry`` runs those
    again that failed before.
    """
    sources = {ref: _Sources(ref) for ref in guesses}
    found = {ref: _known(source, retry) for ref, source in sources.items()}
    unknown = [ref for ref, facts in found.items() if facts is None]
    for ref, facts in zip(unknown, run(unknown) if unknown else (), strict=True):
        found[ref] = facts
        _keep(sources[ref], facts)
    return {ref: _refs(ref, facts) for ref, facts in found.items() if facts is not None}


# -- what a verdict says --------------------------------------------------------------------------


def _refs(guess: PluginRef, facts: Mapping[str, Any]) -> tuple[PluginRef, ...]:
    listed = facts["registered"]
    if listed:
        return tuple(_ref(guess, one, facts) for one in listed)
    if facts["ended"]:
        missing = ", ".join(facts["missing"])
        lacks = f" (of JAX it requested {missing})" if missing else ""
        known = Registered(failed=f"{facts['ended']}{lacks}")
        problem = guess.problem and f"{guess.problem}; run in a child process, {known.failed}"
        return (replaced(guess, problem=problem, registered=known.text()),)
    if guess.library and not facts["initializes"]:
        return (replaced(guess, registered=_NOTHING),)  # it only marks where the library is
    return (replaced(guess, library="", problem="", registered=_NOTHING),)


def _ref(guess: PluginRef, one: Mapping[str, Any], facts: Mapping[str, Any]) -> PluginRef:
    known = Registered(
        priority=one["priority"],
        options=one.get("options", {}),
        lost=tuple(one.get("lost", ())),
        environment=facts["environment"],
        ended=facts["ended"],
        unknown_library=one["unknown_library"],
    )
    library = one["library"] or guess.library
    problem = "" if library else f"{guess.problem}; {known.unknown_library}"
    text = known.text()
    return replaced(guess, platform=one["name"], library=library, problem=problem, registered=text)


# -- the disk cache -------------------------------------------------------------------------------


class _Sources:
    """The files of an entry's own module, and the verdict's place on disk."""

    def __init__(self, ref: PluginRef) -> None:
        self.ref = ref
        self.texts = dict(_own_files(ref.entry))

    def are_empty(self) -> bool:
        """Return whether they are there and hold no line of code."""
        lines = (line.strip() for data in self.texts.values() for line in data.splitlines())
        return bool(self.texts) and all(not line or line.startswith(b"#") for line in lines)

    def path(self) -> Path | None:
        fixed = [_SCHEMA, sys.version, self.ref.entry, str(self.ref), _identity(self.ref.library)]
        digest = hashlib.sha256(repr(fixed).encode(errors="surrogateescape"))
        for name, data in sorted(self.texts.items()):
            digest.update(f"{name}\0{len(data)}\0".encode(errors="surrogateescape") + data)
        try:
            return cache_folder() / "registrations" / f"{digest.hexdigest()[:40]}.json"
        except RuntimeError:  # no home
            return None


def _own_files(entry: str) -> Iterator[tuple[str, bytes]]:
    """Yield the Python files of a module, found without importing it."""
    top, *rest = entry.partition(":")[0].split(".")
    spec = find_module(top)
    bases = list(spec.submodule_search_locations or ()) if spec is not None else []
    if spec is not None and not bases and spec.origin:
        bases = [spec.origin]
    for base in bases:
        place = os.path.join(base, *rest)
        names = [place, f"{place}.py"] if os.path.splitext(place)[1] != ".py" else [place]
        for path in (p for name in names for p in _python_files(name)):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                yield os.path.relpath(path, base), file.read()


def _python_files(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
    count = 0
    for root, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(name for name in files if name.endswith(".py")):
            count += 1
            if count > _MAX_FILES:
                return
            yield os.path.join(root, name)


def _known(source: _Sources, retry: bool) -> dict[str, Any] | None:
    if source.are_empty():  # they only mark where the library is
        return {"registered": [], "missing": [], "ended": "", "initializes": False}
    path = source.path()
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            data = json.loads(file.read(_MAX_BYTES))
        facts: dict[str, Any] = data["facts"]
        depends = data["depends"]
        is_same = depends == _depends(depends["read"], depends["files"])
        return facts if is_same and not (retry and facts["ended"]) else None
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None


def _keep(source: _Sources, facts: dict[str, Any]) -> None:
    path = source.path()
    if path is None or not facts.pop("is_kept"):
        return
    read, files = facts.pop("read"), facts.pop("files", ())
    depends = _depends(read, files) | {"read": read}
    with contextlib.suppress(OSError, TypeError, ValueError):
        write_atomically(path, json.dumps({"depends": depends, "facts": facts}).encode())


def _depends(read: Iterable[str], files: Iterable[str]) -> dict[str, Any]:
    """Return what a verdict depends on as it is now."""
    infos = (info for folder in sys.path for info in list_folder(folder or os.curdir, ()).infos)
    return {
        "read": {name: digest_of(os.environ.get(name)) for name in read},
        "files": {name: _identity(name) for name in files},
        "installed": digest_of("\n".join(dict.fromkeys(map(os.path.basename, infos)))),
    }


def _identity(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns]
