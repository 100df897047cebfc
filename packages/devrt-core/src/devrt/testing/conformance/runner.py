"""The parent side of the conformance kit: child processes, their deadlines, and the report.

Nothing of the plugin is imported here. A child runs case after case, as this side asks for them;
where it ends or is late, the case that ran is what failed, and the next has a new child.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from devrt.errors import InvalidArgumentError
from devrt.plugins.discovery.refs import PluginRef
from devrt.probing.listening import Lines, Listener, last_lines, signal_name
from devrt.probing.replying import LOST_PIPE
from devrt.probing.starting import start
from devrt.testing.conformance.case import Case, check_level
from devrt.testing.conformance.cases import all_cases, library_cases
from devrt.testing.conformance.cases.latency import budget
from devrt.testing.conformance.clock import Queueing
from devrt.testing.conformance.report import CaseResult, Report, Status
from devrt.testing.conformance.subject import find_subject
from devrt.testing.conformance.surroundings import environment_facts, init_timeout, subject_facts
from devrt.testing.conformance.worker import DESCRIBE, END

__all__ = ["Worker", "chosen_cases", "conform"]

_START = 60.0  # seconds in which a child begins, on a machine that is busy
_CLIENT = 120.0
_DESCRIBE = 60.0
_LEAVE = 5.0  # seconds in which a child that has nothing to do ends


class _Replies(Lines):
    """What a child says: that it began, that it makes its client, what it notes, what came."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.begin()

    def begin(self) -> None:
        """Forget the case before."""
        self.phase = ""
        self.result: dict[str, Any] | None = None
        self.notes: dict[str, dict[str, None]] = {}  # by kind, in order, each once
        self.last_call = ""

    def take(self, message: dict[str, Any]) -> bool:
        if isinstance(message.get("phase"), str):
            self.phase = message["phase"]
        elif isinstance(message.get("result"), dict):
            self.result = message["result"]
        elif isinstance(message.get("note"), list):
            kind, what = message["note"]
            self.notes.setdefault(kind, {})[what] = None
            self.last_call = what if kind in ("called", "probed") else self.last_call
        else:
            return False
        return True


class _Child:
    """One child process, which runs a case at a time."""

    def __init__(self, reference: PluginRef, client_deadline: float) -> None:
        self._client_deadline = client_deadline
        self.replies = _Replies(secrets.token_hex(8))
        self._resources = contextlib.ExitStack()
        with contextlib.ExitStack() as at_failure, contextlib.ExitStack() as childs:
            at_failure.push(self._resources)
            cache = tempfile.TemporaryDirectory(prefix="devrt-conform-", ignore_cleanup_errors=True)
            replies, write_end = _pipe(self._resources, childs)
            requests, self._requests = _pipe(childs, self._resources)
            request = {
                "descriptor": write_end,
                "requests": requests,
                "token": self.replies.token,
                "ref": dataclasses.asdict(reference),
                "cache": self._resources.enter_context(cache),
            }
            worker = "devrt.testing.conformance.worker"
            self.process = start(worker, request, (write_end, requests))
            at_failure.pop_all()
        self._resources.enter_context(self.process)
        listener = Listener(self.process, replies, self.replies)
        self._listener = self._resources.enter_context(listener)

    def ask(
        self, what: str, deadline: float, no_client: str = ""
    ) -> tuple[dict[str, Any] | None, bool]:
        """Return what came of a case, None where the child ended; and whether it was in time."""
        self._listener.drain()
        self._listener.output.clear()
        self.replies.begin()
        with contextlib.suppress(BrokenPipeError):  # it ended, as will be seen
            os.write(self._requests, json.dumps([what, no_client]).encode() + b"\n")
        in_time = True
        while in_time and self.replies.result is None and not self._listener.has_ended():
            in_time = self._phase_ends(self.limit(deadline))
        if in_time:  # else a phase that begins only now would be reported as the late one
            self._listener.drain()
        return self.replies.result, in_time

    def limit(self, deadline: float) -> float:
        """Return the seconds for the phase that the child is in; ``deadline`` is the case's."""
        limits = {"": _START, "client": self._client_deadline}
        return limits.get(self.replies.phase, deadline)

    def _phase_ends(self, seconds: float) -> bool:
        """Listen until the phase that the child is in ends; return False if it is late."""
        replies, phase, queueing = self.replies, self.replies.phase, Queueing(self.process.pid)
        while not self._listener.listen(
            seconds, lambda: replies.result is not None or replies.phase != phase
        ):
            # For as long as a busy machine let it wait for a processor, the child has more time.
            seconds = queueing.more()
            if not seconds:
                return False
        return True

    def leave(self) -> bool:
        """Have the child end; return whether it had ended by itself, or does so otherwise."""
        self._listener.output.clear()
        self.replies.begin()
        had_ended = self._listener.has_ended()
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, json.dumps([END, ""]).encode() + b"\n")
        has_ended = self._listener.listen(_LEAVE)
        self.end()
        return had_ended or (has_ended and self.process.returncode != 0)

    def end(self) -> str:
        """Kill the child with its group; return the end of what it printed."""
        self._resources.close()
        return self.output()

    def output(self) -> str:
        """Return the end of what was printed since the last request."""
        return last_lines(bytes(self._listener.output))


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """Make a pipe whose ends are closed with one and the other of two stacks."""
    read_end, write_end = os.pipe()
    reader.callback(os.close, read_end)
    writer.callback(os.close, write_end)
    return read_end, write_end


