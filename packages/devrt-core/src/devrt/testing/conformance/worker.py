"""The child side of the conformance kit: runs each case that its parent names, and reports it.

Requests and replies have a pipe each, which is neither standard input nor output: what a plugin
prints cannot be mistaken for a result, and what it reads takes no request away.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from devrt._support.words import words
from devrt.probing.replying import LOST_PIPE, Pipe, stay_harmless
from devrt.testing.conformance.cases import all_cases, library_cases
from devrt.testing.conformance.expect import Failure, NotApplicable
from devrt.testing.conformance.subject import Subject

if TYPE_CHECKING:
    from devrt.testing.conformance.case import Case

__all__ = ["main"]

DESCRIBE = "describe"
"""The request for what a report says of the subject, in place of a case."""

END = "end"
"""The request to end, in place of a case."""

_MAX_TEXT = 4000  # characters of a text of a plugin


def main(request: dict[str, Any]) -> NoReturn:
    """Run the cases that are requested, until there are no more requests."""
    stay_harmless(int(request["parent"]))
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # for the processes that cases start
    os.environ["DEVRT_COMPILATION_CACHE_DIR"] = request["cache"]  # the user's is not for cases
    os.environ["DEVRT_INIT_TIMEOUT"] = "1e6"  # the parent has the limit, and knows of busy machines
    pipe = Pipe(int(request["descriptor"]), request["token"])
    subject = _subject(
        request["ref"],
        lambda begins: pipe.say(phase="client" if begins else "case"),
        lambda kind, what: pipe.say(note=[kind, what]),
    )
    for wanted, subject.no_client in _requests(int(request["requests"])):
        if wanted == END:
            break
        case = None if wanted == DESCRIBE else _case(wanted)  # its imports are no time of its own
        pipe.say(phase="case")
        result = _described(subject) if case is None else _result(case, subject)
        _flush()
        pipe.say(result=result)
    os._exit(0)  # exit handlers and destructors are the subject of cases of their own


def _case(name: str) -> Case:
    """Return a case by its id; the loader of PJRT libraries is imported for its own cases only."""
    known = library_cases() if name.startswith("c_api.") else all_cases()
    return next(case for case in known if case.id == name)


def _subject(fields: Mapping[str, Any], at_client: Any, note: Any) -> Subject:
    from devrt.plugins.discovery.installed import installed_plugins
    from devrt.plugins.discovery.refs import FROM_ENVIRONMENT, PluginRef

    reference = PluginRef(**fields)
    if reference.source == FROM_ENVIRONMENT:
        path = (reference.config or reference.library).replace('"', '""')
        os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f'{reference.platform}:"{path}"'
    names = [reference.name if reference.has_distribution else reference.platform]
    # Copies between platforms are among what is seen to.
    names += ["cpu"] if any(ref.platform == "cpu" for ref in installed_plugins()) else []
    os.environ["DEVRT_PLATFORMS"] = ",".join(dict.fromkeys(names))
    return Subject(reference, at_client, note)


def _requests(descriptor: int) -> Iterator[tuple[str, str]]:
    """Yield the case that the parent asks for, and why no client is to be made, if so.

    Each is a line of JSON, until the parent closes its end.
    """
    partial = b""
    while True:
        try:
            chunk = os.read(descriptor, 1 << 12)
        except OSError:
            os._exit(LOST_PIPE)
        if not chunk:
            return
        *lines, partial = (partial + chunk).split(b"\n")
        yield from (json.loads(line) for line in lines)


def _result(case: Case, subject: Subject) -> dict[str, Any]:
    """Run one case; whatever plugin code raises is a result."""
    started = time.perf_counter()
    fields: dict[str, Any]
    try:
        fields = {"status": "passed", "came": case.check(subject) or ""}
    except NotApplicable as reason:
        fields = {"status": "not_applicable", "reason": words(reason)}
    except Failure as failure:
        fields = {"status": "failed", "expected": failure.expected, "came": failure.came}
    except BaseException as error:  # noqa: BLE001  plugin code: whatever it raises
        with contextlib.suppress(Exception):  # an exception of its own may not even print
            traceback.print_exception(error)
        came = f"{type(error).__name__}: {words(error)}"
        fields = {"status": "failed", "expected": case.title, "came": came}
    fields = {key: _fitting(value) for key, value in fields.items()}
    return {"seconds": time.perf_counter() - started, **fields}


def _fitting(text: object) -> str:
    """Return text of a plugin as reports can have it: of bounded length, and in UTF-8."""
    shown = str(text).encode("utf-8", "backslashreplace").decode()
    return shown if len(shown) <= _MAX_TEXT else f"{shown[:_MAX_TEXT]}... ({len(shown)} characters)"


def _described(subject: Subject) -> dict[str, Any]:
    """Return what a report says of the subject, as far as it can be had."""
    try:
        client = subject.client
        devices = client.devices()
        return {
            "platform_version": _fitting(client.platform_version),
            "device_count": len(devices),
            "device_kinds": sorted({_fitting(device.device_kind) for device in devices})[:16],
            "experimental": bool(subject.backend.factory.experimental),
        }
    except NotApplicable as reason:
        return {"problem": _fitting(words(reason))}
    except BaseException as error:  # noqa: BLE001  plugin code; a case says what is wrong
        return {"problem": _fitting(f"{type(error).__name__}: {words(error)}")}


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # plugin code may have closed or replaced it
            stream.flush()
