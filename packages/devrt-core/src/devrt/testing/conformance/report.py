"""What came of the cases: the report that a plugin ships, and what is new between two of them."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError
from devrt.testing.conformance.case import LEVELS
from devrt.testing.conformance.coverage import coverage

if TYPE_CHECKING:
    import os

__all__ = ["SCHEMA", "CaseResult", "Report", "Status"]

SCHEMA = 1
"""The version of the report's form."""


class Status(enum.StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    NOT_APPLICABLE = "not_applicable"

    @property
    def is_failure(self) -> bool:
        """Whether the backend is wrong."""
        return self in (Status.FAILED, Status.CRASHED, Status.TIMED_OUT)

    @property
    def words(self) -> str:
        """The status as a person reads it."""
        return self.value.replace("_", " ")


@dataclasses.dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case ended.

    ``expected`` and ``came`` say what is wrong; of a case that passed ``came`` are the figures
    that it measured. ``reason`` says why it does not apply, ``contract`` where the contract asks
    for it; ``output`` is the end of what was printed meanwhile, where it failed. ``notes`` is what
    the case noted, by kind: of a PJRT library, the functions of the C API that it ``called``.
    """

    id: str
    title: str
    contract: str
    status: Status
    seconds: float = 0.0
    expected: str = ""
    came: str = ""
    reason: str = ""
    output: str = ""
    notes: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def level(self) -> str:
        """The case's level."""
        return self.id.partition(".")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What came of the cases that ran.

    Attributes
    ----------
    subject : Mapping
        The plugin: ``platform``, ``distribution``, ``version``, ``library`` (the file's name) and
        ``library_sha256``, ``experimental``, ``platform_version``, ``device_count``,
        ``device_kinds``.
    environment : Mapping
        ``core`` and ``contract``, the versions of both, ``python``, ``system``, ``machine``; and
        ``ended_early``, the signal that ended the run, where one did.
    results : tuple of CaseResult
        Each case, in the order in which they ran.
    """

    subject: Mapping[str, Any]
    environment: Mapping[str, Any]
    results: tuple[CaseResult, ...]

    @property
    def name(self) -> str:
        """The plugin and its version, or the library's file."""
        subject = self.subject
        who = subject["distribution"] or subject["library"] or subject["platform"]
        return f"{who} {subject['version']}".strip()

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """The cases in which the backend is wrong."""
        return tuple(result for result in self.results if result.status.is_failure)

    @property
    def ok(self) -> bool:
        """Whether something passed and nothing failed, of a run that was not ended early."""
        passed = any(result.status is Status.PASSED for result in self.results)
        return passed and not self.failures and not self.ended_early

    @property
    def ended_early(self) -> str:
        """What ended the run before all cases had run; empty if nothing did."""
        return str(self.environment.get("ended_early", ""))

    def verdict(self) -> str:
        """Return how it ended, in one line."""
        number = len(self.results)
        if self.ended_early:
            return (
                f"ended early by {self.ended_early}; of {number} cases {len(self.failures)} failed"
            )
        if self.failures:
            return f"{len(self.failures)} of {number} cases failed"
        if not self.ok:
            return f"no case passed, of {number}"
        passed = sum(result.status is Status.PASSED for result in self.results)
        rest = f", {number - passed} are not applicable" if passed < number else ""
        absent = "; its client cannot be made here" if self.subject.get("problem") else ""
        return f"{passed} {'case' if passed == 1 else 'cases'} passed{rest}{absent}"

    def experimental_because(self) -> list[str]:
        """Return what speaks for calling the backend experimental; nothing if all is shown."""
        found = [f"{result.id} {result.status.words}" for result in self.failures]
        if problem := self.subject.get("problem"):
            found.append(f"its client cannot be made here: {problem}")
        ran = {result.level for result in self.results}
        absent = [level for level in LEVELS if level not in ("c_api", *ran)]
        return found + [f"no case of level {level} was run" for level in absent]

    def summary(self) -> dict[str, dict[str, int]]:
        """Return how many cases of each level ended how; of none where that is so."""
        counts: dict[str, Counter[str]] = {}
        for result in self.results:
            counts.setdefault(result.level, Counter())[result.status.value] += 1
        return {
            level: {status.value: count[status.value] for status in Status}
            for level, count in counts.items()
        }

    def not_applicable(self) -> dict[str, list[str]]:
        """Return the cases that do not apply, by the reason."""
        found: dict[str, list[str]] = {}
        for result in self.results:
            if result.status is Status.NOT_APPLICABLE:
                found.setdefault(result.reason, []).append(result.id)
        return found

    def coverage(self) -> dict[str, list[str]]:
        """Return what of the C API was exercised; see `devrt.testing.conformance.coverage`."""
        return coverage(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        covered = self.coverage()
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "subject": dict(self.subject),
            "environment": dict(self.environment),
            "experimental_because": self.experimental_because(),
            "summary": self.summary(),
            "not_applicable": self.not_applicable(),
            **({"c_api": covered} if covered else {}),
            "cases": [_to_dict(result) for result in self.results],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Read a report that `save` wrote.

        Raises
        ------
        InvalidArgumentError
            If the file is none, or of a newer form.
        """
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            schema = document["schema"]
            if schema == SCHEMA:
                subject, environment = document["subject"], document["environment"]
                _check_is(dict, subject=subject, environment=environment)
                _check_is(list, cases=document["cases"])
                return cls(subject, environment, _results(document["cases"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            msg = f"{path} is no report of devrt conform: {type(error).__name__}: {error}."
            raise InvalidArgumentError(msg, path=str(path)) from error
        msg = f"{path} is a report of form {schema!r}, and this devrt reads form {SCHEMA}."
        raise InvalidArgumentError(f"{msg} Use the devrt that wrote it.", path=str(path))


def _to_dict(result: CaseResult) -> dict[str, Any]:
    fields = dataclasses.asdict(result)
    return {"level": result.level, **fields, "seconds": round(result.seconds, 4)}


def _check_is(kind: type, /, **values: object) -> None:
    for name, value in values.items():
        if not isinstance(value, kind):
            wanted = _JSON_NAMES[kind]
            raise TypeError(f"{name} must be {wanted}, not {json.dumps(value)[:80]}")


_JSON_NAMES: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}
_TEXTS = ("id", "title", "contract", "status", "expected", "came", "reason", "output")


def _results(cases: list[Any]) -> tuple[CaseResult, ...]:
    results = tuple(map(_from_dict, cases))
    for name, count in Counter(result.id for result in results).items():
        if count > 1:
            raise ValueError(f"it has the case {name} {count} times")
    return results


def _from_dict(fields: Any) -> CaseResult:
    _check_is(dict, case=fields)
    known = {field.name: fields[field.name] for field in dataclasses.fields(CaseResult)}
    _check_is(str, **{name: known[name] for name in _TEXTS})
    _check_is(dict, notes=known["notes"])
    _check_is(list, **known["notes"])
    for kind, names in known["notes"].items():
        for name in names:
            _check_is(str, **{kind: name})
    notes = {kind: tuple(names) for kind, names in known["notes"].items()}
    seconds = known["seconds"]
    if type(seconds) not in (int, float) or not 0 <= seconds <= sys.float_info.max:
        raise ValueError(f"seconds must be a number from zero on, not {json.dumps(seconds)[:80]}")
    fitting = {"seconds": float(seconds), "status": Status(known["status"]), "notes": notes}
    return CaseResult(**{**known, **fitting})