class Worker:
    """Runs cases of one subject in child processes; leaving the ``with`` block ends them.

    Parameters
    ----------
    reference
        The plugin, as `devrt.testing.conformance.subject.find_subject` returns it.
    client_deadline
        Seconds in which its client is made, which no case's own time has to do with; when omitted,
        the option ``init_timeout``, what its manifest says as ``init_timeout``, or two minutes.

    Attributes
    ----------
    late : list of CaseResult
        New results of cases that had returned one when their child ended after all.
    """

    def __init__(self, reference: PluginRef, client_deadline: float | None = None) -> None:
        self.reference = reference
        self._client_deadline = client_deadline or init_timeout(reference) or _CLIENT
        self.late: list[CaseResult] = []
        self._child: _Child | None = None
        self._no_client = ""
        self._last: CaseResult | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if exc_info[0] is not None:  # an interrupt: nobody waits for what a case does late
            self._last = None
        self.close()

    def close(self) -> None:
        """End the child process. Idempotent."""
        child, last = self._child, self._last
        self._child = self._last = None
        if child is not None and last is not None and child.leave():
            self._end_late(child, last)
        elif child is not None:
            child.end()

    def run(self, case: Case) -> CaseResult:
        """Run one case, in the child of the earlier ones unless it asks for its own."""
        if case.alone:
            self.close()
        try:
            return self._run(case)
        finally:
            if case.alone:
                self.close()

    def describe(self) -> dict[str, Any]:
        """Return what a report says of the subject beyond its name; nothing if it ends in that."""
        try:
            child = self._living()
        except OSError as error:
            return {"problem": str(error)}
        facts, _ = child.ask(DESCRIBE, _DESCRIBE, self._no_client)
        if facts is None and self._last is not None and not child.replies.phase:
            self._end_late(child, self._last)
            return self.describe()
        if facts is None:
            self._last = None  # it is not a case that ended it
            self.close()
        return facts or {}

    def _living(self) -> _Child:
        if self._child is None:
            self._child = _Child(self.reference, self._client_deadline)
        return self._child

    def _run(self, case: Case) -> CaseResult:
        try:
            child = self._living()
        except OSError as error:
            came = f"no child process could be started: {error}"
            result = CaseResult(case.id, case.title, case.contract, Status.FAILED)
            return dataclasses.replace(result, expected="a child process", came=came)
        fields, in_time = child.ask(case.id, case.deadline, self._no_client)
        if fields is None and self._last is not None and not child.replies.phase:
            self._end_late(child, self._last)
            return self._run(case)
        notes = {kind: tuple(found) for kind, found in child.replies.notes.items()}
        result = CaseResult(case.id, case.title, case.contract, Status.PASSED, notes=notes)
        if fields is None:
            self._child = self._last = None
            output = child.end()
            ended = _ended(child, case.deadline, in_time)
            if child.replies.phase == "client":  # another try would take as long, in every case
                self._no_client = f"none: in {case.id} {ended['came']}"
            return dataclasses.replace(result, output=output, expected=case.title, **ended)
        fields = {**fields, "status": Status(fields["status"])}
        output = child.output() if fields["status"].is_failure else ""
        self._last = dataclasses.replace(result, output=output, **fields)
        return self._last

    def _end_late(self, child: _Child, last: CaseResult) -> None:
        """Keep that a child ended between two cases: of the one that ran last."""
        self._child = self._last = None
        output = child.end()
        ended = {**_ended(child, 0.0, True), "expected": last.title, "output": output}
        self.late.append(dataclasses.replace(last, **ended))


