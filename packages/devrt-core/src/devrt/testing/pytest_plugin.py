"""The conformance kit as tests: ``pytest --devrt-plugin=acme`` has an item for each case.

pytest imports this module wherever devrt-core is installed, so that it imports nothing but pytest
until the option is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from devrt.testing.conformance import Case, CaseResult, Worker

__all__: list[str] = []

_WORKER: pytest.StashKey[Worker] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the kit."""
    group = parser.getgroup("devrt", "conformance of a backend of devrt")
    group.addoption(
        "--devrt-plugin",
        metavar="NAME",
        help="hold a backend to the contract: a platform, platform@distribution, or the path of a "
        "PJRT library",
    )
    group.addoption("--devrt-level", metavar="LEVEL", help="only the cases of this level")


@pytest.hookimpl(tryfirst=True)  # so that -k and -m choose among the cases too
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add an item for each case, if a plugin is named."""
    name = session.config.getoption("--devrt-plugin")
    if name is not None:
        items += _Cases.from_parent(session, name=f"conform[{name}]").items()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the child process that the cases ran in."""
    if _WORKER in config.stash:
        config.stash[_WORKER].close()


class _Cases(pytest.Collector):
    """The cases of one backend."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        yield from self.items()

    def items(self) -> Iterator[_Item]:
        from devrt.errors import InvalidArgumentError, SelectionError
        from devrt.testing.conformance import Worker
        from devrt.testing.conformance.runner import chosen_cases
        from devrt.testing.conformance.subject import find_subject

        try:
            reference = find_subject(self.config.getoption("--devrt-plugin"))
            cases = chosen_cases(reference, self.config.getoption("--devrt-level"))
        except (InvalidArgumentError, SelectionError) as error:
            raise pytest.UsageError(str(error)) from error
        self.config.stash.setdefault(_WORKER, Worker(reference))
        yield from (_Item.from_parent(self, name=case.id, case=case) for case in cases)


class _Item(pytest.Item):
    """One case."""

    def __init__(self, *, case: Case, **fields: Any) -> None:
        super().__init__(**fields)
        self._case = case
        self.extra_keyword_matches.add(case.level)

    def runtest(self) -> None:
        worker = self.config.stash[_WORKER]
        result = worker.run(self._case)
        late, worker.late = worker.late, []
        wrong = [found for found in (*late, result) if found.status.is_failure]
        if wrong:
            raise _WrongError(wrong)
        if result.reason:
            pytest.skip(result.reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        error = excinfo.value
        return str(error) if isinstance(error, _WrongError) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"{self.name}: {self._case.title}"


class _WrongError(Exception):
    """The backend is not as the contract has it; an earlier case's child may have ended late."""

    def __init__(self, results: list[CaseResult]) -> None:
        super().__init__("\n\n".join(map(_text, results)))


def _text(result: CaseResult) -> str:
    lines = [
        f"{result.id} {result.status.words}: {result.title}",
        f"expected: {result.expected}",
        f"came: {result.came}",
        f"contract: {result.contract}",
        *(f"  | {line}" for line in result.output.splitlines()),
    ]
    return "\n".join(lines)
