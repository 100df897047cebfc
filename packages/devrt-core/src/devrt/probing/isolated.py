"""Probing a plugin in a child process, where nothing that it does can reach this one.

The child is the leader of a session of its own and is killed with all of its group when the
deadline passes or its answer is there. It answers on a pipe of its own, in lines that begin with a
token; what it prints is kept apart, and of both only a bounded part is held in memory.

Only probing is isolated. A backend that is used runs in the user's own process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from devrt.plugins.discovery.installed import PluginRef
from devrt.probing import child as _child
from devrt.probing.listening import Replies, last_lines, listen, signal_name
from devrt.probing.parallel import Children, side_by_side
from devrt.probing.replying import LOST_PIPE
from devrt.probing.starting import start

__all__ = [
    "Level",
    "ProbeReport",
    "ProbeRequest",
    "ask_child",
    "probe_all",
    "probe_isolated",
    "verdict",
]


class Level(enum.IntEnum):
    """How far an isolated probe goes."""

    METADATA = 0
    """Nothing of the plugin runs."""
    LOAD = 1
    """The module is imported and its ``probe()`` called; a PJRT library is opened."""
    CLIENT = 2
    """A client is made, its devices counted, and it is closed again."""


_WHERE = {
    "start": "before it was loaded",
    "load": "while it was loaded",
    "initialize": "in its initialize()",
    "probe": "in its probe",
    "client": "while it made its client",
    "findings": "while its findings were collected",
}


@dataclasses.dataclass(frozen=True, slots=True)
class ProbeReport:
    """What became of an isolated probe.

    ``outcome`` is ``"ok"``, ``"unavailable"``, ``"raised"``, ``"signal"``, ``"exited"``,
    ``"timeout"`` or ``"garbled"``, and ``phase`` where it ended: ``"start"``, ``"load"``,
    ``"probe"`` or ``"client"``. ``detail`` is the signal's name, the exit code, the deadline, or
    the error's type and message; ``facts`` what the plugin reported of itself, or after an error
    its ``kind`` and further fields; ``output`` the last lines that it printed, or the Python stack
    that it crashed in. ``findings`` are what the plugin reported to the doctor, or what kept it
    from that; None without a request.
    """

    outcome: str
    phase: str
    detail: str = ""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    output: str = ""
    findings: tuple[Mapping[str, str], ...] | str | None = None

    @property
    def is_ok(self) -> bool:
        """Whether the plugin did all that was requested and can be used."""
        return self.outcome == "ok"

    def sentence(self) -> str:
        """Return what happened as a clause, without the plugin's name."""
        where = _WHERE.get(self.phase, self.phase)
        what = {
            "ok": "works",
            "unavailable": self.detail,
            "raised": f"raised {self.detail} {where}",
            "signal": f"was killed by {self.detail} {where}",
            "exited": f"ended the process with exit code {self.detail} {where}",
            "timeout": f"did not finish within {self.detail} {where}",
            "garbled": f"spoiled the pipe that its answer goes through {where}",
        }
        return what.get(self.outcome, self.outcome)


@dataclasses.dataclass(frozen=True, slots=True)
class ProbeRequest:
    """One plugin to examine, how far, and for how many seconds.

    ``options`` are values for its client's options; others come from the environment. ``findings``
    asks it for what it has to say to the doctor, at the end and whatever came out.
    """

    ref: PluginRef
    level: Level
    timeout: float
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    findings: bool = False


def probe_isolated(
    ref: PluginRef,
    level: Level,
    *,
    timeout: float,
    options: Mapping[str, Any] | None = None,
    findings: bool = False,
) -> ProbeReport:
    """Examine a plugin in a child process, as `ProbeRequest` says; safe from several threads.

    Nothing is raised on the plugin's account, whatever it does.
    """
    return _do(ProbeRequest(ref, level, timeout, dict(options or {}), findings), Children())


def probe_all(requests: Iterable[ProbeRequest]) -> list[ProbeReport]:
    """Examine several plugins side by side, each with its own deadline; answers in order."""
    return side_by_side(_do, list(requests), "devrt-probe")