def _ended(child: _Child, deadline: float, in_time: bool) -> dict[str, Any]:
    """Return the fields of the result of a case in which the child ended, or had to be."""
    where = {"": "when the case was over", "client": "while its client was made"}
    when = where.get(child.replies.phase, "in the case")
    if child.replies.phase == "case" and child.replies.last_call:
        when = f"in {child.replies.last_call}"
    if not in_time:
        seconds = child.limit(deadline)
        came = f"it did not finish within {seconds:g} s, {when}"
        return {"status": Status.TIMED_OUT, "came": came, "seconds": seconds}
    code = child.process.returncode
    if code < 0:
        came = f"the process was killed by {signal_name(-code)} {when}"
    elif code == LOST_PIPE:
        came = f"the descriptor of the results was closed or replaced {when}"
    else:
        came = f"the process ended with exit code {code} {when}"
    return {"status": Status.CRASHED, "came": came}


def chosen_cases(
    reference: PluginRef, level: str | None = None, names: Iterable[str] = ()
) -> tuple[Case, ...]:
    """Return the cases of a level and of these ids that are for such a subject; all if omitted.

    Raises
    ------
    InvalidArgumentError
        If there is no such level or case, or a variable of the kit has a wrong value.
    """
    budget()  # a wrong value is the caller's mistake, and no fault of a backend
    wanted = list(names)
    of_libraries = library_cases() if reference.library else ()
    known = {case.id: case for case in (*all_cases(), *of_libraries)}
    check_level(level)
    for name in wanted:
        if name not in known:
            msg = f"there is no case {name!r}; devrt conform --list shows them."
            raise InvalidArgumentError(msg, case=name)
        if level not in (None, known[name].level):
            msg = f"the case {name!r} is of level {known[name].level!r}, not of {level!r}."
            raise InvalidArgumentError(msg, case=name, level=level)
    return tuple(
        case
        for case in known.values()
        if level in (None, case.level) and (not wanted or case.id in wanted)
    )


def conform(
    subject: str,
    level: str | None = None,
    *,
    cases: Iterable[str] = (),
    on_result: Callable[[CaseResult], object] = lambda result: None,
) -> Report:
    """Hold a backend to the contract and report what came.

    Parameters
    ----------
    subject
        A platform (``"acme"``), ``"platform@distribution"``, or the path of a PJRT library or of
        its configuration file.
    level
        One of `devrt.testing.conformance.LEVELS`; all of them when omitted.
    cases
        Ids of cases; all of the level when omitted.
    on_result
        Called with each result as it comes.

    Returns
    -------
    Report
        What came. Nothing is raised on the plugin's account, whatever it does.

    Raises
    ------
    UnknownPlatformError
        If there is no such plugin or library.
    InvalidArgumentError
        If there is no such level or case.
    """
    reference = find_subject(subject)
    results: dict[str, CaseResult] = {}
    with Worker(reference) as worker:
        for case in chosen_cases(reference, level, cases):
            results[case.id] = worker.run(case)
            on_result(results[case.id])
        described = worker.describe()
    results.update((late.id, late) for late in worker.late)
    facts = {**subject_facts(reference), **described}
    return Report(facts, environment_facts(), tuple(results.values()))
