"""The example backend does what the contract says, as ``pytest --devrt-plugin=acme`` sees too."""

from pathlib import Path

import pytest

from devrt.testing import import_findings
from devrt.testing.conformance import LEVELS, conform


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "c_api"])
def test_every_case_passes(level):
    report = conform("acme", level)
    assert [f"{result.id}: {result.came}" for result in report.failures] == []


def test_it_imports_what_a_backend_may():
    assert import_findings(Path(__file__).parents[1]) == []
