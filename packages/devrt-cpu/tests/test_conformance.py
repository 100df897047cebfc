"""The CPU backend does what the contract says: every case of the conformance kit."""

import pytest

from devrt.testing.conformance import LEVELS, conform
from support import xla_cpu_library


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "c_api"])
def test_every_case_passes(level, monkeypatch):
    xla_cpu_library()
    monkeypatch.setenv("DEVRT_NUM_CPU_DEVICES", "4")
    monkeypatch.delenv("TEST_LEAK_WARNINGS", raising=False)  # users do not set it, and forks differ
    report = conform("cpu", level)
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    assert report.subject["device_count"] == 4