def _do(request: ProbeRequest, children: Children) -> ProbeReport:
    if request.level is Level.METADATA:
        return ProbeReport("ok", "start")
    try:
        return _probe(request, children)
    except OSError as error:
        why = f"{type(error).__name__}: {error}" if error.errno else str(error)
        return ProbeReport("raised", "start", why, {"kind": "start"})


def _probe(wanted: ProbeRequest, children: Children) -> ProbeReport:
    fields = {
        "level": int(wanted.level),
        "options": {n: value for n, value in wanted.options.items() if _is_plain(value)},
        "findings": wanted.findings,
        "ref": dataclasses.asdict(wanted.ref),
    }
    replies, code, timed_out, shown = ask_child(fields, wanted.timeout, children)
    if replies.kept is None:
        return verdict(replies, code, timed_out, wanted.timeout, shown)
    return _with_findings(replies, code, timed_out, wanted.timeout, shown)


def ask_child(
    fields: Mapping[str, Any], timeout: float, children: Children
) -> tuple[Replies, int, bool, str]:
    """Put a request to a child process and listen to it until it ends or the time is over.

    Returns what it replied, its exit code, whether it had to be stopped, and the end of what it
    printed. Raises `OSError` if it cannot be started.
    """
    if _child.is_running:  # a plugin that asks devrt while it is tried would begin another circle
        raise OSError("this process is itself a child that tries a plugin")
    replies = Replies(secrets.token_hex(8))
    with contextlib.ExitStack() as ends:
        read_end, write_end = os.pipe()
        ends.callback(os.close, read_end)
        try:
            request = {"descriptor": write_end, "token": replies.token, **fields}
            child = ends.enter_context(start("devrt.probing.child", request, (write_end,)))
        finally:
            os.close(write_end)
        ends.enter_context(children.holding(child))
        output, timed_out = listen(child, read_end, replies, timeout)
    return replies, child.returncode, timed_out, last_lines(output)


def _with_findings(
    replies: Replies, code: int, timed_out: bool, timeout: float, output: str
) -> ProbeReport:
    """Return the verdict that was kept, with the findings, or how the request for them ended."""
    findings: Any
    if replies.final is not None and not timed_out:
        given = replies.final.get("findings")
        if given is None:  # what it reported was refused
            given = f"{replies.final.get('error')}: {replies.final.get('message')}"
        findings = tuple(given) if isinstance(given, list) else str(given)
    else:
        ended = verdict(replies, code, timed_out, timeout, output)
        findings = dataclasses.replace(ended, phase="findings").sentence()
    replies.final = replies.kept
    kept = verdict(replies, 0, False, timeout, output)
    return dataclasses.replace(kept, findings=findings)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def verdict(
    replies: Replies, code: int, timed_out: bool, timeout: float, output: str
) -> ProbeReport:
    """Return what became of a child that `ask_child` listened to."""
    phase, final = replies.phase, replies.final
    if timed_out:
        return ProbeReport("timeout", phase, f"{timeout:g} s", output=output)
    if final is None:
        return _died(replies, code, output)
    if "error" in final:
        detail = f"{final['error']}: {final.get('message', '')}"
        keys = ("kind", "missing", "upgrade", "remedy", "message")
        facts = {key: str(final.get(key, "")) for key in keys}
        return ProbeReport("raised", phase, detail, facts, output)
    facts = final["facts"]
    if facts.get("unavailable"):
        return ProbeReport("unavailable", phase, str(facts["unavailable"]), facts, output)
    return ProbeReport("ok", phase, "", facts, output)


def _died(replies: Replies, code: int, output: str) -> ProbeReport:
    if code < 0:
        return ProbeReport("signal", replies.phase, signal_name(-code), output=output)
    if code == LOST_PIPE or (code == 0 and replies.saw_garbage):
        return ProbeReport("garbled", replies.phase, str(code), output=output)
    if replies.phase == "start":
        why = f"the child process ended with exit code {code}: {output or 'it printed nothing'}"
        return ProbeReport("raised", "start", why, {"kind": "start"}, output)
    return ProbeReport("exited", replies.phase, str(code), output=output)
