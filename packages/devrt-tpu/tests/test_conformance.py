"""The loader's client of a PJRT library does what the contract says."""

import pytest

from devrt.testing.conformance import LEVELS, conform
from support import xla_cpu_library


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "c_api"])
def test_every_case_passes(level):
    report = conform(xla_cpu_library(), level)
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    assert report.subject["device_count"] >= 1
