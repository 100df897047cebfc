"""Modules made for JAX, each run in a child process against a stand-in for JAX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from devrt.plugins.adoption.unknown import REGISTERING
from devrt.plugins.discovery.refs import PluginRef
from devrt.probing.isolated import ask_child, verdict
from devrt.probing.parallel import Children, side_by_side

__all__ = ["run_entries"]

_SECONDS = 30.0


def run_entries(guesses: Sequence[PluginRef]) -> list[dict[str, Any]]:
    """Run entries' modules, several at once; return what `recording.RunEntries` is to return."""
    return side_by_side(_run, guesses, "devrt-record")


def _run(ref: PluginRef, children: Children) -> dict[str, Any]:
    """Return what a child saw; ``ended`` says how it ended where that was not a return."""
    nothing = {"registered": [], "missing": [], "environment": {}, "read": {}, "initializes": False}
    if not ref.has_distribution:  # a folder on the path, which anybody may have made
        why = "no installed distribution brings it, and no other module is run"
        return {**nothing, "ended": why, "is_kept": False}
    try:
        replies, code, timed_out, output = ask_child({"entry": ref.entry}, _SECONDS, children)
    except OSError as error:
        return {**nothing, "ended": f"no child process could be started: {error}", "is_kept": False}
    if replies.final is not None and "facts" in replies.final:
        facts = replies.final["facts"]
        where = "while it was imported" if not facts["initializes"] else "in its initialize()"
        ended = facts["error"] and f"it raised {facts['error']} {where}"
        if not ended and not facts["registered"]:
            ended = _refused(facts["missing"])
        return {**facts, "ended": ended, "is_kept": True}
    report = verdict(replies, code, timed_out, _SECONDS, output)
    kept = (replies.kept or {}).get("facts", nothing)
    return {**kept, "ended": f"it {report.sentence()}", "is_kept": report.phase != "start"}


def _refused(missing: Iterable[str]) -> str:
    """Return what a module that went on without it wanted to register with; empty if nothing."""
    refused = [name for name in missing if name.rpartition(".")[2] in REGISTERING]
    return f"it registers by {', '.join(refused)}, which is not known here" if refused else ""
